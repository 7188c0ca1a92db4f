"""A plan with its arrays and the values of its leaves: what runs when a junction tree is asked.

The factors are scaled to a maximum of 1 once and laid out as the plan wants them. A question copies them,
applies the evidence, and runs one or both passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from trellis.inference.factors import FloatArray, Table, reduce
from trellis.inference.junction_tree_kernels import (
    MAX,
    SUM,
    from_roots,
    scatter_maps,
    table_marginals,
    to_roots,
)
from trellis.inference.junction_tree_log import log_best, log_marginals
from trellis.inference.junction_tree_plan import INNER, NOTHING, SCATTER, Plan

# With slopes below exp(575) = 1e250, products lost below 1e-308 are less than 1e-58 of the result.
SAFE_LOG_SLOPE = 575.0
SAFE_VALUE = 1e-250


class Solution(NamedTuple):
    """log Z (-inf: impossible), the marginals of the variables of the plan, and what was kept.

    With kept variables p(kept) is proportional to the product of ``kept`` (logs of tables), and
    ``log_partition`` is the log of the other factors of Z.
    """

    log_partition: float
    marginals: dict[int, FloatArray]
    kept: list[Table]


class Scratch:
    """Arrays that are used again: fresh memory costs more than what is done with it."""

    def __init__(self) -> None:
        self._spare: list[FloatArray] = []

    def take(self, size: int) -> FloatArray:
        """An array of at least this size, with anything in it; threads never share one."""
        array = self._spare.pop() if self._spare else np.empty(0)
        return array if len(array) >= size else np.empty(size)

    def give(self, *arrays: FloatArray) -> None:
        """Take arrays back; two are kept, as one question needs two."""
        self._spare = sorted([*self._spare, *arrays], key=len)[-2:]


class Arrays:
    """The arrays of a plan that kernels read."""

    def __init__(self, plan: Plan) -> None:
        self.steps, self.axes, map_axes = plan.records
        scattered = self.steps[self.steps[:, SCATTER] != 0]
        self.maps = np.empty(int(scattered[:, INNER].sum()), dtype=np.uint64)
        scatter_maps(self.steps, map_axes, self.maps)
        self.n_values, self.n_slopes = int(plan.offsets[-1]), int(plan.slope_offsets[-1])
        self.n_tables = len(plan.offsets) - 1
        self.roots = [(t, int(plan.offsets[t]), int(plan.slope_offsets[t])) for t in plan.roots]
        self._seeds = [(at, int(plan.slope_offsets[t + 1])) for t, _, at in self.roots]
        places, names, first = [], [], 0
        for v, table in plan.marginal_tables.items():
            slow, states, fast = around(plan, table, v)
            at = int(plan.offsets[table]), int(plan.slope_offsets[table]), int(plan.has_rows(table))
            places.append((*at, slow, states, fast, first))
            names.append(v)
            first += states
        self.places = np.array(places, dtype=np.uint64).reshape(len(places), 7)
        self.names = names
        self.firsts = self.places[:, 6].astype(np.int64)
        self.n_states = first

    def to_roots(
        self, mode: int, rows: int, values: FloatArray, log_scale: FloatArray, first: int = 0, last: int = -1
    ) -> None:
        end = len(self.steps) if last < 0 else last
        to_roots(self.steps, self.axes, self.maps, first, end, mode, rows, values, log_scale)

    def from_roots(
        self, rows: int, values: FloatArray, log_scale: FloatArray, slopes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Unnormalised marginals (states of all variables, rows) and the largest log slope of each row."""
        log_slope = np.zeros((self.n_tables, rows))
        for start, end in self._seeds:
            slopes[start:end] = 1.0
        from_roots(self.steps, self.axes, self.maps, rows, values, slopes, log_scale, log_slope)
        marginals = np.zeros((self.n_states, rows))
        table_marginals(self.places, rows, values, slopes, marginals)
        return marginals, log_slope.max(axis=0, initial=0.0)

    def normalised(self, sums: FloatArray) -> dict[int, FloatArray]:
        """The marginals of each variable from their sums (all states, ...)."""
        if not self.names:
            return {}
        totals = np.add.reduceat(sums, self.firsts, axis=0)
        shares = sums / np.repeat(totals, np.diff(self.firsts, append=self.n_states), axis=0)
        ends = [*self.firsts[1:].tolist(), self.n_states]
        return {v: shares[a:b] for v, a, b in zip(self.names, self.firsts.tolist(), ends, strict=True)}


