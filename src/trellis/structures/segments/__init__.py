"""Segmentations: a signal cut into segments, each with a label, a start and a duration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

if TYPE_CHECKING:
    from trellis.structures.segments.oracle.segment_oracle import Segmentation as Segmentation
    from trellis.structures.segments.problem.alignment_losses import TauAlignment as TauAlignment
    from trellis.structures.segments.problem.alignment_losses import TauInsensitive as TauInsensitive
    from trellis.structures.segments.problem.segment_problem import SegmentExample as SegmentExample
    from trellis.structures.segments.problem.segment_problem import SegmentProblem as SegmentProblem
    from trellis.structures.segments.scores.known_boundaries import KnownStarts as KnownStarts
    from trellis.structures.segments.scores.segment_graph import SegmentGraph as SegmentGraph
    from trellis.structures.segments.scores.segment_graph import SegmentPath as SegmentPath
    from trellis.structures.segments.scores.segment_scores import SegmentFeatures as SegmentFeatures
    from trellis.structures.segments.scores.segment_scores import SegmentScores as SegmentScores

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "oracle.segment_oracle": "Segmentation",
        "problem.alignment_losses": "TauAlignment TauInsensitive",
        "problem.segment_problem": "SegmentExample SegmentProblem",
        "scores.known_boundaries": "KnownStarts",
        "scores.segment_graph": "SegmentGraph SegmentPath",
        "scores.segment_scores": "SegmentFeatures SegmentScores",
    },
)
