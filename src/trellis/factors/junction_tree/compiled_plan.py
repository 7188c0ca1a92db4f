"""What runs when a junction tree is asked: the passes of a plan by kernels, or in log space.

``CompiledPlan`` is the one driver. Tables are divided by their maxima, and the kernels bound what underflow
could have lost (:mod:`.tree_pass_kernels`). Where the bound is not negligible the same plan runs in log space
(:mod:`.log_passes`). Maxima lose nothing: leaves whose products could underflow are raised to a power below
1 first, which changes no maximiser, and costs no more digits than a sum of logarithms of that size has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import NamedTuple, TypeVar

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.logspace_kernels import MAX, SUM
from trellis.factors.junction_tree.log_passes import LogSums
from trellis.factors.junction_tree.matrix_products import MatrixProduct
from trellis.factors.junction_tree.plan import NOTHING, Plan
from trellis.factors.junction_tree.step_records import INNER, SCATTER, step_records
from trellis.factors.junction_tree.tree_pass_kernels import (
    from_roots,
    scatter_maps,
    smallest_positive,
    table_marginals,
    to_roots,
)
from trellis.factors.tables import Table, aligned

# Products below 1e-308 are lost. With slopes below exp(575) = 1e250, they are less than 1e-58 of the result,
# and products of tables whose smallest positive entries multiply to 1e-250 are none of them.
SAFE_LOG_RANGE = 575.0
LARGEST_LEAF_SPAN = 708.0  # exp(-708) is still a number to full precision
KEPT_BYTES = 2**28  # arrays above this size are not kept: fresh memory is little against what is done with it

Found = TypeVar("Found")


class Leaves(NamedTuple):
    """The tables of all leaves, end to end as laid out, each divided by its maximum.

    ``log_scale`` is the log of what was divided away (-inf: a leaf is zero everywhere), ``logs`` are the
    logarithms of ``values``. Those of the positive entries of one leaf lie within ``span`` of each
    other, and those of all products of one entry of each within ``reach``.
    """

    values: FloatArray
    log_scale: float
    logs: FloatArray
    span: float
    reach: float

    @classmethod
    def of(cls, logs: FloatArray, sizes: IntArray) -> Leaves:
        """From the logarithms of the leaves, which are changed, and the number of entries of each."""
        if not len(sizes):
            return cls(logs, 0.0, logs, 0.0, 0.0)
        starts = np.cumsum(sizes) - sizes
        tops = np.maximum.reduceat(logs, starts)
        if tops.min() == -np.inf:
            return cls(np.zeros(len(logs)), -np.inf, logs, 0.0, 0.0)
        spans = tops - np.minimum.reduceat(np.where(logs > -np.inf, logs, np.inf), starts)
        logs -= np.repeat(tops, sizes)
        return cls(np.exp(logs), float(tops.sum()), logs, float(spans.max()), float(spans.sum()))


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


class PlanArrays:
    """The arrays of a plan that kernels read, and the kernels run on them."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.rows = plan, plan.rows
        self.steps, self.axes, map_axes = step_records(plan)
        scattered = self.steps[self.steps[:, SCATTER] != 0]
        self.maps = np.empty(int(scattered[:, INNER].sum()), dtype=np.uint64)
        scatter_maps(self.steps, map_axes, self.maps)
        self.n_values, self.n_slopes = int(plan.offsets[-1]), int(plan.slope_offsets[-1])
        self.n_tables = len(plan.offsets) - 1
        self._inputs = np.array([(step.a, step.b) for step in plan.steps], dtype=np.int64).reshape(-1, 2)
        self._products = [
            MatrixProduct(plan, number, self.steps[number], self.axes, self.maps)
            for number in plan.matrix_steps
        ]
        self._seeds = [plan.slope_offsets[t : t + 2].tolist() for t in plan.roots]
        scalars = [t for t in plan.roots if not plan.shape(t)]
        self.kept_roots = [t for t in plan.roots if plan.shape(t)]
        self._root_runs = [plan.offset_lists[0][t : t + 2] for t in scalars]
        places, self._names, first = [], [], 0
        for v, table in plan.marginal_tables.items():
            slow, states, fast = axis_split(plan, table, v)
            at = int(plan.offsets[table]), int(plan.slope_offsets[table]), int(plan.has_rows(table))
            places.append((*at, slow, states, fast, first))
            self._names.append(v)
            first += states
        self._places = np.array(places, dtype=np.uint64).reshape(len(places), 7)
        self._firsts = self._places[:, 6].astype(np.int64)
        self._ends = [*self._firsts[1:].tolist(), first]

    def to_roots(self, mode: int, values: FloatArray, log_scale: FloatArray, first: int = 0) -> None:
        """Steps from ``first`` on, given the values of the leaves."""
        for product in self._products if mode == SUM else ():
            self.run(mode, values, log_scale, first, product.number)
            product.to_roots(values, log_scale)
            first = product.number + 1
        self.run(mode, values, log_scale, first, len(self.steps))

    def run(self, mode: int, values: FloatArray, log_scale: FloatArray, first: int, last: int) -> None:
        """Steps ``first`` to ``last - 1``, none of them as a matrix product."""
        to_roots(self.steps, self.axes, self.maps, first, last, mode, self.rows, values, log_scale)

    def from_roots(self, values: FloatArray, log_scale: FloatArray, slopes: FloatArray) -> FloatArray:
        """Fill the derivatives ``slopes``; the logs of their scales (tables, rows)."""
        log_slope = np.zeros((self.n_tables, self.rows))
        for start, end in self._seeds:
            slopes[start:end] = 1.0
        last = len(self.steps)
        for product in reversed(self._products):
            self._run_back(product.number + 1, last, values, slopes, log_scale, log_slope)
            product.from_roots(values, slopes, log_scale, log_slope)
            last = product.number
        self._run_back(0, last, values, slopes, log_scale, log_slope)
        return log_slope

    def _run_back(self, first: int, last: int, *arrays: FloatArray) -> None:
        from_roots(self.steps, self.axes, self.maps, first, last, self.rows, *arrays)

    def log_root_values(self, values: FloatArray) -> FloatArray:
        """The sum of the logs of the scalars at the roots, (rows,) or (1,) where it is the same for all."""
        total = np.zeros(1)
        with np.errstate(divide="ignore"):
            for start, end in self._root_runs:
                total = total + np.log(values[start:end])
        return total

    def cannot_underflow(self, values: FloatArray) -> bool:
        """Whether every product of two entries above 0 was a number to full precision (without rows)."""
        lows = np.ones(self.n_tables + 1)  # the last stands for NOTHING
        smallest_positive(values, self.plan.offsets, lows[:-1])
        return bool((lows[self._inputs].prod(axis=1) >= math.exp(-SAFE_LOG_RANGE)).all())

    def marginals(self, values: FloatArray, slopes: FloatArray) -> dict[int, FloatArray]:
        """The distributions (states, rows) of the variables that are asked for; NaN in impossible rows."""
        if not self._names:
            return {}
        sums = np.zeros((self._ends[-1], self.rows))
        table_marginals(self._places, self.rows, values, slopes, sums)
        totals = np.add.reduceat(sums, self._firsts, axis=0)
        with np.errstate(invalid="ignore"):
            shares = sums / np.repeat(totals, self._ends - self._firsts, axis=0)
        runs = zip(self._names, self._firsts.tolist(), self._ends, strict=False)
        return {v: shares[first:end] for v, first, end in runs}


