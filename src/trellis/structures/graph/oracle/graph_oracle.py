"""``GraphInference``: the best labelling of a graph, its marginals and samples, by a choice of methods.

The best labelling:

* ``"tree"``: exact, for forests; O(N K^2).
* ``"junction_tree"``: exact, for graphs of small width; refuses with a forecast of memory.
* ``"max_flow"``: exact, for two labels and edges that prefer equal ones.
* ``"lp"``: the local polytope by HiGHS: an upper bound and a vertex, for small graphs.
* ``"message_passing"``: an upper bound and a labelling, for graphs of any size (TRW-S).
* ``"icm"``, ``"loopy"``: baselines without a bound.
* ``"auto"``: "tree" for forests; otherwise a few iterations of "message_passing", which often prove their
  answer; if they do not, "junction_tree" if that is cheap, "max_flow" if it applies, or else all iterations.
  If these prove nothing either, "loopy" has a try, and then a "junction_tree" that takes some seconds; the
  best of them is the answer, with the bound of message passing, and names its method. Training leaves this
  out.
  The part of it that depends on the shape alone is a :class:`Route`, found once for each training graph.

Sums over all labellings (marginals, log-partition):

* ``"tree"``, ``"junction_tree"``: exact. ``"auto"`` takes one of them or refuses.
* ``"tree_reweighted"``: an upper bound of log Z and its gradient. ``"loopy"``: Bethe's estimate.

Samples and the k best are exact, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import check_int, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.core.oracle import Labels
from trellis.core.registration import register
from trellis.structures.graph.oracle.graph_answers import DIRECT, GraphMarginals, RelaxedSolution
from trellis.structures.graph.oracle.graph_cut import is_binary_submodular, max_flow
from trellis.structures.graph.oracle.graph_junction import (
    find_plan,
    junction_best,
    junction_marginals,
    junction_samples,
)
from trellis.structures.graph.oracle.graph_lp import linear_programme
from trellis.structures.graph.oracle.loopy_graph import loopy_best, loopy_marginals
from trellis.structures.graph.oracle.message_passing import icm, improved, message_passing, tree
from trellis.structures.graph.oracle.ordered_graph import find_topology, wide_factors
from trellis.structures.graph.oracle.tree_reweighted import sample_tree, tree_marginals, tree_reweighted
from trellis.structures.graph.scores.graph_scores import GraphScores, as_floats

BEST_METHODS = ("auto", "tree", "junction_tree", "max_flow", "lp", "message_passing", "icm", "loopy")
SUM_METHODS = ("auto", "tree", "junction_tree", "tree_reweighted", "loopy")
CHEAP = 1e7  # multiplications of a junction tree that "auto" spends on a best labelling
PLANNED = 2_000  # nodes up to which "auto" plans a junction tree at all
QUICK = 10  # iterations of message passing before "auto" takes an exact method
AFFORDABLE = 3e9  # multiplications of a junction tree that "auto" spends where nothing else proved its answer


class Route(NamedTuple):
    """What "auto" decides from the shape of a graph alone: its edges, its factors and its forbidden labels.

    ``exact`` is the method for sums, samples and the k best, ``best`` the one for a best labelling. Scores
    have a say only where that is "message_passing": "max_flow" takes its place if they are submodular.
    """

    exact: str
    best: str


@register
@dataclass(frozen=True)
class GraphInference:
    """Options of inference; one object serves any number of graphs and threads.

    Parameters
    ----------
    method : see above.
    max_iter : iterations (forwards and backwards) of message passing, loopy and tree-reweighted propagation.
    tol : a gap of at most ``tol * max(1, |value|)`` counts as closed; messages that change less have
        converged.
    memory_limit : bytes that a junction tree may use.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.graph import GraphInference, GraphScores
    >>> triangle = GraphScores.of(np.zeros((3, 2)), [(0, 1), (1, 2), (0, 2)], 1.0 - np.eye(2))
    >>> found = GraphInference("lp").best(triangle)
    >>> float(found.value), float(found.bound)
    (2.0, 3.0)
    """

    method: str = "auto"
    max_iter: int = 200
    tol: float = 1e-6
    memory_limit: float = 2.0**30

    def __post_init__(self) -> None:
        if self.method not in (*BEST_METHODS, *SUM_METHODS):
            raise DataError(
                f"there is no inference method {self.method!r} for graphs; for the best labelling choose one "
                f"of {', '.join(BEST_METHODS)}; for marginals one of {', '.join(SUM_METHODS)}"
            )
        check_int("max_iter", self.max_iter, 1)
        check_nonnegative("tol", self.tol)
        if not self.memory_limit >= 0.0:
            raise DataError(f"memory_limit is {self.memory_limit!r}; give a number of bytes")

    def route(self, scores: GraphScores) -> Route:
        """What "auto" does with graphs of this shape."""
        if _is_forest(scores):
            return Route("tree", "tree")
        best = "message_passing"
        if scores.n_nodes <= PLANNED:
            forecast = find_plan(scores, self.memory_limit).forecast
            if forecast.multiplications <= CHEAP and forecast.bytes <= self.memory_limit:
                best = "junction_tree"
        return Route("junction_tree", best)

    def best(
        self,
        scores: GraphScores,
        cost: ArrayLike | None = None,
        scale: float = 1.0,
        *,
        route: Route | None = None,
    ) -> RelaxedSolution:
        """argmax_y score(y) + scale sum_i cost[i, y_i]; value and bound include the cost.

        ``route``: that of an earlier graph of the same shape, which "auto" then need not find again.
        """
        if cost is not None:
            scores = scores.plus_cost(cost, scale)
        method = self.method
        if method == "auto":
            method = (route or self.route(scores)).best
            if method == "message_passing" and is_binary_submodular(scores):
                method = "max_flow"
            if method in ("junction_tree", "max_flow") and not wide_factors(scores):
                with suppress(InfeasibleError):  # which of the two it is, an exact method decides
                    found = message_passing(scores, min(QUICK, self.max_iter), self.tol)
                    if found.exact:  # in a tenth of the time of a junction tree
                        return found
        solvers: dict[str, Callable[[], RelaxedSolution]] = {
            "tree": lambda: tree(_check_forest(scores)),
            "junction_tree": lambda: junction_best(scores, self.memory_limit),
            "max_flow": lambda: max_flow(scores, self.tol),
            "lp": lambda: linear_programme(scores, self.tol),
            "message_passing": lambda: message_passing(scores, self.max_iter, self.tol),
            "icm": lambda: icm(scores),
            "loopy": lambda: loopy_best(scores, self.max_iter, self.tol),
        }
        if method not in solvers:
            raise UnsupportedError(
                f"method={method!r} computes sums over labellings; for the best labelling use method='auto', "
                "'message_passing' or 'lp'"
            )
        found = solvers[method]()
        if self.method == "auto" and route is None and not found.exact:
            return self._best_of_all(scores, found)
        return found

    def _best_of_all(self, scores: GraphScores, found: RelaxedSolution) -> RelaxedSolution:
        """What "auto" does where message passing left a gap: other methods, and the best labelling of all."""
        other = loopy_best(scores, self.max_iter, self.tol)
        if other.value > found.value:
            found = improved(replace(other, bound=found.bound), self.tol)
        if found.exact or scores.n_nodes > PLANNED:
            return found
        forecast = find_plan(scores, self.memory_limit).forecast
        if forecast.multiplications > AFFORDABLE or forecast.bytes > self.memory_limit:
            return found
        return junction_best(scores, self.memory_limit)

    def marginals(
        self,
        scores: GraphScores,
        cost: ArrayLike | None = None,
        scale: float = 1.0,
        *,
        route: Route | None = None,
    ) -> GraphMarginals:
        """log sum_y exp(score(y) + scale cost(y)) and the marginals of nodes, edges and factors."""
        if cost is not None:
            scores = scores.plus_cost(cost, scale)
        method = self._exact(scores, route) if self.method == "auto" else self.method
        solvers: dict[str, Callable[[], GraphMarginals]] = {
            "tree": lambda: tree_marginals(_check_forest(scores)),
            "junction_tree": lambda: junction_marginals(scores, self.memory_limit),
            "tree_reweighted": lambda: tree_reweighted(scores, self.max_iter, self.tol),
            "loopy": lambda: loopy_marginals(scores, self.max_iter, self.tol),
        }
        if method not in solvers:
            raise UnsupportedError(
                f"method={method!r} finds best labellings and has no marginals; use method='auto' (exact), "
                "'tree_reweighted' or 'loopy'"
            )
        return solvers[method]()

    def minimum_risk(self, scores: GraphScores, risk: ArrayLike | None = None) -> RelaxedSolution:
        """argmin of sum_i risk[i, y_i] over the allowed labellings: those that ``scores`` do not forbid.

        ``risk`` (N, K): the expected cost of each label of each node. By default it is 1 - P(y_i = k), so
        that the answer has the fewest expected errors, by the marginals of this method (exact, unless it is
        "tree_reweighted" or "loopy"). Where the cheapest labels are allowed together, they are the answer;
        elsewhere a method for best labellings finds it, and ``exact`` says whether that is proved. ``value``
        and ``bound`` are about minus the risk above that of the cheapest labels.
        """
        risks = -self.marginals(scores).parts.unary if risk is None else as_floats("risks", risk)
        if risks.shape != scores.unary.shape or not np.isfinite(risks).all():
            raise DataError(f"risks must be finite and of shape {scores.unary.shape}, one for each label")
        cheapest = np.asarray(risks.argmin(axis=1), dtype=np.int32)
        regret = risks.min(axis=1, keepdims=True) - risks
        allowed = GraphScores(
            _where_allowed(scores.unary, regret),
            scores.edges,
            _where_allowed(scores.pairwise),
            tuple(f._replace(table=_where_allowed(f.table)) for f in scores.factors),
        )
        if scores.score(cheapest) > -np.inf:
            return RelaxedSolution(cheapest, 0.0, 0.0, True, True, "cheapest labels", DIRECT, allowed)
        return (self if self.method in BEST_METHODS else replace(self, method="auto")).best(allowed)

    def log_partition(self, scores: GraphScores) -> float:
        """log sum_y exp score(y), or what the method puts in its place."""
        return self.marginals(scores).log_partition

    def sample(self, scores: GraphScores, n_samples: int, rng: np.random.Generator) -> Labels:
        """Exact samples from p(y) proportional to exp score(y), (n_samples, N)."""
        n_samples = check_int("n_samples", n_samples, 0)
        method = self._exact(scores)
        if self.method not in ("auto", method, "junction_tree"):
            raise UnsupportedError(
                f"method={self.method!r} has no exact samples; use method='auto', or draw by Gibbs sampling "
                "from a FactorGraph"
            )
        if method == "tree" and self.method != "junction_tree":
            return sample_tree(scores, n_samples, rng)
        return junction_samples(scores, n_samples, rng, self.memory_limit)

    def k_best(self, scores: GraphScores, k: int) -> tuple[Labels, FloatArray]:
        """The k best labellings (M, N), best first, and their scores (M,); M < k if there are no more.

        Lawler's partition: the labellings other than y are split by the first node that differs from y, and
        each part is solved: k N calls of an exact method, so for small graphs.
        """
        k = check_int("k", k, 1)
        if self.method not in ("auto", "tree", "junction_tree"):
            raise UnsupportedError(
                f"the k best labellings need an exact method, not {self.method!r}; use method='auto' on a "
                "graph of small width, or candidates from samples"
            )
        return _lawler(replace(self, method=self._exact(scores)), scores, k)

    @staticmethod
    def _exact(scores: GraphScores, route: Route | None = None) -> str:
        if route is not None:
            return route.exact
        return "tree" if _is_forest(scores) else "junction_tree"


def _where_allowed(scores: FloatArray, values: FloatArray | float = 0.0) -> FloatArray:
    """``values`` (zeros) in place of finite scores; what is forbidden stays so."""
    return np.where(scores > -np.inf, values, -np.inf)


def _lawler(oracle: GraphInference, scores: GraphScores, k: int) -> tuple[Labels, FloatArray]:
    heap: list[tuple[float, int, RelaxedSolution, int]] = []
    number = count()  # earlier parts first among ties

    def push(part: GraphScores, first: int) -> None:
        """A part of the labellings whose nodes before ``first`` are fixed, if it has any."""
        with suppress(InfeasibleError):
            found = oracle.best(part)
            heappush(heap, (-found.value, next(number), found, first))

    push(scores, 0)
    taken: list[Labels] = []
    while heap and len(taken) < k:
        _, _, found, first = heappop(heap)
        taken.append(found.labels)
        unary = found.scores.unary.copy()
        for i in range(first, scores.n_nodes):
            y = found.labels[i]
            without = unary.copy()
            without[i, y] = -np.inf
            push(replace(scores, unary=without), i)
            unary[i, np.arange(scores.n_labels) != y] = -np.inf  # from here on node i is as in y
    if not taken:
        raise InfeasibleError("the graph has no allowed labelling")
    return np.stack(taken), np.array([scores.score(labels) for labels in taken])


def _is_forest(scores: GraphScores) -> bool:
    if wide_factors(scores):
        return False
    pairs = [f.nodes for f in scores.factors if len(f.nodes) == 2]
    edges = np.concatenate([scores.edges, np.array(pairs, dtype=np.int64).reshape(-1, 2)])
    return find_topology(scores.n_nodes, edges).is_forest


def _check_forest(scores: GraphScores) -> GraphScores:
    if not _is_forest(scores):
        raise UnsupportedError(
            "the graph has cycles or factors over more than two nodes, and method='tree' is for forests; use "
            "method='junction_tree' (exact) or 'message_passing'"
        )
    return scores
