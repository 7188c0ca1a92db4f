"""A plan with the arrays that kernels read: what runs when a junction tree is asked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.logspace_kernels import MAX, SUM
from trellis.factors.junction_tree_kernels import (
    from_roots,
    scatter_maps,
    smallest_positive,
    table_marginals,
    to_roots,
)
from trellis.factors.junction_tree_log import log_best, log_marginals
from trellis.factors.junction_tree_plan import NOTHING, Plan
from trellis.factors.junction_tree_products import MatrixProduct
from trellis.factors.junction_tree_records import INNER, SCATTER, step_records
from trellis.factors.tables import Table

# With slopes below exp(575) = 1e250, products lost below 1e-308 are less than 1e-58 of the result.
SAFE_LOG_SLOPE = 575.0
SAFE_VALUE = 1e-250
KEPT_BYTES = 2**28  # arrays above this size are not kept: fresh memory is little against what is done with it


class Solution(NamedTuple):
    """log Z (-inf: impossible), the marginals of the variables of the plan, and what was kept.

    With kept variables p(kept) is proportional to the product of ``kept`` (logs of tables), and
    ``log_partition`` is the log of the other factors of Z.
    """

    log_partition: float
    marginals: dict[int, FloatArray]
    kept: list[Table]


class Leaves(NamedTuple):
    """The values of all leaves in one run as laid out, each divided by its maximum; the log of the scale."""

    values: FloatArray
    log_scale: float


class Scratch:
    """Arrays that are used again: fresh memory costs more than what is done with it."""

    def __init__(self) -> None:
        self._spare: list[FloatArray] = []
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[Scratch], tuple[()]]:
        return Scratch, ()  # copies begin empty

    def take(self, size: int) -> FloatArray:
        """An array of at least this size, with anything in it; threads never share one."""
        with self._lock:
            array = self._spare.pop() if self._spare else None
        return array if array is not None and len(array) >= size else np.empty(size)

    def give(self, *arrays: FloatArray) -> None:
        """Take arrays back; two are kept, as one question needs two."""
        small = [array for array in arrays if array.nbytes <= KEPT_BYTES]
        with self._lock:
            self._spare = sorted([*self._spare, *small], key=len)[-2:]


class Arrays:
    """The arrays of a plan that kernels read."""

    def __init__(self, plan: Plan) -> None:
        self.steps, self.axes, map_axes = step_records(plan)
        scattered = self.steps[self.steps[:, SCATTER] != 0]
        self.maps = np.empty(int(scattered[:, INNER].sum()), dtype=np.uint64)
        scatter_maps(self.steps, map_axes, self.maps)
        self.n_values, self.n_slopes = int(plan.offsets[-1]), int(plan.slope_offsets[-1])
        self._offsets = plan.offsets
        self._inputs = np.array([(step.a, step.b) for step in plan.steps], dtype=np.int64).reshape(-1, 2)
        self.products = [
            MatrixProduct(plan, number, self.steps[number], self.axes, self.maps)
            for number in plan.matrix_steps
        ]
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
        self, mode: int, rows: int, values: FloatArray, log_scale: FloatArray, first: int = 0
    ) -> None:
        """Steps from ``first`` on, given the values of the leaves."""
        for product in self.products if mode == SUM else ():
            self.run(mode, rows, values, log_scale, first, product.number)
            product.to_roots(values, log_scale)
            first = product.number + 1
        self.run(mode, rows, values, log_scale, first, len(self.steps))

    def run(
        self, mode: int, rows: int, values: FloatArray, log_scale: FloatArray, first: int, last: int
    ) -> None:
        """Steps ``first`` to ``last - 1``, none of them as a matrix product."""
        to_roots(self.steps, self.axes, self.maps, first, last, mode, rows, values, log_scale)

    def derivatives(
        self, rows: int, values: FloatArray, log_scale: FloatArray, slopes: FloatArray
    ) -> FloatArray:
        """Fills ``slopes``; the logs of their scales (tables, rows)."""
        log_slope = np.zeros((self.n_tables, rows))
        for start, end in self._seeds:
            slopes[start:end] = 1.0
        last = len(self.steps)
        for product in reversed(self.products):
            self._run_back(product.number + 1, last, rows, values, slopes, log_scale, log_slope)
            product.from_roots(values, slopes, log_scale, log_slope)
            last = product.number
        self._run_back(0, last, rows, values, slopes, log_scale, log_slope)
        return log_slope

    def _run_back(self, first: int, last: int, rows: int, *arrays: FloatArray) -> None:
        from_roots(self.steps, self.axes, self.maps, first, last, rows, *arrays)

    def from_roots(
        self, rows: int, values: FloatArray, log_scale: FloatArray, slopes: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Unnormalised marginals (states of all variables, rows) and the steepest log slope of each row."""
        log_slope = self.derivatives(rows, values, log_scale, slopes)
        marginals = np.zeros((self.n_states, rows))
        table_marginals(self.places, rows, values, slopes, marginals)
        return marginals, steepest(log_slope, log_scale)

    def cannot_underflow(self, values: FloatArray) -> bool:
        """Whether every product of two entries above 0 was a number to full precision (without rows)."""
        lows = np.ones(self.n_tables + 1)  # the last stands for NOTHING
        smallest_positive(values, self._offsets, lows[:-1])
        return bool((lows[self._inputs].prod(axis=1) >= SAFE_VALUE).all())

    def normalised(self, sums: FloatArray) -> dict[int, FloatArray]:
        """The marginals of each variable from their sums (all states, ...)."""
        if not self.names:
            return {}
        totals = np.add.reduceat(sums, self.firsts, axis=0)
        shares = sums / np.repeat(totals, np.diff(self.firsts, append=self.n_states), axis=0)
        ends = [*self.firsts[1:].tolist(), self.n_states]
        return {v: shares[a:b] for v, a, b in zip(self.names, self.firsts.tolist(), ends, strict=True)}


