"""The plan of a junction tree: which tables are multiplied in which order, and how each lies in memory.

Bucket elimination as a binary tree. A step multiplies two tables A and B and sums out, at once, every
variable that no other table holds:

    O[batch, a, b] = sum_k A[batch, a, k] B[batch, b, k]

``batch`` are the variables of both, ``a`` and ``b`` those of one alone, ``k`` those summed out: a batched
matrix product that never writes the product of A and B down. Each table is the output of one step (or a
leaf: a factor of the model) and the input of one step; the scalars at the roots multiply to Z. The cliques of
the junction tree are the variables of A and B together, its separators the tables O.

**Layout.** The largest of batch, a and b becomes the inner axis of a step, last and contiguous in the inputs
that hold it, with k before it: inner loops are long and run on SIMD. A table is laid out as the step that
reads it wants it; the step that writes it scatters through a map. Other axes are loops, merged where strides
allow.

**Rows.** With ``rows`` > 1 some leaves have one slice for each row of evidence, along a last axis. That axis
is a variable of its own which is never summed out; it is the inner axis of all steps. Tables that do not
depend on the row are computed once for all rows, but their derivatives have all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

NOTHING = -1  # the second input of a step that only sums
INNER_ENOUGH = 16  # an inner axis of one table alone reads less memory, and is taken once it is this long
# A step is a matrix product where each axis has this length, and each matrix this many multiplications.
MATRIX_AXIS, MATRIX_WORK = 8, 2**16


class Members(dict[int, tuple[int, ...]]):
    """The variables of a mask, ascending; found once, for a plan asks for the same few again and again."""

    def __missing__(self, mask: int) -> tuple[int, ...]:
        members, rest = [], mask
        while rest:
            low = rest & -rest
            members.append(low.bit_length() - 1)
            rest ^= low
        found = self[mask] = tuple(members)
        return found


class JointStates(dict[int, int]):
    """The product of the cardinalities of a mask."""

    def __init__(self, sizes: Sequence[int], members: Callable[[int], tuple[int, ...]]) -> None:
        super().__init__({0: 1})
        self._sizes, self._members = sizes, members

    def __missing__(self, mask: int) -> int:
        found = 1
        for v in self._members(mask):
            found *= self._sizes[v]
        self[mask] = found
        return found


class Step(NamedTuple):
    """Numbers of the tables of one step; ``b`` is NOTHING where ``a`` is only summed."""

    a: int
    b: int
    out: int


class Forecast(NamedTuple):
    """What a plan will need."""

    width: int  # variables in the largest clique, less one
    clique: float  # entries of the largest clique
    multiplications: float  # of one pass to the roots; a pass back costs twice as much
    bytes: float  # tables and their derivatives, with all rows


class Plan:
    """Steps, layouts and places of tables; sets of variables are bit masks over positions in the order.

    Parameters
    ----------
    cardinalities : of all variables.
    scopes : the variables of each leaf.
    order : in which order variables are summed out; other variables are kept.
    rows, row_leaves : the length of the row axis, and the leaves that have it.
    wanted : the variables whose marginals will be asked for (None: all).
    """

    def __init__(
        self,
        cardinalities: Sequence[int],
        scopes: Sequence[Sequence[int]],
        order: Iterable[int],
        *,
        rows: int = 1,
        row_leaves: Collection[int] = (),
        wanted: Collection[int] | None = None,
    ) -> None:
        self.n_leaves = len(scopes)
        self.rows = rows
        self.wanted = wanted
        order = list(order)
        occurring = {v for scope in scopes for v in scope}
        self._name = [*order, *sorted(occurring.difference(order))]  # our numbers: positions in the order
        self.sizes = [int(cardinalities[v]) for v in self._name] + [rows]
        position = {v: i for i, v in enumerate(self._name)}
        self.row_bit = 1 << len(self._name)
        marked = set(row_leaves)
        self.masks = [
            sum(1 << position[v] for v in scope) | (self.row_bit if leaf in marked else 0)
            for leaf, scope in enumerate(scopes)
        ]
        self.members: Callable[[int], tuple[int, ...]] = Members().__getitem__
        self.size: Callable[[int], int] = JointStates(self.sizes, self.members).__getitem__
        kept = (self.row_bit << 1) - (1 << len(order))
        self.steps = self._contract(len(order), kept)
        if rows > 1:  # first what all rows share
            self.steps.sort(key=lambda step: self.has_rows(step.out))
        self.n_shared = sum(not self.has_rows(step.out) for step in self.steps) if rows > 1 else 0

    # -- the tree ---------------------------------------------------------------------------------------

    def _contract(self, n_order: int, kept: int) -> list[Step]:
        """Pairs of tables to multiply, each variable of the order in turn."""
        masks = self.masks
        holders: list[set[int]] = [set() for _ in self.sizes]
        for table, mask in enumerate(masks):
            for v in self.members(mask):
                holders[v].add(table)
        steps: list[Step] = []

        def multiply(a: int, b: int) -> None:
            union = masks[a] | (masks[b] if b != NOTHING else 0)
            out = len(masks)
            left = union
            pair = {a, b}
            for v in self.members(union):
                holding = holders[v]
                if holding <= pair and not kept >> v & 1:
                    left ^= 1 << v
                    holding.clear()
                else:
                    holding -= pair
                    holding.add(out)
            masks.append(left)
            steps.append(Step(a, b, out))

        for leaf in range(self.n_leaves):
            if any(len(holders[v]) == 1 and not kept >> v & 1 for v in self.members(masks[leaf])):
                multiply(leaf, NOTHING)
        for v in range(n_order):
            while len(holders[v]) > 1:
                multiply(*self._cheapest(sorted(holders[v])))
        return steps

    def _cheapest(self, tables: list[int]) -> tuple[int, int]:
        """The two tables with the smallest product; among many, the smallest table and its best partner."""
        if len(tables) == 2:
            return tables[0], tables[1]
        masks = self.masks
        if len(tables) > 6:
            a = min(tables, key=lambda t: self.size(masks[t]))
            return a, min((t for t in tables if t != a), key=lambda t: self.size(masks[a] | masks[t]))
        pairs = ((a, b) for i, a in enumerate(tables) for b in tables[i + 1 :])
        return min(pairs, key=lambda pair: self.size(masks[pair[0]] | masks[pair[1]]))

    def has_rows(self, table: int) -> bool:
        """Whether a table has the row axis."""
        return self.masks[table] & self.row_bit != 0

    # -- what it will cost ------------------------------------------------------------------------------

    @cached_property
    def forecast(self) -> Forecast:
        """Exact for the tables (a matrix product has a copy of its output); the peak of both passes."""
        width, clique, work = -1, 1.0, 0.0
        for a, b, _ in self.steps:
            union = self.masks[a] | (self.masks[b] if b != NOTHING else 0)
            size = float(self.size(union))
            work += size
            width = max(width, (union & ~self.row_bit).bit_count() - 1)
            clique = max(clique, size / (self.rows if union & self.row_bit else 1))
        entries = float(sum(self.table_sizes) + sum(self.slope_sizes))
        if clique >= MATRIX_WORK and self.matrix_steps:
            entries += max(self.table_sizes[self.steps[number].out] for number in self.matrix_steps)
        return Forecast(width, clique, work, 8.0 * entries)

    @cached_property
    def table_sizes(self) -> list[int]:
        """How many entries each table has."""
        return [self.size(mask) for mask in self.masks]

    @cached_property
    def leaf_sizes(self) -> NDArray[np.int64]:
        """How many entries each leaf has."""
        return np.array(self.table_sizes[: self.n_leaves], dtype=np.int64)

    @cached_property
    def slope_sizes(self) -> list[int]:
        """How many entries the derivatives of each table have."""
        if self.rows == 1:
            return self.table_sizes
        return [self.size(mask | self.row_bit) for mask in self.masks]

    @property
    def largest_clique(self) -> list[int]:
        """The variables of the largest clique; none if there are no steps."""
        unions = (self.masks[a] | (self.masks[b] if b != NOTHING else 0) for a, b, _ in self.steps)
        widest = max(unions, key=self.size, default=0) & ~self.row_bit
        return [self._name[v] for v in self.members(widest)]

    # -- layouts ----------------------------------------------------------------------------------------

    @cached_property
    def groups(self) -> list[tuple[int, int, int, int, int]]:
        """For each step: batch, a, b, k, and which of the first three is the inner axis (0: the row axis)."""
        return [self._grouped(step) for step in self.steps]

    def _grouped(self, step: Step) -> tuple[int, int, int, int, int]:
        masks = self.masks
        a, out = masks[step.a], masks[step.out]
        b = masks[step.b] if step.b != NOTHING else 0
        row = self.row_bit
        batch, alone_a, alone_b = (m & ~row for m in (a & b & out, a & ~b & out, b & ~a & out))
        k = (a | b) & ~out
        if self.rows > 1:
            return batch, alone_a, alone_b, k, 0
        longest = max((alone_a, alone_b), key=self.size)
        if self.size(longest) < min(INNER_ENOUGH, self.size(batch)):
            longest = batch
        return batch, alone_a, alone_b, k, longest

    @cached_property
    def matrix_steps(self) -> list[int]:
        """The steps that are large matrix products: see :mod:`.matrix_products`."""
        if self.rows > 1:
            return []
        found = []
        for number, (_, alone_a, alone_b, k, inner) in enumerate(self.groups):
            if self.size(k) >= MATRIX_AXIS and inner and inner in (alone_a, alone_b):
                m, n = self.size(alone_a), self.size(alone_b)
                if min(m, n) >= MATRIX_AXIS and m * n * self.size(k) >= MATRIX_WORK:
                    found.append(number)
        return found

    @cached_property
    def _layouts(self) -> list[list[int]]:
        """The variables of each table from the slowest axis to the fastest, without the row axis."""
        layouts = [list(self.members(mask & ~self.row_bit)) for mask in self.masks]
        for step, (batch, alone_a, alone_b, k, inner) in zip(self.steps, self.groups, strict=True):
            for table, alone in ((step.a, alone_a), (step.b, alone_b)):
                if table != NOTHING:
                    parts = [part for part in (batch, alone) if part != inner]
                    parts.append(k)
                    if inner & self.masks[table]:
                        parts.append(inner)
                    layouts[table] = [v for part in parts for v in self.members(part)]
        return layouts

    def layout(self, table: int) -> list[int]:
        """The variables of a table in the order of its axes."""
        return [self._name[v] for v in self._layouts[table]]

    @cached_property
    def strides(self) -> list[dict[int, int]]:
        """How far apart neighbours along each axis of each table are."""
        strides = []
        for table, layout in enumerate(self._layouts):
            stride = self.rows if self.has_rows(table) else 1
            of = {}
            for v in reversed(layout):
                of[v] = stride
                stride *= self.sizes[v]
            strides.append(of)
        return strides

    # -- places -----------------------------------------------------------------------------------------

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the values of each table start; place 0 holds the number 1, which stands for "no table"."""
        return np.cumsum([1, *self.table_sizes], dtype=np.int64)

    @cached_property
    def slope_offsets(self) -> NDArray[np.int64]:
        """Where the derivatives of each table start."""
        return self.offsets if self.rows == 1 else np.cumsum([1, *self.slope_sizes], dtype=np.int64)

    @cached_property
    def marginal_tables(self) -> dict[int, int]:
        """For each variable asked for, the smallest table that holds it."""
        best: dict[int, tuple[int, int]] = {}
        wanted = None if self.wanted is None else set(self.wanted)
        for table, mask in enumerate(self.masks):
            size = self.size(mask & ~self.row_bit)
            for v in self._layouts[table]:
                if (wanted is None or self._name[v] in wanted) and (v not in best or size < best[v][0]):
                    best[v] = size, table
        return {self._name[v]: table for v, (_, table) in sorted(best.items())}

    @cached_property
    def offset_lists(self) -> tuple[list[int], list[int]]:
        """``offsets`` and ``slope_offsets`` as lists."""
        return self.offsets.tolist(), self.slope_offsets.tolist()

    @property
    def roots(self) -> list[int]:
        """Tables that no step reads."""
        read = {table for step in self.steps for table in (step.a, step.b)}
        return [table for table in range(len(self.masks)) if table not in read]

    def shape(self, table: int) -> list[int]:
        """The shape of a table as laid out, without the row axis."""
        return [self.sizes[v] for v in self._layouts[table]]

    def summed(self, step: Step) -> list[int]:
        """The variables that a step sums out, in the order of their axes."""
        union = self.masks[step.a] | (self.masks[step.b] if step.b != NOTHING else 0)
        return [self._name[v] for v in self.members(union & ~self.masks[step.out])]

    def slice_at(
        self, table: int, values: NDArray[np.float64], states: Mapping[int, int]
    ) -> NDArray[np.float64]:
        """The entries of a table (without rows) at the known states of some of its variables."""
        start, end = self.offset_lists[0][table : table + 2]
        place = tuple(states.get(v, slice(None)) for v in self.layout(table))
        part: NDArray[np.float64] = values[start:end].reshape(self.shape(table))[place]
        return part
