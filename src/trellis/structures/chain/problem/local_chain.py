"""The locally normalised chain (maximum-entropy Markov model) as a problem for solvers.

    p(y | x) = p(y_1 | x_1) prod_{t>1} p(y_t | y_{t-1}, x_t),  each factor a softmax over the labels that may
    follow

    min_w  sum_i c_i (-log p(y_i | x_i; w)) + (l2 / 2) ||w||^2 + l1 ||w||_1

Sums over sequences and over their steps, not means. Given the labels, the steps are independent multinomial
logistic regressions on (features, previous label), which share their weights: the problem is convex. There
are no end scores, for nothing normalises them.

Constraints forbid transitions *before* normalising. A label that cannot be continued to the end of its
sequence is forbidden too, so that the probabilities of the allowed labellings always add up to 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.shards import over_shards
from trellis.data.labels import LabelSet
from trellis.data.sequences import step_name
from trellis.losses.labelings import Loss
from trellis.objectives.records import Log, Objective
from trellis.structures.chain.problem.chain_task import check_feasible
from trellis.structures.chain.problem.local_chain_kernels import local_gradient
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Design, Penalties
from trellis.structures.chain.scores.local_chain_scores import label_horizon


@dataclass(frozen=True, eq=False)
class LocalChainProblem:
    """``gold``: (N,), every label known. ``weight``: c_i, (S,)."""

    layout: LinearLayout
    design: Design
    penalties: Penalties
    gold: NDArray[np.int32]
    weight: FloatArray
    l2: float = 0.0
    l1: float = 0.0
    n_jobs: int = 1
    convex, latent, epsilon = True, False, 1.0
    objective = Log()

    @property
    def dimension(self) -> int:
        return self.layout.dimension

    @property
    def n_examples(self) -> int:
        return len(self.design.offsets) - 1

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        values = np.empty(self.n_examples)
        w, rows = self.layout.views(weights), self.layout.rows
        horizon = label_horizon(self.penalties, self.design.offsets)

        def shard(first: int, last: int) -> FloatArray:
            gradient = np.zeros(self.dimension)
            local_gradient(
                self.design, rows, w, self.penalties, horizon, self.gold, self.weight, first, last,
                self.layout.views(gradient), values,
            )  # fmt: skip
            return gradient

        gradient, *others = over_shards(shard, self.design.offsets, self.n_jobs)
        for other in others:
            gradient += other
        self.layout.views(gradient).end[:] = 0.0
        check_feasible(values)
        return float(values @ self.weight), self.layout.masked(gradient)


def local_problem(
    examples: Any,
    layout: LinearLayout,
    penalties: Penalties,
    names: LabelSet,
    objective: Objective,
    loss: Loss,
    weight: FloatArray,
    cost: FloatArray | None,
    *,
    keep_scratch: bool = True,
    **options: Any,
) -> LocalChainProblem:
    """The problem of encoded ``examples`` (inputs and labels). It takes what problems of all chains are made
    of; names, objective, loss and scratch do not concern it."""
    labels = examples.labels
    unknown = np.flatnonzero(labels.codes < 0)
    if unknown.size:
        raise UnsupportedError(
            f"the label of {step_name(labels.offsets, int(unknown[0]))} is not known; MEMM learns from "
            "complete labellings only: use SequenceLabeler(objective='log')"
        )
    design = layout.design(examples.inputs, sort=True)
    return LocalChainProblem(layout, design, penalties, labels.codes, weight, **options)
