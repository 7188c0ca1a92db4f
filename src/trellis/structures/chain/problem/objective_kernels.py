# mypy: allow-untyped-defs
"""Every objective on one chain: its value, and its gradient with respect to the part scores.

With s the score, L the loss against the gold labelling y*, and y_hat = argmax s:

    PERCEPTRON       max s - s(y*)                           1[y_hat] - 1[y*]
    MARGIN           max (s + L) - s(y*)                     1[y_aug] - 1[y*]
    SLACK            max L (1 + s - s(y*))                   L(y_s) (1[y_s] - 1[y*])
    RAMP             max (s + L) - max s                     1[y_aug] - 1[y_hat]
    DIRECT_BETTER    L(y_hat)                                (1[y_hat] - 1[y_direct]) / eps
    DIRECT_WORSE     L(y_hat)                                (1[y_direct] - 1[y_hat]) / eps
    LOG              log sum exp s - s(y*)                   marginals - 1[y*]
    SOFTMAX_MARGIN   log sum exp (s + L) - s(y*)             augmented marginals - 1[y*]
    RISK             E_p L                                   Cov(L, part)

y_direct is argmax s - eps L (better) or argmax s + eps L (worse). The first six are differences of two
labellings ("paths"): ``coefficient * (1[up] - 1[down])``. The other three have dense gradients. Where the
gold labelling is only partly known, s(y*) becomes the maximum (paths) or the log-sum-exp (dense) over the
labellings that are allowed, and 1[y*] the maximiser or the marginals of that: the latent form.

A loss is a table of costs per step and label (``COSTS``), or the 0-1 loss of the whole labelling
(``ZERO_ONE``), for which the best labelling different from the gold one is found exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.chain_kernels import forward_backward, lanes, score_labels, viterbi
from trellis.structures.chain.oracle.outside_kernels import agrees, best_outside
from trellis.structures.chain.oracle.risk_kernels import expected_loss
from trellis.structures.chain.oracle.search_kernels import best_different

PERCEPTRON, MARGIN, SLACK, RAMP, DIRECT_BETTER, DIRECT_WORSE, LOG, SOFTMAX_MARGIN, RISK = range(9)
FIRST_DENSE = LOG
NO_LOSS, COSTS, ZERO_ONE = range(3)
SLACK_ORACLE_CALLS = 40


class Work(NamedTuple):
    """Scratch for sequences of up to n steps; ``m`` is 1 for shared transitions and n for per-step ones."""

    u: NDArray[np.float64]  # (n, K) scores of the sequence
    a: NDArray[np.float64]  # (m, K, K)
    u2: NDArray[np.float64]  # (n, K) augmented or restricted scores
    v: NDArray[np.float64]  # (n, K)
    alpha: NDArray[np.float64]  # (n, lanes(K)), as the messages below
    e: NDArray[np.float64]  # (n, lanes(K))
    scale: NDArray[np.float64]  # (n,)
    beta: NDArray[np.float64]  # (lanes(K),)
    ea: NDArray[np.float64]  # (m, K, K)
    ea_t: NDArray[np.float64]  # (m, K, K)
    shift: NDArray[np.float64]  # (m,)
    outer: NDArray[np.float64]  # (lanes(K), lanes(K))
    d_unary: NDArray[np.float64]  # (n, K) dense gradient
    d_trans: NDArray[np.float64]  # (m, K, K)
    d_unary2: NDArray[np.float64]  # (n, K)
    d_trans2: NDArray[np.float64]  # (m, K, K)
    up: NDArray[np.int32]  # (n,) the labelling that the gradient pushes down the scores of
    down: NDArray[np.int32]  # (n,)
    other: NDArray[np.int32]  # (n,)
    start: NDArray[np.float64]  # (K,) start scores with penalties
    end: NDArray[np.float64]  # (K,)
    bound: NDArray[np.float64]  # (1,) how far the slack oracle's upper bound lies above its value


@kernel
def new_work(n, K, per_step):
    """Scratch for sequences of up to n steps."""
    n = max(n, 1)
    m = n if per_step else 1
    size = lanes(K)
    return Work(
        np.empty((n, K)),
        np.zeros((m, K, K)),
        np.empty((n, K)),
        np.empty((n, K)),
        np.empty((n, size)),
        np.zeros((n, size)),
        np.empty(n),
        np.empty(size),
        np.zeros((m, size, size)),
        np.zeros((m, size, size)),
        np.zeros(m),
        np.zeros((size, size)),
        np.zeros((n, K)),
        np.zeros((m, K, K)),
        np.zeros((n, K)),
        np.zeros((m, K, K)),
        np.zeros(n, dtype=np.int32),
        np.zeros(n, dtype=np.int32),
        np.zeros(n, dtype=np.int32),
        np.zeros(K),
        np.zeros(K),
        np.zeros(1),
    )


@kernel
def path_cost(loss_kind, cost, gold, path, n):
    """L(y*, path) under a table of costs, or 0-1 for a gold labelling that is known."""
    total = 0.0
    if loss_kind == COSTS:
        for t in range(n):
            total += cost[t, path[t]]
    elif loss_kind == ZERO_ONE:
        for t in range(n):
            if path[t] != gold[t]:
                return 1.0
    return total


@kernel
def _partial_cost(loss_kind, cost, gold, ambiguous, allowed, path, n):
    """L(y*, path); the 0-1 loss of a partly known labelling is 1 where ``path`` contradicts what is known."""
    if not ambiguous or loss_kind != ZERO_ONE:
        return path_cost(loss_kind, cost, gold, path, n)
    for t in range(n):
        if not agrees(gold, allowed, t, path[t]):
            return 1.0
    return 0.0


@kernel
def _copy(source, target, n):
    for t in range(n):
        target[t] = source[t]


@kernel
def restrict(u, gold, allowed, out):
    """Scores of the labellings that agree with what is known: -inf elsewhere, and where ``u`` already is."""
    n, K = u.shape
    for t in range(n):
        for k in range(K):
            out[t, k] = u[t, k] if u[t, k] > -np.inf and agrees(gold, allowed, t, k) else -np.inf


@kernel
def gold_path(u, a, start, end, gold, ambiguous, allowed, work, path):
    """y* into ``path`` and its score: the gold labelling, or the best allowed one where that is partial."""
    n = u.shape[0]
    if not ambiguous:
        _copy(gold, path, n)
        return score_labels(u, a, start, end, gold)
    restrict(u, gold, allowed, work.u2[:n])
    return viterbi(work.u2[:n], a, start, end, work.v[:n], path)


@kernel
def augmented_path(u, a, start, end, loss_kind, scale, gold, ambiguous, allowed, cost, work, path):
    """argmax_y s(y) + scale L(y*, y) into ``path``; returns the maximum. For 0-1, ties go to y*."""
    n = u.shape[0]
    if loss_kind == ZERO_ONE:
        best = gold_path(u, a, start, end, gold, ambiguous, allowed, work, work.other)
        if ambiguous:
            other = best_outside(u, a, start, end, gold, allowed, work.u2[:n], work.v[:n], path)
        else:
            other = best_different(u, a, start, end, gold, work.v[:n], work.scale[:n], path)
        if other + scale > best:
            return other + scale
        _copy(work.other, path, n)
        return best
    return _scaled_costs_path(u, a, start, end, scale, cost, work, path)


@kernel
def _scaled_costs_path(u, a, start, end, scale, cost, work, path):
    """argmax_y s(y) + scale sum_t cost[t, y_t]."""
    n, K = u.shape
    for t in range(n):
        for k in range(K):
            work.u2[t, k] = u[t, k] + scale * cost[t, k]
    return viterbi(work.u2[:n], a, start, end, work.v[:n], path)


@kernel
def slack_path(u, a, start, end, gold_score, cost, work, path):
    """max_y L(y) (1 + s(y) - s(y*)) over the vertices of the upper hull of {(L(y), s(y))}, into ``path``.

    argmax s + lambda L walks along that hull: from its two ends, each query with the slope between two known
    vertices finds the vertex furthest above their chord, or shows that there is none. A pair of neighbours is
    left aside when no point below their two lines can beat the best product. What the hull hides (below
    a chord) is bounded by the best product on the chord: ``work.bound`` gets the largest such excess, and 0
    certifies that the value is the exact maximum. ``work.down`` holds y* already.
    """
    n = u.shape[0]
    stack = np.empty((SLACK_ORACLE_CALLS + 2, 4))
    best, bound = 0.0, 0.0
    _copy(work.down, path, n)
    # Ends of the hull: the best score, and (for a very large lambda) the largest loss.
    s0 = viterbi(u, a, start, end, work.v[:n], work.other)
    l0 = path_cost(COSTS, cost, work.down, work.other, n)
    if l0 * (1.0 + s0 - gold_score) > best:
        best = l0 * (1.0 + s0 - gold_score)
        _copy(work.other, path, n)
    top = 1e6 * (1.0 + abs(s0) + abs(gold_score))
    _scaled_costs_path(u, a, start, end, top, cost, work, work.other)
    l1 = path_cost(COSTS, cost, work.down, work.other, n)
    s1 = score_labels(u, a, start, end, work.other)
    if l1 * (1.0 + s1 - gold_score) > best:
        best = l1 * (1.0 + s1 - gold_score)
        _copy(work.other, path, n)
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = l0, s0, l1, s1
    size, calls = 1, 2
    while size > 0:
        size -= 1
        l0, s0, l1, s1 = stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3]
        if l1 <= l0 + 1e-12:
            continue
        slope = (s0 - s1) / (l1 - l0)  # > 0: the hull falls from the best score to the largest loss
        if calls >= SLACK_ORACLE_CALLS:
            # No call left: everything between the two lies below s0 and left of l1.
            bound = max(bound, l1 * (1.0 + s0 - gold_score))
            continue
        value = _scaled_costs_path(u, a, start, end, slope, cost, work, work.other)
        calls += 1
        # Points between the two satisfy s + slope L <= value: the best product on that line bounds them all.
        chord = _best_on_line(value - gold_score, slope, l0, l1)
        if chord <= best * (1.0 + 1e-12):
            continue
        l2 = path_cost(COSTS, cost, work.down, work.other, n)
        s2 = score_labels(u, a, start, end, work.other)
        if value <= s0 + slope * l0 + 1e-9 * (1.0 + abs(value)):
            bound = max(bound, chord)  # no vertex above the chord: only hidden points are left
            continue
        if l2 * (1.0 + s2 - gold_score) > best:
            best = l2 * (1.0 + s2 - gold_score)
            _copy(work.other, path, n)
        stack[size, 0], stack[size, 1], stack[size, 2], stack[size, 3] = l0, s0, l2, s2
        stack[size + 1, 0], stack[size + 1, 1], stack[size + 1, 2], stack[size + 1, 3] = l2, s2, l1, s1
        size += 2
    work.bound[0] = max(0.0, bound - best)
    return best


@kernel
def _best_on_line(height, slope, low, high):
    """max over losses x in [low, high] of x (1 + height - slope x)."""
    x = (1.0 + height) / (2.0 * slope) if slope > 0.0 else high
    x = min(max(x, low), high)
    return x * (1.0 + height - slope * x)


@kernel
def path_example(mode, loss_kind, epsilon, u, a, start, end, gold, ambiguous, allowed, cost, work):
    """(value, coefficient) of a path objective; the gradient is coefficient * (1[work.up] - 1[work.down])."""
    n = u.shape[0]
    up, down = work.up, work.down
    if n == 0:
        return 0.0, 0.0
    if mode == PERCEPTRON:
        best = viterbi(u, a, start, end, work.v[:n], up)
        return best - gold_path(u, a, start, end, gold, ambiguous, allowed, work, down), 1.0
    if mode == MARGIN or (mode == SLACK and loss_kind == ZERO_ONE):  # L is 0 or 1: the two are the same
        s = gold_path(u, a, start, end, gold, ambiguous, allowed, work, down)
        best = augmented_path(u, a, start, end, loss_kind, 1.0, gold, ambiguous, allowed, cost, work, up)
        return best - s, 1.0
    if mode == RAMP:
        best = augmented_path(u, a, start, end, loss_kind, 1.0, gold, ambiguous, allowed, cost, work, up)
        return best - viterbi(u, a, start, end, work.v[:n], down), 1.0
    if mode == SLACK:
        s = gold_path(u, a, start, end, gold, ambiguous, allowed, work, down)
        if s == -np.inf:
            return np.inf, 0.0
        best = slack_path(u, a, start, end, s, cost, work, up)
        return best, path_cost(COSTS, cost, gold, up, n)
    # The direct objectives: y_hat is pushed down (toward better) or raised (away from worse).
    y_hat, y_direct = (up, down) if mode == DIRECT_BETTER else (down, up)
    scale = -epsilon if mode == DIRECT_BETTER else epsilon
    if viterbi(u, a, start, end, work.v[:n], y_hat) == -np.inf:
        return np.nan, 0.0
    augmented_path(u, a, start, end, loss_kind, scale, gold, ambiguous, allowed, cost, work, y_direct)
    return _partial_cost(loss_kind, cost, gold, ambiguous, allowed, y_hat, n), 1.0 / epsilon


@kernel
def _sum_over_labellings(u, a, start, end, floor, work, d_unary, d_trans):
    """log Z, with the marginals written into ``d_unary`` and ``d_trans``."""
    K = u.shape[1]
    if a.shape[0] == 1:
        work.outer[:] = 0.0
        d_trans[0] = 0.0
    log_z = forward_backward(
        u, a, start, end, floor, work.ea, work.ea_t, work.shift, work.alpha, work.e, work.scale, work.beta,
        d_unary, work.outer, d_trans,
    )  # fmt: skip
    if a.shape[0] == 1:
        for j in range(K):
            for k in range(K):
                d_trans[0, j, k] += work.outer[j, k] * work.ea[0, j, k]
    return log_z


@kernel
def _gold_sum(u, a, start, end, floor, gold, ambiguous, allowed, work, d_unary, d_trans):
    """log sum exp of the allowed labellings (the gold score, if all is known), with its marginals."""
    n = u.shape[0]
    step = 0 if a.shape[0] == 1 else 1
    if ambiguous:
        restrict(u, gold, allowed, work.u2[:n])
        return _sum_over_labellings(work.u2[:n], a, start, end, floor, work, d_unary, d_trans)
    d_unary[:n] = 0.0
    d_trans[: 1 if step == 0 else n] = 0.0
    for t in range(n):
        d_unary[t, gold[t]] = 1.0
        if t > 0:
            d_trans[t * step, gold[t - 1], gold[t]] += 1.0
    return score_labels(u, a, start, end, gold)


@kernel
def dense_example(mode, loss_kind, u, a, start, end, gold, ambiguous, allowed, cost, floor, work):
    """The value of a dense objective; its gradient goes into ``work.d_unary`` and ``work.d_trans``."""
    n, K = u.shape
    if n == 0:
        return 0.0
    m = 1 if a.shape[0] == 1 else n
    d_unary, d_trans = work.d_unary, work.d_trans
    if mode == RISK and loss_kind == COSTS:
        d_unary[:n] = 0.0
        d_trans[:m] = 0.0
        return expected_loss(u, a, start, end, cost, d_unary, d_trans[:m], work.beta, work.beta, 1.0)
    gold_known = mode == LOG and not ambiguous
    gold_sum = 0.0
    if not gold_known:
        gold_sum = _gold_sum(
            u, a, start, end, floor, gold, ambiguous, allowed, work, work.d_unary2, work.d_trans2
        )
    scores = u
    if mode == SOFTMAX_MARGIN and loss_kind == COSTS:
        scores = work.u2[:n]
        for t in range(n):
            for k in range(K):
                scores[t, k] = u[t, k] + cost[t, k]
    log_z = _sum_over_labellings(scores, a, start, end, floor, work, d_unary, d_trans)
    if gold_known:  # the fast path of the CRF: no second table to subtract
        for t in range(n):
            d_unary[t, gold[t]] -= 1.0
            if t > 0:
                d_trans[t if m > 1 else 0, gold[t - 1], gold[t]] -= 1.0
        return log_z - score_labels(u, a, start, end, gold)
    # gradient = x * marginals - y * gold marginals
    p = math.exp(gold_sum - log_z)
    value, x, y = log_z - gold_sum, 1.0, 1.0
    if mode == RISK:  # 0-1: E L = 1 - p(y*)
        value, x, y = -math.expm1(gold_sum - log_z), p, p
    elif mode == SOFTMAX_MARGIN and loss_kind == ZERO_ONE:
        # Z' = e Z - (e - 1) exp s(y*): every labelling but the gold one is worth e times as much
        z = math.e - (math.e - 1.0) * p
        value += math.log(z)
        x, y = math.e / z, (math.e - 1.0) * p / z + 1.0
    for t in range(n):
        for k in range(K):
            d_unary[t, k] = x * d_unary[t, k] - y * work.d_unary2[t, k]
    for t in range(m):
        for j in range(K):
            for k in range(K):
                d_trans[t, j, k] = x * d_trans[t, j, k] - y * work.d_trans2[t, j, k]
    return value