class ScaledSums:
    """Z, marginals and posteriors by kernels, of each row.

    ``values`` holds the leaves. ``log_constant``: the log of what was divided away from them. With
    ``log_scale`` the tables before step ``first`` are there already.
    """

    def __init__(
        self,
        arrays: PlanArrays,
        values: FloatArray,
        log_constant: float,
        log_scale: FloatArray | None = None,
        first: int = 0,
    ) -> None:
        self._arrays, self.values = arrays, values
        self._log_scale = np.zeros((arrays.n_tables, arrays.rows)) if log_scale is None else log_scale
        arrays.to_roots(SUM, values, self._log_scale, first)
        total = log_constant + self._log_scale.sum(axis=0) + arrays.log_root_values(values)
        self.log_partition: FloatArray = total if arrays.rows > 1 else total[0]
        # logs of the tables at the roots, over variables that are kept
        self.kept = [self._log_table(root) for root in arrays.kept_roots]
        self._possible = all(table.values.max() > -np.inf for table in self.kept)
        self.slopes = np.zeros(0)

    def _log_table(self, table: int) -> Table:
        """The log of a table after the pass to the roots, up to a constant."""
        plan = self._arrays.plan
        part = self.values[plan.offsets[table] : plan.offsets[table + 1]]
        shape = plan.shape(table)
        if plan.rows > 1 and plan.has_rows(table):
            shape = [*shape, plan.rows]
        with np.errstate(divide="ignore"):
            return Table(tuple(plan.layout(table)), np.log(part).reshape(shape))

    @property
    def lost_nothing(self) -> bool:
        """Whether the pass to the roots cannot have underflowed (without rows)."""
        some = self._possible and bool(self.log_partition > -np.inf)
        return some and self._arrays.cannot_underflow(self.values)

    def go_back(self, slopes: FloatArray) -> BoolArray:
        """The pass from the roots; in which rows it is sure that nothing that matters was lost.

        Where log Z is -inf, underflow and impossibility look alike.
        """
        self.slopes = slopes
        log_slope = self._arrays.from_roots(self.values, self._log_scale, slopes)
        # The log of the most that a product of 1 in any step can add to Z / Z: products are lost before the
        # table that they enter is divided by its maximum, exp(log_scale).
        steepest = (log_slope - np.minimum(self._log_scale, 0.0)).max(axis=0, initial=0.0) - self._peak
        return np.asarray((steepest <= SAFE_LOG_RANGE) & (self.log_partition > -np.inf) & self._possible)

    @property
    def _peak(self) -> float:
        """The log of the largest product of the tables at the roots over variables that are kept, each of
        which has the maximum 1: far below 0 where they contradict each other (without rows)."""
        names = [v for table in self.kept for v in table.variables]
        if len(set(names)) == len(names) or self._arrays.rows > 1:
            return 0.0
        union = tuple(dict.fromkeys(names))
        return float(sum(aligned(table, union) for table in self.kept).max())  # type: ignore[union-attr]

    def marginals(self) -> dict[int, FloatArray]:
        """The distribution (states,) or (states, rows) of each variable that the plan is asked for."""
        found = self._arrays.marginals(self.values, self.slopes)
        return found if self._arrays.rows > 1 else {v: shares[:, 0] for v, shares in found.items()}

    def posteriors(self) -> FloatArray:
        """The probabilities of the entries of all leaves end to end, each leaf by itself (without rows)."""
        plan = self._arrays.plan
        starts, end = plan.offsets[: plan.n_leaves], int(plan.offsets[plan.n_leaves])
        joint = self.values[1:end] * self.slopes[1:end]
        if plan.n_leaves:
            joint /= np.repeat(np.add.reduceat(joint, starts - 1), plan.leaf_sizes)
        return joint

    def expected(self, leaf: int, weight: FloatArray) -> FloatArray:
        """The posteriors of a leaf without rows, added up over rows with their weights, as laid out."""
        plan, rows = self._arrays.plan, self._arrays.rows
        table = self.values[plan.offsets[leaf] : plan.offsets[leaf + 1]]
        at = plan.slope_offsets[leaf]
        slopes = self.slopes[at : at + table.size * rows].reshape(-1, rows)
        norm = table @ slopes
        shares = table * (slopes @ np.divide(weight, norm, out=np.zeros_like(weight), where=norm > 0))
        return np.asarray(shares.reshape(plan.shape(leaf)))

    def log_tables(self) -> list[Table]:
        """The logs of all tables after the pass to the roots, each up to a constant (without rows)."""
        return [self._log_table(table) for table in range(self._arrays.n_tables)]


Sums = ScaledSums | LogSums


def axis_split(plan: Plan, table: int, variable: int) -> tuple[int, int, int]:
    """The shape of a table seen as (slower axes, the axis of a variable, faster axes)."""
    axis, shape = plan.layout(table).index(variable), plan.shape(table)
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


class CompiledPlan:
    """A plan without rows, its arrays, and the questions that it answers."""

    def __init__(self, plan: Plan, scratch: Scratch | None = None) -> None:
        self.plan = plan
        self._scratch = Scratch() if scratch is None else scratch

    @cached_property
    def arrays(self) -> PlanArrays:
        """Made when first needed: a plan that is only a forecast has none."""
        return PlanArrays(self.plan)

    def lay_out(self, tables: Sequence[Table]) -> Leaves:
        """The logarithms of tables with the scopes of the plan, as its leaves."""
        parts = [
            values.transpose([variables.index(v) for v in self.plan.layout(leaf)]).ravel()
            for leaf, (variables, values) in enumerate(tables)
        ]
        return Leaves.of(np.concatenate(parts) if parts else np.zeros(0), self.plan.leaf_sizes)

    def sums(self, leaves: Leaves, read: Callable[[Sums], Found], *, back: bool = True) -> Found:
        """What ``read`` takes from the sums of both passes, or of the one to the roots alone.

        By kernels, and wherever these may have lost something that matters, in log space.
        """
        if leaves.span <= LARGEST_LEAF_SPAN:
            spare = [self._start(leaves.values)]
            found = ScaledSums(self.arrays, spare[0], leaves.log_scale)
            safe = not back and found.lost_nothing
            if not safe:
                spare.append(self._scratch.take(self.arrays.n_slopes))
                safe = bool(found.go_back(spare[1]).all())
            try:
                if safe:
                    return read(found)
            finally:
                self._scratch.give(*spare)
        return read(LogSums(self.plan, self._log_tables(leaves), leaves.log_scale))

    def best(self, leaves: Leaves) -> tuple[dict[int, int], float]:
        """The assignment with the largest product, and the log of that product (-inf: all are zero)."""
        power = min(1.0, 0.99 * SAFE_LOG_RANGE / leaves.reach) if leaves.reach else 1.0
        values = self._start(leaves.values if power == 1.0 else np.exp(power * leaves.logs))
        log_scale = np.zeros((self.arrays.n_tables, 1))
        self.arrays.to_roots(MAX, values, log_scale)
        roots = values[self.plan.offsets[self.plan.roots]]
        states: dict[int, int] = {}
        log_value = -np.inf
        if leaves.log_scale > -np.inf and roots.all():
            states = self._trace_back(values)
            log_value = leaves.log_scale + float(log_scale.sum() + np.log(roots).sum()) / power
        self._scratch.give(values)
        return states, log_value

    def _start(self, leaves: FloatArray) -> FloatArray:
        values = self._scratch.take(self.arrays.n_values)
        values[0] = 1.0
        values[1 : 1 + len(leaves)] = leaves
        return values

    def _log_tables(self, leaves: Leaves) -> list[Table]:
        plan = self.plan
        parts = np.split(leaves.logs, np.cumsum(plan.leaf_sizes)[:-1])
        return [
            Table(tuple(plan.layout(leaf)), parts[leaf].reshape(plan.shape(leaf)))
            for leaf in range(plan.n_leaves)
        ]

    def _trace_back(self, values: FloatArray) -> dict[int, int]:
        """From the roots to the leaves, the best states of what each step maximised."""
        states: dict[int, int] = {}
        for step in reversed(self.plan.steps):
            products = np.ones(())
            for table in (step.a, step.b):
                if table != NOTHING:
                    products = products * self.plan.slice_at(table, values, states)
            digits = np.unravel_index(int(np.argmax(products)), products.shape)
            states.update((v, int(digit)) for v, digit in zip(self.plan.summed(step), digits, strict=True))
        return states
