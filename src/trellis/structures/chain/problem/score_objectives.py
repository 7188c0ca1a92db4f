"""Objectives on given part scores: the seam for any scorer, a neural network's too.

    values_i = f_i(scores)          gradient = d(sum_i values_i) / d(part scores)

A scorer pulls the gradient back into its own weights. Losses that are sums of costs and the 0-1 loss are
exact here (slack rescaling as its docstring says); a loss that does not decompose needs candidates, see
:mod:`trellis.structures.chain.problem.chain_candidates`.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.core.shards import over_shards
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import step_name
from trellis.losses.labelings import Loss, get_loss
from trellis.objectives.records import Direct, Objective, get_objective
from trellis.structures.chain.problem.objective_kernels import COSTS, NO_LOSS, ZERO_ONE
from trellis.structures.chain.problem.score_objective_kernels import dense_scores, path_scores
from trellis.structures.chain.scores.chain_scores import ChainParts, ChainScores


def value_and_gradient(
    objective: str | Objective,
    scores: ChainScores,
    gold: EncodedLabels,
    loss: str | Loss,
    labels: LabelSet,
    *,
    epsilon: float | None = None,
    n_jobs: int = 1,
) -> tuple[FloatArray, ChainParts]:
    """Values (S,) of an objective, and the (sub)gradient of their sum in the part scores.

    ``epsilon`` replaces that of the direct objective, and must be given where that one is a schedule.
    """
    objective = get_objective(objective)
    kind, cost = loss_table(objective, get_loss(loss), gold, labels)
    step = fixed_epsilon(objective, epsilon)
    _check_gold(scores, gold, len(labels))
    n, k = scores.unary.shape
    ambiguous = gold.ambiguous
    allowed = np.zeros((0, k), dtype=np.bool_) if gold.allowed is None else gold.allowed
    values, d_unary = np.zeros(scores.n_sequences), np.zeros((n, k))
    shared = scores.transitions.shape[0] == 1
    pairs = np.zeros_like(scores.transitions)

    def shard(first: int, last: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        d_trans = (
            np.zeros((1, k, k)) if shared else pairs
        )  # rows of per-step transitions belong to one shard each
        d_start, d_end = np.zeros(k), np.zeros(k)
        data = scores.unary, scores.transitions, scores.start, scores.end, scores.offsets, first, last
        task = gold.codes, ambiguous, allowed, cost, values, d_unary, d_trans, d_start, d_end
        if objective.two_labelings:
            path_scores(objective.kernel_mode, kind, step, *data, *task)
        else:
            dense_scores(objective.kernel_mode, kind, *data, *task)
        return d_trans, d_start, d_end

    start, end = np.zeros(k), np.zeros(k)
    for d_trans, d_start, d_end in over_shards(shard, scores.offsets, n_jobs):
        pairs = pairs + d_trans if shared else pairs
        start += d_start
        end += d_end
    check_feasible(values)
    return values, ChainParts(d_unary, pairs, start, end)


def loss_table(
    objective: Objective, loss: Loss, gold: EncodedLabels, labels: LabelSet
) -> tuple[int, FloatArray]:
    """How the kernels take the loss, and its table of costs, (N, K) or (0, K)."""
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


def fixed_epsilon(objective: Objective, epsilon: float | None) -> float:
    """The number that divides the direct gradient; 1 for objectives that have none."""
    if not isinstance(objective, Direct):
        return 1.0
    if epsilon is None:
        if isinstance(objective.epsilon, str):
            raise UnsupportedError(
                f"epsilon={objective.epsilon!r} is a schedule of a solver; give a positive number here"
            )
        epsilon = objective.epsilon
    if not (np.isfinite(epsilon) and epsilon > 0):
        raise UnsupportedError(
            f"epsilon={epsilon} must be positive and finite; choose the direction by sign="
        )
    return float(epsilon)


def check_feasible(values: FloatArray, first: int = 0) -> None:
    """Every labelling of a sequence forbidden, or a gold labelling that the constraints forbid; ``first`` is
    the number of the first sequence."""
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InfeasibleError(
            f"sequence {first + bad[0]} has no allowed labelling, or its gold labelling is not allowed, "
            "under the constraints; allow its labels and transitions, or drop the sequence"
        )


def _check_gold(scores: ChainScores, gold: EncodedLabels, n_labels: int) -> None:
    """Kernels trust codes and offsets."""
    k = scores.n_labels
    if n_labels != k:
        raise DataError(f"there are {n_labels} labels, but the scores have {k}; they must be equal")
    if not np.array_equal(gold.offsets, scores.offsets):
        raise DataError(
            "the gold labels and the scores have sequences of different lengths; they must be equal"
        )
    outside = np.flatnonzero((gold.codes >= k) | (gold.codes < (0 if gold.allowed is None else -1)))
    if outside.size:
        t = int(outside[0])
        raise DataError(
            f"the gold label of {step_name(gold.offsets, t)} has the code {gold.codes[t]}; codes run from 0 "
            f"to {k - 1}"
        )
    if gold.allowed is not None and gold.allowed.shape != scores.unary.shape:
        raise DataError(f"allowed labels have shape {gold.allowed.shape}; it must be {scores.unary.shape}")
