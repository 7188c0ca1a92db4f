"""The oracle of segmentations: best path, log-partition and expected parts, gaps. See the kernels for how."""

from __future__ import annotations

from dataclasses import dataclass

from trellis.scores.parts import FloatArray
from trellis.scores.segments import SegmentParts, SegmentPath, SegmentScores


@dataclass(frozen=True, eq=False)
class SegmentMarginals:
    """log sum over paths of exp(score), and the expected parts; ``parts.starts[i, t]`` is P(node i starts at t)."""

    log_partition: float
    parts: SegmentParts


class Segmentation:
    """Every question about the segmentations of one utterance. Stateless; safe to use from several threads."""

    def best(self, scores: SegmentScores, boundary_bonus: FloatArray | None = None) -> SegmentPath:
        """argmax over paths of score + bonus; the path's ``score`` includes the bonus."""
        raise NotImplementedError

    def score_of(self, scores: SegmentScores, path: SegmentPath) -> float:
        """The score of a path; ``InfeasibleError`` if the graph does not allow it."""
        scores.graph.check(path)
        return scores.of_path(path)

    def log_partition(self, scores: SegmentScores) -> float:
        """log sum over paths of exp(score)."""
        return self.marginals(scores).log_partition

    def marginals(self, scores: SegmentScores) -> SegmentMarginals:
        """Under p(path) proportional to exp(score): boundary marginals and all expected parts."""
        raise NotImplementedError

    def gaps(
        self, scores: SegmentScores, path: SegmentPath, apart: int = 0, largest: float = float("inf")
    ) -> FloatArray:
        """(n,): for each node of the best ``path``, its score minus that of the best path on which the node
        starts more than ``apart`` frames elsewhere, or is left out; never more than ``largest``."""
        raise NotImplementedError