def steepest(log_slope: FloatArray, log_scale: FloatArray) -> FloatArray:
    """For each row, log of the most that a product of 1 in any step can add to Z / Z.

    Products are lost before the table that they enter is divided by its maximum, exp(log_scale).
    """
    bound: FloatArray = (log_slope - np.minimum(log_scale, 0.0)).max(axis=0, initial=0.0)
    return bound


def around(plan: Plan, table: int, variable: int) -> tuple[int, int, int]:
    """The shape of a table seen as (slower axes, the axis of a variable, faster axes)."""
    axis, shape = plan.layout(table).index(variable), plan.shape(table)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


class CompiledPlan:
    """A plan, its arrays, and the questions that it answers."""

    def __init__(self, plan: Plan, scratch: Scratch) -> None:
        self.plan = plan
        self._scratch = scratch
        self._arrays: Arrays | None = None

    @property
    def arrays(self) -> Arrays:
        """Made when first needed: a plan that is only a forecast has none."""
        if self._arrays is None:
            self._arrays = Arrays(self.plan)
        return self._arrays

    def lay_out(self, tables: Sequence[Table]) -> Leaves:
        """Tables with the scopes of the plan, as its leaves."""
        if not tables:
            return Leaves(np.zeros(0), 0.0)
        parts = []
        for leaf, (variables, values) in enumerate(tables):
            axes = [variables.index(v) for v in self.plan.layout(leaf)]
            parts.append(values.transpose(axes).ravel())
        flat = np.concatenate(parts, dtype=np.float64)
        tops = np.maximum.reduceat(flat, self.plan.offsets[: len(tables)] - 1)
        if not tops.all():
            return Leaves(np.zeros(len(flat)), -np.inf)
        flat /= np.repeat(tops, [len(part) for part in parts])
        return Leaves(flat, float(np.log(tops).sum()))

    def _start(self, leaves: Leaves) -> FloatArray:
        values = self._scratch.take(self.arrays.n_values)
        values[0] = 1.0
        values[1 : 1 + len(leaves.values)] = leaves.values
        return values

    def contract(self, leaves: Leaves) -> Solution:
        """As ``solve`` without marginals: the pass to the roots alone, wherever nothing can be lost in it."""
        if leaves.log_scale == -np.inf:
            return Solution(-np.inf, {}, [])
        values = self._start(leaves)
        log_scale = np.zeros((self.arrays.n_tables, 1))
        self.arrays.to_roots(SUM, 1, values, log_scale)
        safe = self.arrays.cannot_underflow(values)
        roots = _logs(self._roots(values))
        self._scratch.give(values)
        if not safe:
            return self.solve(leaves)._replace(marginals={})
        return _solution(leaves.log_scale + float(log_scale.sum()), {}, roots)

    def solve(self, leaves: Leaves) -> Solution:
        """Z, all marginals, and the logs of the tables at the roots over variables that are kept."""
        if leaves.log_scale == -np.inf:
            return Solution(-np.inf, {}, [])
        arrays = self.arrays
        values, slopes = self._start(leaves), self._scratch.take(arrays.n_slopes)
        log_scale = np.zeros((arrays.n_tables, 1))
        arrays.to_roots(SUM, 1, values, log_scale)
        sums, log_slope = arrays.from_roots(1, values, log_scale, slopes)
        roots = self._roots(values)
        if log_slope[0] <= SAFE_LOG_SLOPE and all(root.values.any() for root in roots):
            roots = _logs(roots)
            log_constant = leaves.log_scale + float(log_scale.sum())
            marginals = arrays.normalised(sums[:, 0])
        else:
            log_constant = leaves.log_scale
            roots, marginals = log_marginals(self.plan, values)
        self._scratch.give(values, slopes)
        return _solution(log_constant, marginals, roots)

    def _roots(self, values: FloatArray) -> list[Table]:
        plan = self.plan
        parts = [(t, values[plan.offsets[t] : plan.offsets[t + 1]]) for t in plan.roots]
        return [Table(tuple(plan.layout(t)), part.reshape(plan.shape(t)).copy()) for t, part in parts]

    def best(self, leaves: Leaves) -> tuple[dict[int, int], float]:
        """The assignment with the largest product, and the log of that product (-inf: all are zero)."""
        if leaves.log_scale == -np.inf:
            return {}, -np.inf
        arrays = self.arrays
        values = self._start(leaves)
        log_scale = np.zeros((arrays.n_tables, 1))
        arrays.to_roots(MAX, 1, values, log_scale)
        roots = [float(values[at]) for _, at, _ in arrays.roots]
        states = self._trace_back(values) if all(roots) and arrays.cannot_underflow(values) else None
        if states is None:
            states, log_value = log_best(self.plan, values)
        else:
            log_value = float(log_scale.sum() + np.log(roots).sum())
        self._scratch.give(values)
        return states, leaves.log_scale + log_value

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


def _logs(tables: list[Table]) -> list[Table]:
    with np.errstate(divide="ignore"):
        return [Table(table.variables, np.log(table.values)) for table in tables]


def _solution(log_constant: float, marginals: dict[int, FloatArray], roots: list[Table]) -> Solution:
    """From the logs of the tables at the roots; those without variables are factors of Z."""
    log_constant += sum(float(root.values) for root in roots if not root.variables)
    if log_constant == -np.inf:
        return Solution(-np.inf, {}, [])
    return Solution(log_constant, marginals, [root for root in roots if root.variables])
