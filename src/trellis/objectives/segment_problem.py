"""Learning the weights of segmentations: aligned utterances, an objective and an alignment loss as a problem.

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2 + l1 ||w||_1        sums over utterances, not means

s(y) = w . Phi(x, y), y* the reference, L the alignment loss:

    perceptron       f = max_y s(y) - s(y*)
    margin           f = max_y (s(y) + L(y)) - s(y*)
    ramp             f = max_y (s(y) + L(y)) - max_y s(y)
    log              f = log sum_y exp s(y) - s(y*)
    softmax_margin   f = log sum_y exp(s(y) + L(y)) - s(y*)
    direct           f = L(y_hat), along (Phi(y_hat) - Phi(y_direct)) / eps with y_direct = argmax s - eps L
                     (``sign="better"``), or (Phi(y_direct) - Phi(y_hat)) / eps with argmax s + eps L
                     ("worse")

The update w <- w + eta (Phi(y_direct) - Phi(y_hat)) of one utterance at a time is then the solver
``MiniBatch(learning_rate=eta * eps, batch_size=1, schedule="constant", average=False)``; under
``Direct(epsilon="decay")`` it is ``MiniBatch(learning_rate=1.0, batch_size=1, average=False)`` with eps_t =
1 / sqrt(t), whose rate over eps_t stays 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from scipy.sparse import csr_array

from trellis.alignment_losses import AlignmentLoss
from trellis.errors import DataError, InfeasibleError, UnsupportedError
from trellis.inference.segments import Segmentation
from trellis.inference.shards import over_shards
from trellis.objectives.modes import Direct, Log, Margin, Objective, Perceptron, Ramp, SoftmaxMargin
from trellis.scores.parts import FloatArray
from trellis.scores.segments import SegmentFeatures, SegmentPath

Result = TypeVar("Result")
_SUPPORTED = (Perceptron, Margin, Ramp, Log, SoftmaxMargin, Direct)


@dataclass(frozen=True, eq=False)
class SegmentExample:
    """``gold``: the reference on whole frames. ``reference``: (P,) its starts for the loss, which may lie
    between frames, NaN for nodes without one; default: those of ``gold``. ``name`` is for messages."""

    features: SegmentFeatures
    gold: SegmentPath
    reference: FloatArray | None = None
    name: str = "an utterance"

    def __post_init__(self) -> None:
        frames, nodes = self.features.n_frames, self.features.graph.n_nodes
        if self.gold.n_frames != frames:
            raise InfeasibleError(
                f"the reference of {self.name} has {self.gold.n_frames} frames, its features {frames}"
            )
        self.features.graph.check(self.gold, f"the reference of {self.name}")
        if self.reference is not None and self.reference.shape != (nodes,):
            raise DataError(
                f"the reference of {self.name} has shape {self.reference.shape}; the graph has {nodes} nodes"
            )

    @cached_property
    def starts(self) -> FloatArray:
        """The reference of the loss, (P,)."""
        if self.reference is not None:
            return self.reference
        starts = np.full(self.features.graph.n_nodes, np.nan)
        starts[self.gold.nodes] = self.gold.starts
        return starts

    @cached_property
    def gold_features(self) -> FloatArray:
        """Phi(x, y*)."""
        return self.features.of_path(self.gold)


@dataclass(frozen=True, eq=False)
class SegmentProblem:
    """``weight``: c_i (n,), default 1. ``epsilon`` concerns the direct objective. ``n_jobs`` threads share
    out
    the utterances of a batch."""

    examples: Sequence[SegmentExample]
    objective: Objective
    loss: AlignmentLoss
    l2: float = 0.0
    l1: float = 0.0
    epsilon: float = 1.0
    weight: FloatArray | None = None
    n_jobs: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.objective, _SUPPORTED):
            names = ", ".join(c.name for c in _SUPPORTED)
            raise UnsupportedError(
                f"objective {self.objective.name!r} is not exact for segmentations; choose one of {names}"
            )
        if len(self.examples) == 0:
            raise DataError("there is no utterance to learn from")
        if self.weight is not None and self.weight.shape != (len(self.examples),):
            raise DataError(f"{len(self.examples)} utterances, but weights of shape {self.weight.shape}")

    @property
    def dimension(self) -> int:
        return self.examples[0].features.dimension

    @property
    def n_examples(self) -> int:
        return len(self.examples)

    @property
    def convex(self) -> bool:
        return self.objective.convex

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        return self._sum(weights, 0, self.n_examples, self.n_jobs)

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum c_i f_i over the utterances first..last-1, and its gradient: a mini-batch."""
        return self._sum(weights, first, last, self.n_jobs)

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        """c_i f_i(w) and a (sub)gradient of it: for path objectives the highest plane at w."""
        example, objective = self.examples[index], self.objective
        value, gradient = (
            self._path_objective(example, weights)
            if objective.path
            else self._sum_objective(example, weights)
        )
        c = 1.0 if self.weight is None else float(self.weight[index])
        return c * value, c * gradient

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        planes = self._over_examples(
            lambda i: self.example_plane(i, weights), 0, self.n_examples, self.n_jobs
        )
        return np.array([value for value, _ in planes]), csr_array(np.stack([g for _, g in planes]))

    def predict(self, weights: FloatArray) -> list[SegmentPath]:
        """The best path of each utterance."""
        return self._over_examples(lambda i: self._best(i, weights), 0, self.n_examples, self.n_jobs)

    def task_losses(self, weights: FloatArray) -> FloatArray:
        """L(reference, best path) of each utterance: its mean is the hold-out loss of early stopping."""
        paths = zip(self.examples, self.predict(weights), strict=True)
        return np.array([self.loss.of_path(example.starts, path) for example, path in paths])

    def with_(self, **changes: Any) -> SegmentProblem:
        return replace(self, **changes)

    def _best(self, index: int, weights: FloatArray) -> SegmentPath:
        return Segmentation().best(self.examples[index].features.scores(weights))

    def _path_objective(self, example: SegmentExample, weights: FloatArray) -> tuple[float, FloatArray]:
        features, objective, oracle = example.features, self.objective, Segmentation()
        scores = features.scores(weights)
        if isinstance(objective, Perceptron):
            best = oracle.best(scores)
            return best.score - scores.of_path(example.gold), features.of_path(best) - example.gold_features
        costs = self.loss.table(example.starts, features.n_frames)
        if isinstance(objective, Margin):
            worst = oracle.best(scores, costs)
            return worst.score - scores.of_path(example.gold), features.of_path(worst) - example.gold_features
        best = oracle.best(scores)
        if isinstance(objective, Direct):
            sign = -1.0 if objective.sign == "better" else 1.0
            adjusted = oracle.best(scores, sign * self.epsilon * costs)
            change = features.of_path(adjusted) - features.of_path(best)
            return self.loss.of_path(example.starts, best), sign * change / self.epsilon
        worst = oracle.best(scores, costs)
        return worst.score - best.score, features.of_path(worst) - features.of_path(best)

    def _sum_objective(self, example: SegmentExample, weights: FloatArray) -> tuple[float, FloatArray]:
        features = example.features
        scores = features.scores(weights)
        gold = scores.of_path(example.gold)
        if isinstance(self.objective, SoftmaxMargin):
            scores = scores.plus(self.loss.table(example.starts, features.n_frames))
        marginals = Segmentation().marginals(scores)
        return marginals.log_partition - gold, features.of_parts(marginals.parts) - example.gold_features

    def _over_examples(
        self, work: Callable[[int], Result], first: int, last: int, n_jobs: int
    ) -> list[Result]:
        """``[work(first), ..., work(last - 1)]`` on threads."""
        shards = over_shards(
            lambda a, b: [work(i) for i in range(first + a, first + b)], np.arange(last - first + 1), n_jobs
        )
        return [result for shard in shards for result in shard]

    def _sum(self, weights: FloatArray, first: int, last: int, n_jobs: int) -> tuple[float, FloatArray]:
        """Added up in the order of the utterances, whatever the number of threads."""
        planes = self._over_examples(lambda i: self.example_plane(i, weights), first, last, n_jobs)
        value, gradient = 0.0, np.zeros(self.dimension)
        for one_value, one_gradient in planes:
            value += one_value
            gradient += one_gradient
        return value, gradient