def around(plan: Plan, table: int, variable: int) -> tuple[int, int, int]:
    """The shape of a table seen as (slower axes, the axis of a variable, faster axes)."""
    axis, shape = plan.layout(table).index(variable), plan.shape(table)
    return int(np.prod(shape[:axis])), shape[axis], int(np.prod(shape[axis + 1 :]))


class CompiledPlan:
    """A plan for evidence on a fixed set of variables, which its tables no longer hold."""

    def __init__(
        self, plan: Plan, factors: Sequence[Table], observed: frozenset[int], scratch: Scratch
    ) -> None:
        self.plan = plan
        self._scratch = scratch
        self.observed = observed
        self._factors = factors
        self._arrays: Arrays | None = None
        self._leaves: FloatArray | None = None
        self._log_leaves = 0.0
        self._leaf_of: dict[int, tuple[int, tuple[int, int, int]]] = {}

    @property
    def arrays(self) -> Arrays:
        """Made when first needed: a plan that is only a forecast has none."""
        if self._arrays is None:
            self._arrays = Arrays(self.plan)
        return self._arrays

    # -- leaves -----------------------------------------------------------------------------------------

    def _leaf_values(
        self, evidence: Mapping[int, int], likelihoods: Mapping[int, FloatArray]
    ) -> tuple[FloatArray, float]:
        """All leaves in one run as laid out, with the evidence, scaled; and the log of the scale."""
        if self.observed:
            leaves, log_scale = self._laid_out({v: evidence[v] for v in self.observed})
        else:
            if self._leaves is None:
                self._leaves, self._log_leaves = self._laid_out({})
            leaves, log_scale = self._leaves.copy(), self._log_leaves
        for v, state in evidence.items():
            if v not in self.observed:
                at, shape = self._leaf(v)
                table = leaves[at : at + shape[0] * shape[1] * shape[2]].reshape(shape)
                table[:, :state] = 0.0
                table[:, state + 1 :] = 0.0
        for v, weights in likelihoods.items():
            top = float(weights.max())
            if v in self.observed:
                with np.errstate(divide="ignore"):
                    log_scale += float(np.log(weights[evidence[v]]))
            elif top > 0:
                at, shape = self._leaf(v)
                table = leaves[at : at + shape[0] * shape[1] * shape[2]].reshape(shape)
                table *= (weights / top)[:, None]
                log_scale += float(np.log(top))
            else:
                log_scale = -np.inf
        return leaves, log_scale

    def _laid_out(self, evidence: Mapping[int, int]) -> tuple[FloatArray, float]:
        offsets = self.plan.offsets
        leaves = np.empty(int(offsets[self.plan.n_leaves]) - 1)
        log_scale = 0.0
        for leaf, factor in enumerate(self._factors):
            table = reduce(factor, evidence) if evidence else factor
            top = float(table.values.max())
            axes = [table.variables.index(v) for v in self.plan.layout(leaf)]
            part = table.values.transpose(axes).ravel()
            leaves[offsets[leaf] - 1 : offsets[leaf + 1] - 1] = part / top if top > 0 else 0.0
            log_scale += float(np.log(top)) if top > 0 else -np.inf
        return leaves, log_scale

    def _leaf(self, variable: int) -> tuple[int, tuple[int, int, int]]:
        """The smallest leaf of a variable: where it starts among the leaves, its shape around the axis."""
        known = self._leaf_of.get(variable)
        if known is None:
            holders = [f for f, table in enumerate(self._factors) if variable in table.variables]
            leaf = min(holders, key=lambda f: self._factors[f].values.size)
            known = int(self.plan.offsets[leaf]) - 1, around(self.plan, leaf, variable)
            self._leaf_of[variable] = known
        return known

    def _start(
        self, evidence: Mapping[int, int], likelihoods: Mapping[int, FloatArray]
    ) -> tuple[FloatArray, float]:
        leaves, log_leaves = self._leaf_values(evidence, likelihoods)
        values = self._scratch.take(self.arrays.n_values)
        values[0] = 1.0
        values[1 : 1 + len(leaves)] = leaves
        return values, log_leaves

    # -- answers ----------------------------------------------------------------------------------------

    def solve(self, evidence: Mapping[int, int], likelihoods: Mapping[int, FloatArray]) -> Solution:
        """Z, all marginals, and the logs of the tables at the roots over variables that are kept."""
        arrays = self.arrays
        values, log_leaves = self._start(evidence, likelihoods)
        slopes = self._scratch.take(arrays.n_slopes)
        solution = Solution(-np.inf, {}, [])
        if log_leaves > -np.inf:
            log_scale = np.zeros((arrays.n_tables, 1))
            arrays.to_roots(SUM, 1, values, log_scale)
            sums, log_slope = arrays.from_roots(1, values, log_scale, slopes)
            roots = self._roots(values)
            safe = log_slope[0] <= SAFE_LOG_SLOPE and all(root.values.any() for root in roots)
            if safe:
                log_constant = log_leaves + float(log_scale.sum())
                solution = _solution(log_constant, arrays.normalised(sums[:, 0]), roots)
            else:
                logs, marginals = log_marginals(self.plan, values)
                solution = _log_solution(log_leaves, marginals, logs)
        self._scratch.give(values, slopes)
        return solution

    def _roots(self, values: FloatArray) -> list[Table]:
        plan = self.plan
        parts = [(t, values[plan.offsets[t] : plan.offsets[t + 1]]) for t in plan.roots]
        return [Table(tuple(plan.layout(t)), part.reshape(plan.shape(t)).copy()) for t, part in parts]

    def best(
        self, evidence: Mapping[int, int], likelihoods: Mapping[int, FloatArray]
    ) -> tuple[dict[int, int], float]:
        """The assignment with the largest product, and the log of that product (-inf: all are zero)."""
        arrays = self.arrays
        values, log_leaves = self._start(evidence, likelihoods)
        states = {v: evidence[v] for v in self.observed}
        if log_leaves > -np.inf:
            log_scale = np.zeros((arrays.n_tables, 1))
            arrays.to_roots(MAX, 1, values, log_scale)
            roots = [float(values[at]) for _, at, _ in arrays.roots]
            found = self._trace_back(values) if all(roots) else None
            if found is None:
                found, log_value = log_best(self.plan, values)
            else:
                log_value = float(log_scale.sum() + np.log(roots).sum())
            states |= found
            log_leaves += log_value
        self._scratch.give(values)
        return states, log_leaves

    def _trace_back(self, values: FloatArray) -> dict[int, int] | None:
        """From the roots to the leaves, the best states of what each step maximised; None near underflow."""
        states: dict[int, int] = {}
        for step in reversed(self.plan.steps):
            products = np.ones(())
            for table in (step.a, step.b):
                if table != NOTHING:
                    products = products * self.plan.slice_at(table, values, states)
            best = int(np.argmax(products))
            if products.flat[best] < SAFE_VALUE:
                return None
            summed = self.plan.summed(step)
            digits = np.unravel_index(best, products.shape)
            states.update((v, int(digit)) for v, digit in zip(summed, digits, strict=True))
        return states


def _solution(log_constant: float, marginals: dict[int, FloatArray], roots: list[Table]) -> Solution:
    with np.errstate(divide="ignore"):
        return _log_solution(log_constant, marginals, [Table(t.variables, np.log(t.values)) for t in roots])


def _log_solution(log_constant: float, marginals: dict[int, FloatArray], roots: list[Table]) -> Solution:
    """Roots without variables are factors of Z; the others hold what is kept."""
    for root in roots:
        if not root.variables:
            log_constant += float(root.values)
    kept = [root for root in roots if root.variables]
    if log_constant == -np.inf:
        return Solution(-np.inf, {}, [])
    return Solution(log_constant, marginals, kept)
