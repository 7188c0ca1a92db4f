# mypy: allow-untyped-defs
"""Scores of a few steps at a time, for chains of many labels: a table of all steps need not exist.

u[t, k] = unary[t, k]   or   sum_f x[t, f] W[f, k],      and then, by the question that is asked,

ALL     nothing: every labelling counts
LOSS    + scale * L_t(k), from a table of costs or, where there is none, 1 for every wrong label (Hamming)
GOLD    -inf for what disagrees with the gold labels
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.numerics import kernel
from trellis.structures.chain.scores.linear_chain_kernels import LABEL, score_features

ALL, LOSS, GOLD = range(3)


class StepScores(NamedTuple):
    """``unary`` (N, K), or (0, K) and then features: those of :class:`.linear_chain_kernels.Design`, the
    labels of rows of weights, and the weights, flat and as hot rows (H, K)."""

    unary: FloatArray
    indptr: NDArray[np.int64]
    middle: NDArray[np.int64]
    indices: NDArray[np.uint32]
    places: NDArray[np.uint32]
    values: FloatArray
    pointer: NDArray[np.uint32]
    label: NDArray[np.uint16]
    flat: FloatArray
    hot: FloatArray


class Known(NamedTuple):
    """Gold labels (N,), -1 where ``allowed`` (N, K) tells; ``cost`` (N, K). Either table may have no rows."""

    gold: NDArray[np.int32]
    allowed: NDArray[np.bool_]
    cost: FloatArray


def table_scores(unary: FloatArray) -> StepScores:
    """Scores that are there already."""
    i64, u32, f64 = np.zeros(1, np.int64), np.zeros(0, np.uint32), np.zeros(0)
    label, hot = np.zeros(0, np.uint16), np.zeros((0, unary.shape[1]))
    return StepScores(unary, i64, i64, u32, u32, np.ones(1), u32, label, f64, hot)


@kernel
def is_gold(known, t, k):
    """Whether label k agrees with what is known of step t."""
    if known.gold[t] >= 0:
        return known.gold[t] == k
    return known.allowed[t, k]


@kernel
def load_steps(scores, known, question, scale, lo, hi, u):
    """The scores of steps lo..hi-1 into ``u``, as the question wants them."""
    K = u.shape[1]
    if scores.unary.shape[0] == 0:
        score_features(scores, scores.label, scores, lo, hi, u)
    for t in range(lo, hi):
        ut = u[t - lo]
        if scores.unary.shape[0] > 0:
            given = scores.unary[t]
            for k in range(K):
                ut[k] = given[k]
        if question == LOSS:
            if known.cost.shape[0] > 0:
                cost = known.cost[t]
                for k in range(K):
                    ut[k] += scale * cost[k]
            else:
                for k in range(K):
                    if not is_gold(known, t, k):
                        ut[k] += scale
        elif question == GOLD:
            for k in range(K):
                if not is_gold(known, t, k):
                    ut[k] = -np.inf


@kernel
def step_losses(known, lo, hi, path):
    """sum_t L_t(path[t]) of the steps lo..hi-1."""
    total = 0.0
    for t in range(lo, hi):
        if known.cost.shape[0] > 0:
            total += known.cost[t, path[t]]
        elif not is_gold(known, t, path[t]):
            total += 1.0
    return total


@kernel
def add_label(scores, t, k, weight, mask, g_flat):
    """g += weight * (features of step t, for label k); the labels of a row rise, so they are found by
    halving."""
    n_hot, K = scores.hot.shape
    one = scores.values.shape[0] == 1
    for p in range(scores.indptr[t], scores.indptr[t + 1]):
        f = scores.indices[p]
        x = weight * (1.0 if one else scores.values[p])
        q = np.int64(-1)
        if f < n_hot:
            q = np.int64(f) * K + k
        else:
            low, high = np.int64(scores.pointer[f]), np.int64(scores.pointer[f + np.uint32(1)])
            while low < high:
                middle = (low + high) // 2
                if (scores.label[middle] & LABEL) < k:
                    low = middle + 1
                else:
                    high = middle
            if low < np.int64(scores.pointer[f + np.uint32(1)]) and (scores.label[low] & LABEL) == k:
                q = low
        if q >= 0 and (mask.shape[0] == 0 or mask[q] != 0):
            g_flat[q] += x
