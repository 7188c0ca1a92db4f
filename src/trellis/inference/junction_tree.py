"""``JunctionTree``: exact answers about a product of factors, planned once and asked many times.

    p(x) = (1 / Z) prod_f f(x_f)

One pass to the roots of the tree gives Z; one pass back gives the derivative of Z with respect to every
entry of every table, and with it all marginals. Max in place of sum gives the most probable assignment. The
plan is in :mod:`.junction_tree_plan`, the loops are in :mod:`.junction_tree_kernels`.

**Evidence.** Where one plan for all evidence is cheap, evidence sets entries of leaves to zero and nothing is
planned anew. Where the tree is costly, the variables of the evidence leave the tables before the tree is
planned, which can make it smaller by orders of magnitude; such plans are kept by the set of observed
variables.

**Scaling.** Tables are divided by their maxima, and the kernels bound what underflow could have lost. Where
the bound is not negligible the same plan runs in log space (:mod:`.junction_tree_log`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.errors import DataError, UnsupportedError
from trellis.inference.elimination_order import EliminationOrder, elimination_order, given_order
from trellis.inference.factors import FloatArray, Table, aligned, reduce
from trellis.inference.junction_tree_compiled import CompiledPlan, Scratch, Solution
from trellis.inference.junction_tree_plan import Forecast, Plan

GIB = 2.0**30
MEMORY_LIMIT = 8 * GIB
KEPT_PLANS = 32
# Multiplications that planning for one variable is worth: with more, evidence gets a plan of its own.
REPLAN_ABOVE = 30_000.0

Evidence = Mapping[int, int]
Likelihoods = Mapping[int, FloatArray]


class Marginals(NamedTuple):
    """log Z with the evidence (-inf: impossible) and, for each variable asked for, its distribution."""

    log_partition: float
    of: dict[int, FloatArray]


class Assignment(NamedTuple):
    """The state of each variable, and the log of the product of all factors there (-inf: impossible)."""

    states: NDArray[np.int64]
    log_value: float


class JunctionTree:
    """All marginals, Z and the best assignment of a product of factors.

    Parameters
    ----------
    cardinalities : the number of states of each variable.
    factors : tables over the variables; a variable without any factor is uniform.
    order : an elimination heuristic (:mod:`.elimination_order`), or the variables in the order to be used.
    memory_limit : in bytes; a tree that would need more is refused before it runs.
    """

    def __init__(
        self,
        cardinalities: Sequence[int] | NDArray[np.int64],
        factors: Sequence[Table],
        *,
        order: str | Sequence[int] = "best",
        memory_limit: float = MEMORY_LIMIT,
    ) -> None:
        self.cardinalities = [int(size) for size in cardinalities]
        self.memory_limit = memory_limit
        self._order = order
        held = {v for table in factors for v in table.variables}
        free = [v for v in range(len(self.cardinalities)) if v not in held]
        self.factors = [*factors, *(Table((v,), np.ones(self.cardinalities[v])) for v in free)]
        self._plans: dict[frozenset[int], CompiledPlan] = {}
        self._scratch = Scratch()
        self._general = self._plan(frozenset())

    @property
    def forecast(self) -> Forecast:
        """What all marginals without evidence need; nothing has been computed yet."""
        return self._general.plan.forecast

    def forecast_for(self, observed: Collection[int]) -> Forecast:
        """What all marginals need when these variables are observed."""
        return self._for_evidence(frozenset(observed)).plan.forecast

    def largest_clique(self, observed: Collection[int] = ()) -> list[int]:
        """The variables of the largest clique when these are observed."""
        return self._for_evidence(frozenset(observed)).plan.largest_clique

    # -- questions --------------------------------------------------------------------------------------

    def marginals(
        self, evidence: Evidence | None = None, likelihoods: Likelihoods | None = None
    ) -> Marginals:
        """p(x_v | evidence) for all variables; ``likelihoods`` (variable: weights) are soft evidence."""
        evidence, likelihoods = evidence or {}, likelihoods or {}
        self._check(evidence, likelihoods)
        solution = self._solve(evidence, likelihoods)
        if solution.log_partition == -np.inf:
            return Marginals(-np.inf, {})
        found = dict(solution.marginals)
        for v, state in evidence.items():
            found[v] = np.zeros(self.cardinalities[v])
            found[v][state] = 1.0
        return Marginals(solution.log_partition, found)

    def log_partition(
        self, evidence: Evidence | None = None, likelihoods: Likelihoods | None = None
    ) -> float:
        """log Z with the evidence; with the tables of a Bayesian network, log P(evidence)."""
        evidence, likelihoods = evidence or {}, likelihoods or {}
        self._check(evidence, likelihoods)
        return self._solve(evidence, likelihoods).log_partition

    def best_assignment(
        self, evidence: Evidence | None = None, likelihoods: Likelihoods | None = None
    ) -> Assignment:
        """argmax_x of the product of all factors, given the evidence; ties go to smaller numbers."""
        evidence, likelihoods = evidence or {}, likelihoods or {}
        self._check(evidence, likelihoods)
        compiled = self._for_evidence(frozenset(evidence))
        refuse_above(compiled.plan.forecast, self.memory_limit)
        states, log_value = compiled.best(evidence, likelihoods)
        return Assignment(np.array([states.get(v, 0) for v in range(len(self.cardinalities))]), log_value)

    # -- plans ------------------------------------------------------------------------------------------

    def _solve(self, evidence: Evidence, likelihoods: Likelihoods) -> Solution:
        compiled = self._for_evidence(frozenset(evidence))
        refuse_above(compiled.plan.forecast, self.memory_limit)
        return compiled.solve(evidence, likelihoods)

    def _for_evidence(self, observed: frozenset[int]) -> CompiledPlan:
        """The plan to use when these variables are observed."""
        general = self._general.plan.forecast
        cheap = general.multiplications <= REPLAN_ABOVE * len(self.cardinalities)
        if not observed or (cheap and general.bytes <= self.memory_limit):
            return self._general
        return self._plan(observed)

    def _plan(self, observed: frozenset[int]) -> CompiledPlan:
        known = self._plans.get(observed)
        if known is None:
            factors = [reduce(table, dict.fromkeys(observed, 0)) for table in self.factors]
            order = self._elimination_order(factors).variables
            plan = Plan(self.cardinalities, [table.variables for table in factors], order)
            known = CompiledPlan(plan, self.factors, observed, self._scratch)
            if len(self._plans) >= KEPT_PLANS:
                self._plans.pop(next(key for key in self._plans if key != frozenset()))
            self._plans[observed] = known
        return known

    def _elimination_order(self, factors: Sequence[Table]) -> EliminationOrder:
        scopes = [table.variables for table in factors]
        if isinstance(self._order, str):
            return elimination_order(self.cardinalities, scopes, self._order)
        left = {v for scope in scopes for v in scope}
        if not left.issubset(self._order):
            return given_order(self.cardinalities, scopes, self._order)  # says which is missing
        return given_order(self.cardinalities, scopes, [v for v in self._order if v in left])

    def _check(self, evidence: Evidence, likelihoods: Likelihoods) -> None:
        n = len(self.cardinalities)
        for v, state in evidence.items():
            if not 0 <= v < n or not 0 <= state < self.cardinalities[v]:
                raise DataError(f"the evidence sets variable {v} to state {state}, which does not exist")
        for v, weights in likelihoods.items():
            if not 0 <= v < n or np.shape(weights) != (self.cardinalities[v],):
                raise DataError(f"the likelihood of variable {v} needs one weight for each of its states")


def eliminate(
    cardinalities: Sequence[int] | NDArray[np.int64],
    factors: Sequence[Table],
    keep: Sequence[int],
    *,
    order: str | Sequence[int] = "best",
    memory_limit: float = MEMORY_LIMIT,
) -> tuple[float, Table]:
    """Variable elimination: the sum over all variables but ``keep``, as (log s, T) for the product s T.

    The axes of T are ``keep`` in order, and its largest entry is 1; log s is -inf if everything is zero.
    """
    sizes = [int(size) for size in cardinalities]
    held = {v for table in factors for v in table.variables}
    factors = [*factors, *(Table((v,), np.ones(sizes[v])) for v in keep if v not in held)]
    scopes = [table.variables for table in factors]
    if isinstance(order, str):
        found = elimination_order(sizes, scopes, order, keep=keep)
    else:
        found = given_order(sizes, scopes, order, keep)
    plan = Plan(sizes, scopes, found.variables)
    forecast = plan.forecast
    refuse_above(
        forecast._replace(bytes=forecast.bytes + 8.0 * math.prod(sizes[v] for v in keep)), memory_limit
    )
    solution = CompiledPlan(plan, factors, frozenset(), Scratch()).solve({}, {})
    if solution.log_partition == -np.inf:
        return -np.inf, Table(tuple(keep), np.zeros([sizes[v] for v in keep]))
    total = np.zeros([sizes[v] for v in keep])
    for table in solution.kept:
        total = total + aligned(table, keep)
    top = float(total.max())
    if top == -np.inf:
        return -np.inf, Table(tuple(keep), np.zeros(total.shape))
    return solution.log_partition + top, Table(tuple(keep), np.exp(total - top))


def refuse_above(forecast: Forecast, limit: float) -> None:
    """Raise if a plan needs more memory than allowed, with what it needs and what else there is."""
    if forecast.bytes > limit:
        raise UnsupportedError(
            f"exact inference would need {_amount(forecast.bytes)} of memory (width {forecast.width}, "
            f"largest clique {forecast.clique:.3g} entries, {forecast.multiplications:.3g} multiplications) "
            f"and the limit is {_amount(limit)}; condition on variables of the largest cliques "
            "(method='conditioning'), use an approximate method ('loopy', 'likelihood_weighting', 'gibbs') "
            "or raise memory_limit"
        )


def _amount(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if size < 1024 or unit == "PiB":
            return f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError
