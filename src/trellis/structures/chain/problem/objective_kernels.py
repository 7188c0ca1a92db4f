# mypy: allow-untyped-defs
"""Every objective on one chain: its value, and its gradient with respect to the part scores.

The record of the objective comes as numbers (:class:`trellis.objectives.formula_kernels.Formula`). With a
maximum as its total the gradient is a difference of two labellings ("paths"), ``coefficient * (1[up] -
1[down])``; with a sum it is dense. The special cases:

    SLACK     max L (1 + s - s(y*))     L(y_s) (1[y_s] - 1[y*])
    DIRECT    L(y_hat), or f_eps        (1[worse] - 1[better]) / eps: see :class:`trellis.objectives.Direct`
    RISK      E_p L                     Cov(L, part)

Where the gold labelling is only partly known, s(y*) becomes the maximum (paths) or the log-sum-exp (dense)
over the labellings that are allowed, and 1[y*] the maximiser or the marginals of that: the latent form.

A loss is a table of costs per step and label (``COSTS``), or the 0-1 loss of the whole labelling
(``ZERO_ONE``), for which the best labelling different from the gold one is found exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.numerics import kernel
from trellis.objectives.formula_kernels import BEST, DIRECT, GOLD, PLAIN, RISK, SLACK, apply_link
from trellis.objectives.links import IDENTITY
from trellis.structures.chain.oracle.chain_kernels import forward_backward, lanes, score_labels, viterbi
from trellis.structures.chain.oracle.outside_kernels import agrees, best_outside
from trellis.structures.chain.oracle.risk_kernels import expected_loss
from trellis.structures.chain.oracle.search_kernels import best_different

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
def _cut(pool, taken, size):
    """The next ``size`` numbers of a pool, from a cache line on."""
    first = taken[0]
    taken[0] = first + (size + 7) // 8 * 8
    return pool[first : first + size]


@kernel
def new_work(n, K, per_step):
    """Scratch for sequences of up to n steps.

    In one piece: whether LLVM's vector loops are entered depends on how arrays lie to one another, and so do
    the last bits of sums, which must not depend on the thread that allocates.
    """
    n = max(n, 1)
    m = n if per_step else 1
    size = lanes(K)
    pool = np.zeros(
        5 * n * K
        + 3 * m * K * K
        + 2 * n * size
        + 2 * m * size * size
        + size * size
        + n
        + m
        + size
        + 2 * K
        + 1
        + 8 * 24
    )
    taken = np.zeros(1, dtype=np.int64)
    return Work(
        _cut(pool, taken, n * K).reshape((n, K)),
        _cut(pool, taken, m * K * K).reshape((m, K, K)),
        _cut(pool, taken, n * K).reshape((n, K)),
        _cut(pool, taken, n * K).reshape((n, K)),
        _cut(pool, taken, n * size).reshape((n, size)),
        _cut(pool, taken, n * size).reshape((n, size)),
        _cut(pool, taken, n),
        _cut(pool, taken, size),
        _cut(pool, taken, m * size * size).reshape((m, size, size)),
        _cut(pool, taken, m * size * size).reshape((m, size, size)),
        _cut(pool, taken, m),
        _cut(pool, taken, size * size).reshape((size, size)),
        _cut(pool, taken, n * K).reshape((n, K)),
        _cut(pool, taken, m * K * K).reshape((m, K, K)),
        _cut(pool, taken, n * K).reshape((n, K)),
        _cut(pool, taken, m * K * K).reshape((m, K, K)),
        np.zeros(n, dtype=np.int32),
        np.zeros(n, dtype=np.int32),
        np.zeros(n, dtype=np.int32),
        _cut(pool, taken, K),
        _cut(pool, taken, K),
        _cut(pool, taken, 1),
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
def labelling_loss(loss_kind, cost, gold, ambiguous, allowed, path, n):
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
    if scale == 0.0 or loss_kind == NO_LOSS:
        return viterbi(u, a, start, end, work.v[:n], path)
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
def path_example(formula, loss_kind, epsilon, u, a, start, end, gold, ambiguous, allowed, cost, work):
    """(value, coefficient) of a path objective; the gradient is coefficient * (1[work.up] - 1[work.down])."""
    n = u.shape[0]
    up, down = work.up, work.down
    if n == 0:
        return 0.0, 0.0
    if formula.special == DIRECT:
        if formula.direction == 0.0:
            high = augmented_path(
                u, a, start, end, loss_kind, epsilon, gold, ambiguous, allowed, cost, work, up
            )
            low = augmented_path(
                u, a, start, end, loss_kind, -epsilon, gold, ambiguous, allowed, cost, work, down
            )
            return (high - low) / (2.0 * epsilon), 0.5 / epsilon
        # y_hat is pushed down (toward better) or raised (away from worse)
        y_hat, y_direct = (up, down) if formula.direction < 0.0 else (down, up)
        if viterbi(u, a, start, end, work.v[:n], y_hat) == -np.inf:
            return np.nan, 0.0
        scale = formula.direction * epsilon
        augmented_path(u, a, start, end, loss_kind, scale, gold, ambiguous, allowed, cost, work, y_direct)
        return labelling_loss(loss_kind, cost, gold, ambiguous, allowed, y_hat, n), 1.0 / epsilon
    if formula.baseline == GOLD:
        below = gold_path(u, a, start, end, gold, ambiguous, allowed, work, down)
    else:
        below = viterbi(u, a, start, end, work.v[:n], down)
    if formula.special == SLACK and loss_kind == COSTS:  # where L is 0 or 1, slack and margin are the same
        if below == -np.inf:
            return np.inf, 0.0
        best = slack_path(u, a, start, end, below, cost, work, up)
        return best, path_cost(COSTS, cost, gold, up, n)
    scale = formula.loss_scale
    best = augmented_path(u, a, start, end, loss_kind, scale, gold, ambiguous, allowed, cost, work, up)
    return apply_link(formula.link, best - below)


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
def dense_example(formula, loss_kind, u, a, start, end, gold, ambiguous, allowed, cost, floor, work):
    """The value of a dense objective; its gradient goes into ``work.d_unary`` and ``work.d_trans``."""
    n, K = u.shape
    if n == 0:
        return 0.0
    m = 1 if a.shape[0] == 1 else n
    d_unary, d_trans = work.d_unary, work.d_trans
    if formula.special == RISK and loss_kind == COSTS:
        d_unary[:n] = 0.0
        d_trans[:m] = 0.0
        return expected_loss(u, a, start, end, cost, d_unary, d_trans[:m], work.beta, work.beta, 1.0)
    scale = 0.0 if loss_kind == NO_LOSS else formula.loss_scale
    scores = u
    if scale != 0.0 and loss_kind == COSTS:
        scores = work.u2[:n]
        for t in range(n):
            for k in range(K):
                scores[t, k] = u[t, k] + scale * cost[t, k]
    above = _sum_over_labellings(scores, a, start, end, floor, work, d_unary, d_trans)
    below = 0.0
    one_path = formula.special == PLAIN and (formula.baseline == BEST or not ambiguous)
    if not one_path or (scale != 0.0 and loss_kind == ZERO_ONE):
        # gradient = x * marginals - y * gold marginals
        gold_sum = _gold_sum(
            u, a, start, end, floor, gold, ambiguous, allowed, work, work.d_unary2, work.d_trans2
        )
        p = math.exp(gold_sum - above)
        if formula.special == RISK:  # 0-1: E L = 1 - p(y*)
            _combine(work, p, p, n, m)
            return -math.expm1(gold_sum - above)
        x, y = 1.0, 0.0
        if scale != 0.0 and loss_kind == ZERO_ONE:
            # Z' = e^c Z - (e^c - 1) exp s(y*): every labelling but the gold one is worth e^c times as much
            z = 1.0 + math.expm1(scale) * (1.0 - p)
            above += math.log(z)
            x, y = math.exp(scale) / z, math.expm1(scale) * p / z
        if not one_path:
            below, y = gold_sum, y + 1.0
        _combine(work, x, y, n, m)
    if one_path:
        if formula.baseline == BEST:
            below = viterbi(u, a, start, end, work.v[:n], work.down)
            _subtract_path(d_unary, d_trans, work.down, n, m)
        else:
            below = score_labels(u, a, start, end, gold)
            _subtract_path(d_unary, d_trans, gold, n, m)
    if formula.link == IDENTITY:
        return above - below
    value, slope = apply_link(formula.link, above - below)
    d_unary[:n] *= slope
    d_trans[:m] *= slope
    return value


@kernel
def _subtract_path(d_unary, d_trans, path, n, m):
    """d -= 1[path]."""
    for t in range(n):
        d_unary[t, path[t]] -= 1.0
        if t > 0:
            d_trans[t if m > 1 else 0, path[t - 1], path[t]] -= 1.0


@kernel
def _combine(work, x, y, n, m):
    """d = x d - y d2."""
    for t in range(n):
        for k in range(work.d_unary.shape[1]):
            work.d_unary[t, k] = x * work.d_unary[t, k] - y * work.d_unary2[t, k]
    for t in range(m):
        for j in range(work.d_trans.shape[1]):
            for k in range(work.d_trans.shape[2]):
                work.d_trans[t, j, k] = x * work.d_trans[t, j, k] - y * work.d_trans2[t, j, k]
