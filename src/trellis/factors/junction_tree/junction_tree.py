"""``JunctionTree``: exact inference in a product of factors, planned once and queried many times.

    p(x) = (1 / Z) prod_f f(x_f)

One pass to the roots of the tree gives Z; one pass back gives the derivative of Z with respect to every
entry of every table, and with it all marginals. Maxima in place of sums give the most probable assignment.
The plan is in :mod:`.plan`, the loops are in :mod:`.tree_pass_kernels`.

**Evidence.** Where a plan without evidence is cheap, evidence sets entries of leaves to zero and nothing is
planned anew. Where the tree is costly, the variables of the evidence and all states that it makes impossible
(:mod:`trellis.factors.possible_states`) leave the tables before the tree is planned, which can make it
smaller by orders of magnitude; such plans are kept, by what is left.

**Range.** Factors are kept as logarithms, and no range of their values is too large (:mod:`.compiled_plan`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.factors.elimination_order import EliminationOrder
from trellis.factors.junction_tree import plan_choice
from trellis.factors.junction_tree.compiled_plan import CompiledPlan, Leaves, Scratch, axis_split
from trellis.factors.junction_tree.plan import Forecast, Plan
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT, Order
from trellis.factors.possible_states import Allowed, ContradictionError, PossibleStates, restrict
from trellis.factors.tables import Table, aligned

KEPT_PLANS = 32

Evidence = Mapping[int, int]
Likelihoods = Mapping[int, FloatArray]


class Marginals(NamedTuple):
    """log Z with the evidence (-inf: impossible) and the distribution of each variable."""

    log_partition: float
    of: dict[int, FloatArray]


class Assignment(NamedTuple):
    """The state of each variable, and the log of the product of all factors there (-inf: impossible)."""

    states: NDArray[np.int64]
    log_value: float


class _Case(NamedTuple):
    """A question made ready: a plan, its leaves, and the possible states of all variables."""

    compiled: CompiledPlan
    leaves: Leaves
    allowed: Allowed | None  # None: all states are in the tables


class JunctionTree:
    """All marginals, Z and the best assignment of a product of factors.

    Parameters
    ----------
    cardinalities : the number of states of each variable.
    factors : tables over the variables; a variable without any factor is uniform.
    order : an elimination heuristic (see ``trellis.factors.elimination_order``), or the variables in order.
    memory_limit : bytes; a tree that would need more is refused before it runs.
    """

    def __init__(
        self,
        cardinalities: Sequence[int] | NDArray[np.int64],
        factors: Sequence[Table],
        *,
        order: Order = "best",
        memory_limit: float = MEMORY_LIMIT,
    ) -> None:
        self.cardinalities = [int(size) for size in cardinalities]
        self.memory_limit = memory_limit
        held = {v for table in factors for v in table.variables}
        free = [v for v in range(len(self.cardinalities)) if v not in held]
        self.factors = [*factors, *(Table((v,), np.ones(self.cardinalities[v])) for v in free)]
        self._logs = [log_table(table) for table in self.factors]
        self._order = order
        self._scratch = Scratch()
        self._plans: dict[Any, CompiledPlan] = {}
        self._leaf_of: dict[int, tuple[int, tuple[int, int, int]]] = {}

    # -- questions --------------------------------------------------------------------------------------

    def marginals(
        self, evidence: Evidence | None = None, likelihoods: Likelihoods | None = None
    ) -> Marginals:
        """p(x_v | evidence) for all variables; ``likelihoods`` (variable: weights) are soft evidence."""
        case = self._case(evidence or {}, likelihoods or {})
        if case is None:
            return Marginals(-np.inf, {})
        log_partition, marginals = case.compiled.sums(
            case.leaves, lambda sums: (float(sums.log_partition), sums.marginals())
        )
        if log_partition == -np.inf:
            return Marginals(log_partition, {})
        if case.allowed is None:
            return Marginals(log_partition, marginals)
        found = {}
        for v, states in enumerate(case.allowed):
            found[v] = states.astype(np.float64)
            if v in marginals:
                found[v][states] = marginals[v]
        return Marginals(log_partition, found)

    def log_partition(
        self, evidence: Evidence | None = None, likelihoods: Likelihoods | None = None
    ) -> float:
        """log Z with the evidence; with the tables of a Bayesian network, log P(evidence)."""
        case = self._case(evidence or {}, likelihoods or {})
        if case is None:
            return -np.inf
        return case.compiled.sums(case.leaves, lambda sums: float(sums.log_partition), back=False)

    def best_assignment(
        self, evidence: Evidence | None = None, likelihoods: Likelihoods | None = None
    ) -> Assignment:
        """argmax_x of the product of all factors, given the evidence; ties go to smaller numbers."""
        case = self._case(evidence or {}, likelihoods or {})
        chosen = np.zeros(len(self.cardinalities), dtype=np.int64)
        if case is None:
            return Assignment(chosen, -np.inf)
        states, log_value = case.compiled.best(case.leaves)
        if log_value > -np.inf:
            for v in range(len(chosen)):
                code = states.get(v, 0)
                chosen[v] = code if case.allowed is None else np.flatnonzero(case.allowed[v])[code]
        return Assignment(chosen, log_value)

    def forecast(self, observed: Collection[int] = (), *, thorough: bool = True) -> Forecast:
        """The cost of all marginals when these variables are observed, in whatever states.

        Without ``thorough`` it is found fast, and a large plan may turn out smaller.
        """
        scopes = self._scopes_without(observed)
        quick = self._quick_orders(scopes)
        if plan_choice.is_impractical(quick[0]):
            return plan_choice.rough_forecast(quick[0])
        question = self.cardinalities, scopes, self._order_for(scopes), self.memory_limit
        return plan_choice.make_plan(*question, thorough=thorough, quick=quick).forecast

    def largest_clique(self, observed: Collection[int] = ()) -> list[int]:
        """The variables of the largest clique when these are observed."""
        scopes = self._scopes_without(observed)
        order = self._quick_orders(scopes)[0]
        return Plan(self.cardinalities, scopes, order.variables).largest_clique

    @property
    def is_costly(self) -> bool:
        """Whether evidence is worth a plan of its own."""
        return plan_choice.worth_a_plan(self._general_order)

    @property
    def multiplications(self) -> float:
        """Of a pass without evidence."""
        return self._general_order.total

    # -- plans ------------------------------------------------------------------------------------------

    def _case(self, evidence: Evidence, likelihoods: Likelihoods) -> _Case | None:
        """The plan and the leaves for a question; None if its evidence is impossible."""
        self._check(evidence, likelihoods)
        if any(not weights.max() > 0 for weights in likelihoods.values()):
            return None
        if not self.is_costly:
            compiled = self._general
            if compiled.plan.forecast.bytes <= self.memory_limit or not evidence:
                plan_choice.check_memory(compiled.plan.forecast, self.memory_limit)
                return self._possible(compiled, self._leaves_at(evidence, likelihoods), None)
        try:
            allowed = self._possible_states.given(evidence, likelihoods)
        except ContradictionError:
            return None
        tables = [restrict(table, allowed) for table in self._weighted(likelihoods)]
        sizes = tuple(int(states.sum()) for states in allowed)  # a plan depends on how many states are left
        if sizes not in self._plans:
            self._keep(sizes, self._compile(sizes, [table.variables for table in tables]))
        compiled = self._plans[sizes]
        plan_choice.check_memory(compiled.plan.forecast, self.memory_limit)
        return self._possible(compiled, compiled.lay_out(tables), allowed)

    @staticmethod
    def _possible(compiled: CompiledPlan, leaves: Leaves, allowed: Allowed | None) -> _Case | None:
        return None if leaves.log_scale == -np.inf else _Case(compiled, leaves, allowed)

    def _keep(self, key: Any, compiled: CompiledPlan) -> None:
        if len(self._plans) >= KEPT_PLANS:
            self._plans.pop(next(iter(self._plans)))
        self._plans[key] = compiled

    def _compile(self, sizes: Sequence[int], scopes: list[tuple[int, ...]]) -> CompiledPlan:
        return CompiledPlan(
            plan_choice.make_plan(sizes, scopes, self._order_for(scopes), self.memory_limit), self._scratch
        )

    def _order_for(self, scopes: list[tuple[int, ...]]) -> Order:
        """The heuristic, or the given order without variables that have left the tables."""
        left = {v for scope in scopes for v in scope}
        if isinstance(self._order, str) or not left.issubset(self._order):
            return self._order
        return [v for v in self._order if v in left]

    @cached_property
    def _general_order(self) -> EliminationOrder:
        """The order without evidence; where it is costly, evidence gets orders of its own."""
        return self._quick_orders(self._scopes_without(()))[0]

    def _quick_orders(self, scopes: list[tuple[int, ...]]) -> list[EliminationOrder]:
        """Orders without a long search."""
        return plan_choice.find_orders(self.cardinalities, scopes, self._order_for(scopes), thorough=False)

    @cached_property
    def _general(self) -> CompiledPlan:
        """The plan without evidence."""
        plan = Plan(self.cardinalities, self._scopes_without(()), self._general_order.variables)
        return CompiledPlan(plan, self._scratch)

    @cached_property
    def _general_leaves(self) -> Leaves:
        return self._general.lay_out(self._logs)

    @cached_property
    def _possible_states(self) -> PossibleStates:
        return PossibleStates(self.cardinalities, self.factors)

    def _scopes_without(self, observed: Collection[int]) -> list[tuple[int, ...]]:
        gone = set(observed)
        return [tuple(v for v in table.variables if v not in gone) for table in self.factors]

    # -- evidence in the leaves -------------------------------------------------------------------------

    def _leaves_at(self, evidence: Evidence, likelihoods: Likelihoods) -> Leaves:
        """The leaves of the general plan, with zeros where the evidence says so."""
        leaves = self._general_leaves
        if likelihoods:
            logs = leaves.logs.copy()
            for v, weights in likelihoods.items():
                self._leaf(logs, v)[...] += _log(weights)[:, None]
            weighted = Leaves.of(logs, self._general.plan.leaf_sizes)
            leaves = weighted._replace(log_scale=weighted.log_scale + leaves.log_scale)

        def observed(array: FloatArray, zero: float) -> FloatArray:
            array = array.copy()
            for v, state in evidence.items():
                leaf = self._leaf(array, v)
                leaf[:, :state] = zero
                leaf[:, state + 1 :] = zero
            return array

        return leaves._replace(values=observed(leaves.values, 0.0), logs=observed(leaves.logs, -np.inf))

    def _leaf(self, values: FloatArray, variable: int) -> FloatArray:
        """The smallest leaf that holds a variable, as an array with its axis in the middle of three."""
        if variable not in self._leaf_of:
            plan = self._general.plan
            holders = [f for f, table in enumerate(self.factors) if variable in table.variables]
            leaf = min(holders, key=lambda f: self.factors[f].values.size)
            self._leaf_of[variable] = int(plan.offsets[leaf]) - 1, axis_split(plan, leaf, variable)
        at, shape = self._leaf_of[variable]
        return values[at : at + math.prod(shape)].reshape(shape)

    def _weighted(self, likelihoods: Likelihoods) -> list[Table]:
        """The logarithms of all factors, with each likelihood in a small factor of its variable."""
        logs = list(self._logs)
        for v, weights in likelihoods.items():
            holders = [f for f, table in enumerate(logs) if v in table.variables]
            small = min(holders, key=lambda f: logs[f].values.size)
            variables, values = logs[small]
            logs[small] = Table(variables, values + aligned(Table((v,), _log(weights)), variables))
        return logs

    def _check(self, evidence: Evidence, likelihoods: Likelihoods) -> None:
        n = len(self.cardinalities)
        for v, state in evidence.items():
            if not 0 <= v < n or not 0 <= state < self.cardinalities[v]:
                raise DataError(f"the evidence sets variable {v} to state {state}, which does not exist")
        for v, weights in likelihoods.items():
            if not 0 <= v < n or np.shape(weights) != (self.cardinalities[v],):
                raise DataError(f"the likelihood of variable {v} needs one weight for each of its states")


def log_table(table: Table) -> Table:
    """The logarithms of a table."""
    return Table(table.variables, _log(table.values))


def _log(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(np.asarray(values, dtype=np.float64))
