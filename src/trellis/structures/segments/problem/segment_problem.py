"""Learning the weights of segmentations: aligned utterances, an objective and an alignment loss as a problem.

The sum over utterances, the objectives and their scaling are those of
:mod:`trellis.objectives.example_problem`; here y is a segmentation, y* the reference and L an alignment loss.
Where only some boundaries of a reference are known (``KnownStarts``), the
others are hidden: y* is the set of the paths that agree with it, and the loss looks at what is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.core.oracle import Answer
from trellis.objectives.example_problem import ExampleProblem
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.problem.alignment_losses import AlignmentLoss
from trellis.structures.segments.scores.known_boundaries import KnownStarts
from trellis.structures.segments.scores.segment_scores import SegmentFeatures, SegmentPath


@dataclass(frozen=True, eq=False)
class SegmentExample:
    """``gold``: the reference on whole frames, or what is known of it. ``reference``: (P,) its starts for the
    loss, which may lie between frames, NaN for nodes without one; default: those of ``gold``. ``name`` is for
    messages.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.segments import SegmentExample, SegmentFeatures, SegmentGraph, SegmentPath
    >>> graph = SegmentGraph.chain(min_length=[1, 1], max_length=[3, 3])
    >>> frames = np.array([[0.0, 1, 2, 1, 0], [0, -1, -2, -1, 0]])
    >>> features = SegmentFeatures.of(graph, n_frames=4, prefix=frames[None])
    >>> SegmentExample(features, SegmentPath.of_chain([0, 2], 4)).gold.starts.tolist()
    [0, 2]
    """

    features: SegmentFeatures
    gold: SegmentPath | KnownStarts
    reference: FloatArray | None = None
    name: str = "an utterance"

    def __post_init__(self) -> None:
        frames, nodes = self.features.n_frames, self.features.graph.n_nodes
        if self.gold.n_frames != frames:
            raise InfeasibleError(
                f"the reference of {self.name} has {self.gold.n_frames} frames, its features {frames}"
            )
        if isinstance(self.gold, SegmentPath):
            self.features.graph.check(self.gold, f"the reference of {self.name}")
        elif self.gold.graph is not self.features.graph:
            raise DataError(f"the known starts of {self.name} belong to another graph than its features")
        if self.reference is not None and self.reference.shape != (nodes,):
            raise DataError(
                f"the reference of {self.name} has shape {self.reference.shape}; the graph has {nodes} nodes"
            )

    @cached_property
    def starts(self) -> FloatArray:
        """The reference of the loss, (P,)."""
        if self.reference is not None:
            return self.reference
        if isinstance(self.gold, KnownStarts):
            return self.gold.starts
        starts = np.full(self.features.graph.n_nodes, np.nan)
        starts[self.gold.nodes] = self.gold.starts
        return starts

    @property
    def latent(self) -> bool:
        return isinstance(self.gold, KnownStarts)

    @cached_property
    def gold_features(self) -> FloatArray:
        """Phi(x, y*) of a reference that is one path."""
        return self.features.of_path(self.gold_path)

    @property
    def gold_path(self) -> SegmentPath:
        if isinstance(self.gold, KnownStarts):
            raise UnsupportedError(
                f"only some boundaries of {self.name} are known; this needs a reference of all of them"
            )
        return self.gold


@dataclass(frozen=True, eq=False)
class SegmentProblem(ExampleProblem[SegmentExample, AlignmentLoss]):
    """The sum over utterances of an objective of their segmentations, plus the regulariser.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.objectives import Log
    >>> from trellis.structures.segments import (
    ...     SegmentExample, SegmentFeatures, SegmentGraph, SegmentPath, SegmentProblem, TauAlignment
    ... )
    >>> graph = SegmentGraph.chain(min_length=[1, 1], max_length=[3, 3])
    >>> frames = np.array([[0.0, 1, 2, 1, 0], [0, -1, -2, -1, 0]])
    >>> features = SegmentFeatures.of(graph, n_frames=4, prefix=frames[None])
    >>> example = SegmentExample(features, SegmentPath.of_chain([0, 2], 4))
    >>> problem = SegmentProblem([example], Log(), TauAlignment(0.0), l2=1.0)
    >>> round(float(problem.value_and_gradient(np.zeros(problem.dimension))[0]), 4)  # log 3
    1.0986
    """

    structure = "segmentations"
    noun = "utterance"

    @property
    def dimension(self) -> int:
        return self.examples[0].features.dimension

    @property
    def latent(self) -> bool:
        return any(example.latent for example in self.examples)

    def oracle(self, index: int, weights: FloatArray) -> SegmentOracle:
        return SegmentOracle(self.examples[index], weights, self.loss)

    def predict(self, weights: FloatArray) -> list[SegmentPath]:
        """The best path of each utterance."""
        return self.over_examples(lambda i: self.oracle(i, weights).path(0.0))


class SegmentOracle:
    """One utterance at given weights."""

    def __init__(self, example: SegmentExample, weights: FloatArray, loss: AlignmentLoss) -> None:
        self._example, self._loss = example, loss
        self._scores = example.features.scores(weights)

    @cached_property
    def _costs(self) -> FloatArray:
        return self._loss.table(self._example.starts, self._example.features.n_frames)

    def path(self, scale: float) -> SegmentPath:
        if scale == 0.0:
            return Segmentation().best(self._scores)
        return Segmentation().best(self._scores, self._costs if scale == 1.0 else scale * self._costs)

    def best(self, scale: float) -> Answer:
        path = self.path(scale)
        loss = self._loss.of_path(self._example.starts, path)
        return Answer(path.score, self._example.features.of_path(path), loss)

    def sum(self, scale: float) -> Answer:
        scores = self._scores if scale == 0.0 else self._scores.plus(scale * self._costs)
        marginals = Segmentation().marginals(scores)
        return Answer(marginals.log_partition, self._example.features.of_parts(marginals.parts))

    def gold_best(self) -> Answer:
        gold = self._example.gold
        if isinstance(gold, KnownStarts):
            path = Segmentation().best(gold.clamp(self._scores))
            return Answer(path.score, self._example.features.of_path(path))
        return Answer(self._scores.of_path(gold), self._example.gold_features)

    def gold_sum(self) -> Answer:
        gold = self._example.gold
        if isinstance(gold, KnownStarts):
            marginals = Segmentation().marginals(gold.clamp(self._scores))
            return Answer(marginals.log_partition, self._example.features.of_parts(marginals.parts))
        return self.gold_best()  # the reference is one path
