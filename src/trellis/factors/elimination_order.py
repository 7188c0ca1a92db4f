"""Elimination orders: the order in which variables are summed out, and its cost.

Summing out v multiplies all tables that hold v: a cluster over v and its neighbours, whose size is the
product of their cardinalities. Finding the best order is NP-hard; greedy orders are good:

* ``"min_fill"``: least number of new edges; ``"weighted_min_fill"``: new edges weighted by cardinalities;
* ``"min_weight"``: smallest cluster;
* ``"best"``: all three, then more attempts with random tie-breaks and, every other time, noisy weights, also
  with weights that are logarithms of cardinalities, for as long as the search is cheap compared with the work
  that it plans. The seed is fixed and the search is counted in steps, not in seconds: the same input
  always gives the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.factors.elimination_order_kernels import FILL, WEIGHT, greedy_order

HEURISTICS = ("min_fill", "weighted_min_fill", "min_weight")
LOG_FILL = "log_min_fill"
NOISE = 0.3  # standard deviation of the logarithms of weights in random attempts
# Steps of the search per planned multiplication: generous at first, then for large plans only (on models of
# genetic linkage the 200th attempt still halves the work).
FEW_TRIES, FEW_SHARE = 20, 0.25
MANY_TRIES, MANY_SHARE = 300, 0.02
LARGE, LITTLE_MORE, CHOICES = 1e9, 8.0, 64  # large plans keep up to 64 orders within a factor of 8
SEARCH_MOST = 1e9  # steps of any search: a few seconds
# Where min-weight needs more multiplications than this, no other heuristic makes the plan feasible, and on
# dense graphs min-fill itself takes n^4 steps.
HOPELESS = 1e30
OUT_OF_REACH = 1e18  # after a few attempts: many more do not make it feasible either


class EliminationOrder(NamedTuple):
    """Variables in the order of elimination, and the log sizes of the clusters that they make."""

    variables: tuple[int, ...]
    log_sizes: NDArray[np.float64]
    heuristic: str
    width: int  # variables in the widest cluster, less one

    @property
    def total(self) -> float:
        """The sum of the sizes of all clusters: multiplications of one pass."""
        return float(np.exp(self.log_sizes).sum())


def elimination_order(
    cardinalities: Sequence[int] | IntArray,
    scopes: Iterable[Sequence[int]],
    heuristic: str = "best",
    *,
    keep: Iterable[int] = (),
) -> EliminationOrder:
    """The best order found of the variables in ``scopes`` (those of each table) but for those in ``keep``."""
    return elimination_orders(cardinalities, scopes, heuristic, keep=keep)[0]


def elimination_orders(
    cardinalities: Sequence[int] | IntArray,
    scopes: Iterable[Sequence[int]],
    heuristic: str = "best",
    *,
    keep: Iterable[int] = (),
    thorough: bool = True,
) -> list[EliminationOrder]:
    """The best order found; for large plans also orders that need little more work and perhaps less memory.

    Without ``thorough`` there is no long search, as when only the cost of a large plan is of interest.
    """
    if heuristic != "best" and heuristic not in HEURISTICS:
        known = ", ".join(HEURISTICS)
        raise DataError(f"order is {heuristic!r}; give one of best, {known}, or a list of variables")
    graph = _Graph(np.asarray(cardinalities), [tuple(scope) for scope in scopes], set(keep))
    if heuristic != "best":
        return [graph.attempt(heuristic, None, np.inf)[0]]
    rng = np.random.default_rng(0)
    by_weight = graph.attempt("min_weight", None, np.inf)
    if by_weight[1] > HOPELESS:
        return [by_weight[0]]
    by_fill = [graph.attempt(name, None, np.inf) for name in HEURISTICS if name != "min_weight"]
    tries = sorted([*by_fill, by_weight], key=lambda found: found[1])
    bound, spent = tries[0][1], sum(work for _, _, work in tries)
    names = [found.heuristic for found, total, _ in tries if total <= 4 * bound]  # tie-breaks gain no more
    if graph.has_many_sizes:
        names.append(LOG_FILL)
    for attempt in range(MANY_TRIES if thorough else FEW_TRIES):
        share = FEW_SHARE if attempt < FEW_TRIES else MANY_SHARE if bound < OUT_OF_REACH else 0.0
        if spent > min(share * bound, SEARCH_MOST):
            break
        allowed = bound if bound < LARGE else LITTLE_MORE * bound
        turn, name = divmod(attempt, len(names))
        found = graph.attempt(names[name], rng, allowed, noise=NOISE * (turn % 2))
        spent += found[2]
        if found[1] < allowed:
            tries.append(found)
            bound = min(bound, found[1])
    tries.sort(key=lambda found: found[1])
    near = tries[:CHOICES] if bound >= LARGE else tries[:1]
    return [order for order, total, _ in near if total <= LITTLE_MORE * bound]


def given_order(
    cardinalities: Sequence[int] | IntArray,
    scopes: Iterable[Sequence[int]],
    order: Sequence[int],
    keep: Iterable[int] = (),
) -> EliminationOrder:
    """A given order with its cost; it must name each variable that is not kept exactly once."""
    live = {frozenset(scope) for scope in scopes}
    expected = set().union(*live) - set(keep)
    if len(set(order)) != len(order) or set(order) != expected:
        missing, extra = sorted(expected - set(order)), sorted(set(order) - expected)
        raise DataError(
            "an elimination order names each variable to be summed out once: "
            + (f"variable {missing[0]} is missing" if missing else "")
            + (" and " if missing and extra else "")
            + (f"variable {extra[0]} is not to be summed out" if extra else "")
            + ("" if missing or extra else "one is named twice")
        )
    sizes, width = [], -1
    for v in order:
        touched = [scope for scope in live if v in scope]
        cluster = frozenset().union({v}, *touched)
        live.difference_update(touched)
        live.add(cluster - {v})
        width = max(width, len(cluster) - 1)
        sizes.append(float(sum(np.log(float(cardinalities[u])) for u in cluster)))
    return EliminationOrder(tuple(int(v) for v in order), np.array(sizes), "given", width)


class _Graph:
    """Who shares a table with whom, in CSR, among the variables that occur at all."""

    def __init__(self, cardinalities: IntArray, scopes: list[tuple[int, ...]], keep: set[int]) -> None:
        names = sorted({v for scope in scopes for v in scope})
        number = {v: i for i, v in enumerate(names)}
        near: list[set[int]] = [set() for _ in names]
        for scope in set(scopes):
            local = [number[v] for v in scope]
            for u in local:
                near[u].update(local)
        rows = [sorted(others - {u}) for u, others in enumerate(near)]
        self.variables = np.array(names, dtype=np.int64)
        self.starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        self.neighbours = np.fromiter(chain.from_iterable(rows), dtype=np.int32, count=self.starts[-1])
        self.sizes = np.asarray(cardinalities, dtype=np.float64)[self.variables]
        self.kept = np.array([v in keep for v in names], dtype=np.bool_)

    @property
    def has_many_sizes(self) -> bool:
        """Whether variables differ in their numbers of states."""
        return len(np.unique(self.sizes)) > 1

    def _weights(self, heuristic: str, noise: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of the variables in the ends of new edges, times exp(noise)."""
        weights = np.ones(len(self.sizes))
        if heuristic == "weighted_min_fill":
            weights = self.sizes
        elif heuristic == LOG_FILL:
            weights = np.log(self.sizes)
        return np.asarray(np.rint(256 * weights * np.exp(noise)))  # whole, so that sums in any order tie

    def attempt(
        self, heuristic: str, rng: np.random.Generator | None, bound: float, noise: float = 0.0
    ) -> tuple[EliminationOrder, float, int]:
        n = len(self.variables)
        keys = np.arange(n, dtype=np.float64) if rng is None else rng.random(n)
        weights = self._weights(heuristic, noise * (np.zeros(n) if rng is None else rng.standard_normal(n)))
        mode = WEIGHT if heuristic == "min_weight" else FILL
        order, clusters = np.empty(n, dtype=np.int64), np.empty(n)
        widths = np.empty(n, dtype=np.int64)
        spare = 4 * len(self.neighbours) + 64
        while True:
            start, degree = self.starts[:-1].copy(), np.diff(self.starts)
            pool = np.concatenate([self.neighbours, np.empty(spare, dtype=np.int32)])
            stale = np.where(self.kept, np.int8(-1), np.int8(1))
            graph = start, degree, degree.copy(), pool, len(self.neighbours)
            count, total, work = greedy_order(
                *graph, np.log(self.sizes), weights, keys, stale, mode, bound, order, clusters, widths
            )
            if count >= 0:
                break
            spare *= 4
        variables = tuple(self.variables[order[:count]].tolist())
        width = int(widths[:count].max(initial=-1))
        return EliminationOrder(variables, clusters[:count], heuristic, width), float(total), int(work)
