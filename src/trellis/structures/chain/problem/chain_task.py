"""What is to be learned, as the kernels of chains take it: gold labels and loss; and the check of values."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import Loss
from trellis.objectives.records import Objective
from trellis.structures.chain.problem.chain_problem_kernels import Task
from trellis.structures.chain.problem.objective_kernels import COSTS, NO_LOSS, ZERO_ONE


def new_task(
    gold: EncodedLabels, n_labels: int, weight: FloatArray | None = None, cost: FloatArray | None = None
) -> Task:
    """``weight``: c_i of each sequence (S,), default 1. ``cost``: (N, K), if the loss has a table."""
    return Task(
        gold.codes,
        gold.ambiguous.astype(np.uint8),
        np.zeros((0, n_labels), np.bool_) if gold.allowed is None else gold.allowed,
        np.zeros((0, n_labels)) if cost is None else cost,
        np.ones(len(gold.offsets) - 1) if weight is None else weight,
    )


def loss_kind(objective: Objective, loss: Loss) -> int:
    if not objective.uses_loss:
        return NO_LOSS
    return ZERO_ONE if loss.kind == "zero_one" else COSTS


def loss_table(
    objective: Objective, loss: Loss, gold: EncodedLabels, labels: LabelSet
) -> tuple[int, FloatArray]:
    """The kind of loss, and its table of costs, (N, K) or (0, K)."""
    if objective.uses_loss and loss.kind == "candidates":
        raise UnsupportedError(
            f"the loss {loss.name!r} is not a sum over steps, so part scores alone do not suffice; use "
            "'hamming' or 'zero_one', or CandidateProblem, which re-ranks candidates"
        )
    kind = loss_kind(objective, loss)
    return kind, loss.costs(gold, labels) if kind == COSTS else np.zeros((0, len(labels)))


def check_feasible(values: FloatArray, first: int = 0) -> None:
    """Every labelling of a sequence forbidden, or a gold labelling that the constraints forbid; ``first`` is
    the number of the first sequence."""
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InfeasibleError(
            f"sequence {first + bad[0]} has no allowed labelling, or its gold labelling is not allowed, "
            "under the constraints; allow its labels and transitions, or drop the sequence"
        )
