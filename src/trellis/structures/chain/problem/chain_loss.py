"""How the kernels of chains take a loss, and the check of what they give."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import Loss
from trellis.objectives.records import Objective
from trellis.structures.chain.problem.objective_kernels import COSTS, NO_LOSS, ZERO_ONE


def loss_table(
    objective: Objective, loss: Loss, gold: EncodedLabels, labels: LabelSet
) -> tuple[int, FloatArray]:
    """The kind of loss, and its table of costs, (N, K) or (0, K)."""
    nothing = np.zeros((0, len(labels)))
    if not objective.uses_loss:
        return NO_LOSS, nothing
    if loss.kind == "zero_one":
        return ZERO_ONE, nothing
    if loss.kind == "costs":
        return COSTS, loss.costs(gold, labels)
    raise UnsupportedError(
        f"the loss {loss.name!r} is not a sum over steps, so part scores alone do not suffice; use 'hamming' "
        "or 'zero_one', or CandidateProblem, which re-ranks candidates"
    )


def check_feasible(values: FloatArray, first: int = 0) -> None:
    """Every labelling of a sequence forbidden, or a gold labelling that the constraints forbid; ``first`` is
    the number of the first sequence."""
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InfeasibleError(
            f"sequence {first + bad[0]} has no allowed labelling, or its gold labelling is not allowed, "
            "under the constraints; allow its labels and transitions, or drop the sequence"
        )
