# mypy: allow-untyped-defs
"""The labelling with the largest expected span F1 of its sequence, exactly.

F1(y', y) = 2 |spans of both| / (g(y') + g(y)), and 1 if neither has spans. For labellings y with k >= 1 spans

    E F1(y', y) = 2 sum over spans s of y of  reward_k(s)
    reward_k(s) = E[ [s is a span of y'] / (g(y') + k) ]

which is a sum over spans: for each k, a dynamic programme (``span_choice_kernels``) finds the best one.
1 / (g + k) is the integral of x^(g + k - 1) over (0, 1); Gauss-Legendre quadrature is exact for polynomials:

    reward_k(s) = sum_m weight_m node_m^(k - 1) mass_m(s)
    mass_m(s) = E[ node_m^g(y') [s is a span of y'] ]

for all k from the same masses (``span_mass_kernels``). The best k is found by bounds. With V(k, price) the
best sum of reward_k - price over *all* labellings,

    F(k) <= V(k, price) + k price      for labellings of k spans and any price,
    V(k, 0) falls in k                 because rewards do,

so that few k need the programme that counts spans. Labellings without spans have E F1 = P(g(y') = 0). Of all
labellings with the chosen spans, the answer is the most probable.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.oracle.span_choice_kernels import best_spans, likeliest_with_spans
from trellis.structures.chain.oracle.span_mass_kernels import log_weight_without_spans, tilted_masses

LEAST = 1e-13  # spans that are less probable than this earn nothing; that changes E F1 by 2e-13 at most
SLACK = 1e-13  # bounds this close to the best value are closed
PRICES = 40  # bisections of the price before spans are counted


@kernel
def _rewards(masses, nodes, weights, k, rewards):
    """reward_k(s) of all listed spans."""
    factors = np.empty(len(nodes))
    for m in range(len(nodes)):
        factors[m] = weights[m] * nodes[m] ** (k - 1)
    for s in range(len(masses)):
        total = 0.0
        for m in range(len(nodes)):
            total += factors[m] * masses[s, m]
        rewards[s] = total


@kernel
def _best_of_count(
    k, bound, price, best, u, a, start, end, inside, kinds, joins, before, after, spans, rewards,
    first_of, kind_at, best_first, best_kind,
):  # fmt: skip
    """The larger of ``best`` and the best sum of rewards of a labelling with exactly k spans, which then is
    in ``best_first`` and ``best_kind``, and a price at which that was seen; ``bound`` is V(k, 0)."""
    if bound <= best + SLACK:
        return best, price
    low, high = -1.0, 1.0  # rewards are between 0 and 1/2
    for _ in range(PRICES):
        value, number = best_spans(
            u, a, start, end, inside, kinds, joins, before, after, spans, rewards, price, -1,
            first_of, kind_at,
        )  # fmt: skip
        value += price * k
        if value <= best + SLACK:
            return best, price
        if number == k:
            best_first[:], best_kind[:] = first_of, kind_at
            return value, price
        if number > k:
            low = price
        else:
            high = price
        price = 0.5 * (low + high)
    value, _ = best_spans(
        u, a, start, end, inside, kinds, joins, before, after, spans, rewards, 0.0, k, first_of, kind_at
    )
    if value > best:
        best_first[:], best_kind[:] = first_of, kind_at
        return value, price
    return best, price


@kernel
def best_expected_f1(
    u, a, start, end, inside, kinds, n_kinds, joins, before, after, nodes, weights, path
):  # fmt: skip
    """The labelling, into ``path``, and its expected F1 (-inf: nothing is allowed)."""
    n = u.shape[0]
    if n == 0:
        return 1.0
    spans, masses, expected, log_z = tilted_masses(
        u, a, start, end, inside, kinds, n_kinds, joins, before, after, nodes, LEAST
    )
    if log_z == -np.inf:
        return log_z
    rewards = np.empty(len(spans))
    first_of, kind_at = np.empty(n, np.int64), np.empty(n, np.int64)
    best_first, best_kind = np.arange(n), np.full(n, -1)
    # no spans, in the units of the rewards: half the expected F1
    log_none = log_weight_without_spans(u, a, start, end, inside)
    best = 0.5 * math.exp(log_none - log_z) if log_none > -np.inf else -np.inf
    middle = min(max(1, int(expected + 0.5)), n)
    price = 0.0
    for k in range(middle, n + 1):
        _rewards(masses, nodes, weights, k, rewards)
        bound, number = best_spans(
            u, a, start, end, inside, kinds, joins, before, after, spans, rewards, 0.0, -1, first_of, kind_at
        )
        if bound <= best + SLACK:
            break
        if price == 0.0:  # near the best k, a span must earn between the average reward and half of it
            price = 0.75 * bound / max(number, 1)
        if number == k:
            best, best_first[:], best_kind[:] = bound, first_of, kind_at
            continue
        best, price = _best_of_count(
            k, bound, price, best, u, a, start, end, inside, kinds, joins, before,
            after, spans, rewards, first_of, kind_at, best_first, best_kind,
        )  # fmt: skip
    for k in range(middle - 1, 0, -1):
        _rewards(masses, nodes, weights, k, rewards)
        best, price = _best_of_count(
            k, np.inf, price, best, u, a, start, end, inside, kinds, joins, before, after, spans, rewards,
            first_of, kind_at, best_first, best_kind,
        )  # fmt: skip
    likeliest_with_spans(u, a, start, end, inside, kinds, joins, best_first, best_kind, path)
    return 2.0 * best


@kernel
def best_expected_f1_batch(
    unary, transitions, start, end, offsets, first, last,
    inside, kinds, n_kinds, joins, before, after, nodes, weights, sizes, labels, values,
):  # fmt: skip
    """The sequences ``first..last-1``: ``labels`` (N,) and ``values`` (S,), the expected F1. Row c of
    ``nodes`` and ``weights`` has ``sizes[c]`` nodes, enough for 2^c steps."""
    for i in range(first, last):
        lo, hi = offsets[i], offsets[i + 1]
        c = 0
        while (1 << c) < hi - lo:
            c += 1
        m = sizes[c]
        a = transitions if transitions.shape[0] == 1 else transitions[lo:hi]
        values[i] = best_expected_f1(
            unary[lo:hi], a, start, end, inside, kinds, n_kinds, joins, before, after, nodes[c, :m],
            weights[c, :m], labels[lo:hi],
        )  # fmt: skip
