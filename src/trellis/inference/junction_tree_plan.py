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

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

UIntArray = NDArray[np.uint64]

# Columns of the record of a step; the kernels read them by these numbers.
(
    A_TABLE, B_TABLE, O_TABLE, A_VALUES, B_VALUES, O_VALUES, K, A_K, B_K, INNER, A_INNER, B_INNER,
    SCATTER, MAP, FIRST_AXIS, N_AXES, O_SIZE, O_ROWS,
    A_SLOPES, B_SLOPES, O_SLOPES, A_BY, B_BY, O_BY, SLOPE_INNER, A_SLOPE_INNER, B_SLOPE_INNER,
    A_SLOPE_SIZE, B_SLOPE_SIZE, A_NEEDED, B_NEEDED,
    N_COLUMNS,
) = range(32)  # fmt: skip

NOTHING = -1  # the second input of a step that only sums
INNER_ENOUGH = 16  # an inner axis of one table alone reads less memory, and is taken once it is this long


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
    """Steps, layouts and the arrays that kernels read.

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
        self._sizes = [int(cardinalities[v]) for v in self._name] + [rows]
        position = {v: i for i, v in enumerate(self._name)}
        self._row_bit = 1 << len(self._name)
        marked = set(row_leaves)
        self._masks = [
            sum(1 << position[v] for v in scope) | (self._row_bit if leaf in marked else 0)
            for leaf, scope in enumerate(scopes)
        ]
        self._bits: dict[int, tuple[int, ...]] = {}
        self._products: dict[int, int] = {0: 1}
        kept = (self._row_bit << 1) - (1 << len(order))
        self.steps = self._contract(len(order), kept)
        if rows > 1:  # first what all rows share
            self.steps.sort(key=lambda step: self.has_rows(step.out))
        self.n_shared = sum(not self.has_rows(step.out) for step in self.steps) if rows > 1 else 0

    # -- the tree ---------------------------------------------------------------------------------------

    def _contract(self, n_order: int, kept: int) -> list[Step]:
        """Pairs of tables to multiply, each variable of the order in turn."""
        masks = self._masks
        holders: list[set[int]] = [set() for _ in self._sizes]
        for table, mask in enumerate(masks):
            for v in self._members(mask):
                holders[v].add(table)
        steps: list[Step] = []

        def multiply(a: int, b: int) -> None:
            union = masks[a] | (masks[b] if b != NOTHING else 0)
            out = len(masks)
            left = union
            pair = {a, b}
            for v in self._members(union):
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
            if any(len(holders[v]) == 1 and not kept >> v & 1 for v in self._members(masks[leaf])):
                multiply(leaf, NOTHING)
        for v in range(n_order):
            while len(holders[v]) > 1:
                multiply(*self._cheapest(sorted(holders[v])))
        return steps

    def _cheapest(self, tables: list[int]) -> tuple[int, int]:
        """The two tables with the smallest product; among many, the smallest table and its best partner."""
        if len(tables) == 2:
            return tables[0], tables[1]
        masks = self._masks
        if len(tables) > 6:
            a = min(tables, key=lambda t: self._size(masks[t]))
            return a, min((t for t in tables if t != a), key=lambda t: self._size(masks[a] | masks[t]))
        pairs = ((a, b) for i, a in enumerate(tables) for b in tables[i + 1 :])
        return min(pairs, key=lambda pair: self._size(masks[pair[0]] | masks[pair[1]]))

    def _members(self, mask: int) -> tuple[int, ...]:
        """The variables of a mask, ascending."""
        known = self._bits.get(mask)
        if known is None:
            members, rest = [], mask
            while rest:
                low = rest & -rest
                members.append(low.bit_length() - 1)
                rest ^= low
            known = self._bits[mask] = tuple(members)
        return known

    def _size(self, mask: int) -> int:
        known = self._products.get(mask)
        if known is None:
            known = 1
            for v in self._members(mask):
                known *= self._sizes[v]
            self._products[mask] = known
        return known

    def has_rows(self, table: int) -> bool:
        """Whether a table has the row axis."""
        return self._masks[table] & self._row_bit != 0

    # -- what it will cost ------------------------------------------------------------------------------

    @cached_property
    def forecast(self) -> Forecast:
        """Exact for the tables; the peak of one pass in both directions."""
        width, clique, work = -1, 1.0, 0.0
        for a, b, _ in self.steps:
            union = self._masks[a] | (self._masks[b] if b != NOTHING else 0)
            size = float(self._size(union))
            work += size
            width = max(width, (union & ~self._row_bit).bit_count() - 1)
            clique = max(clique, size / (self.rows if union & self._row_bit else 1))
        values = sum(float(self._size(mask)) for mask in self._masks)
        slopes = sum(float(self._size(mask | self._row_bit)) for mask in self._masks)
        return Forecast(width, clique, work, 8.0 * (values + slopes))

    @property
    def largest_clique(self) -> list[int]:
        """The variables of the largest clique; none if there are no steps."""
        unions = (self._masks[a] | (self._masks[b] if b != NOTHING else 0) for a, b, _ in self.steps)
        widest = max(unions, key=self._size, default=0) & ~self._row_bit
        return [self._name[v] for v in self._members(widest)]

    # -- layouts ----------------------------------------------------------------------------------------

    def _groups(self, step: Step) -> tuple[int, int, int, int, int]:
        """batch, a, b, k, and which of the first three is the inner axis (0 with rows: the row axis is)."""
        masks = self._masks
        a, out = masks[step.a], masks[step.out]
        b = masks[step.b] if step.b != NOTHING else 0
        row = self._row_bit
        batch, alone_a, alone_b = (m & ~row for m in (a & b & out, a & ~b & out, b & ~a & out))
        k = (a | b) & ~out
        if self.rows > 1:
            return batch, alone_a, alone_b, k, 0
        longest = max((alone_a, alone_b), key=self._size)
        if self._size(longest) < min(INNER_ENOUGH, self._size(batch)):
            longest = batch
        return batch, alone_a, alone_b, k, longest

    @cached_property
    def _layouts(self) -> list[list[int]]:
        """The variables of each table from the slowest axis to the fastest, without the row axis."""
        layouts = [list(self._members(mask & ~self._row_bit)) for mask in self._masks]
        for step in self.steps:
            batch, alone_a, alone_b, k, inner = self._groups(step)
            for table, alone in ((step.a, alone_a), (step.b, alone_b)):
                if table != NOTHING:
                    parts = [part for part in (batch, alone) if part != inner]
                    parts.append(k)
                    if inner & self._masks[table]:
                        parts.append(inner)
                    layouts[table] = [v for part in parts for v in self._members(part)]
        return layouts

    def layout(self, table: int) -> list[int]:
        """The variables of a table in the order of its axes."""
        return [self._name[v] for v in self._layouts[table]]

    @cached_property
    def _strides(self) -> list[dict[int, int]]:
        strides = []
        for table, layout in enumerate(self._layouts):
            stride = self.rows if self.has_rows(table) else 1
            of = {}
            for v in reversed(layout):
                of[v] = stride
                stride *= self._sizes[v]
            strides.append(of)
        return strides

    # -- arrays for kernels -----------------------------------------------------------------------------

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the values of each table start; place 0 holds the number 1, which stands for "no table"."""
        return np.cumsum([1, *(self._size(mask) for mask in self._masks)], dtype=np.int64)

    @cached_property
    def slope_offsets(self) -> NDArray[np.int64]:
        """Where the derivatives of each table start."""
        if self.rows == 1:
            return self.offsets
        sizes = (self._size(mask | self._row_bit) for mask in self._masks)
        return np.cumsum([1, *sizes], dtype=np.int64)

    @cached_property
    def needed(self) -> list[bool]:
        """The tables whose derivatives lead to a marginal that is asked for."""
        needed = [False] * len(self._masks)
        for table in self.marginal_tables.values():
            needed[table] = True
        for step in self.steps:
            needed[step.out] |= needed[step.a] or (step.b != NOTHING and needed[step.b])
        return needed

    @cached_property
    def marginal_tables(self) -> dict[int, int]:
        """For each variable asked for, the smallest table that holds it."""
        best: dict[int, tuple[int, int]] = {}
        wanted = None if self.wanted is None else set(self.wanted)
        for table, mask in enumerate(self._masks):
            size = self._size(mask & ~self._row_bit)
            for v in self._layouts[table]:
                if (wanted is None or self._name[v] in wanted) and (v not in best or size < best[v][0]):
                    best[v] = size, table
        return {self._name[v]: table for v, (_, table) in sorted(best.items())}

    @cached_property
    def records(self) -> tuple[UIntArray, UIntArray, UIntArray]:
        """Steps (one row of columns each), loops (length and strides in A, B and O), axes of the maps."""
        axes: list[tuple[int, int, int, int]] = []
        map_axes: list[tuple[int, int, int]] = []  # step, length, stride
        rows = []
        maps = 0
        for number, step in enumerate(self.steps):
            record, mapped = self._record(step, axes)
            if record[SCATTER]:
                record[MAP] = maps
                maps += record[INNER]
                map_axes.extend((number, size, stride) for size, stride in mapped)
            rows.append(record)
        shaped = np.array(rows, dtype=np.uint64).reshape(len(rows), N_COLUMNS)
        loops = np.array(axes, dtype=np.uint64).reshape(len(axes), 4)
        return shaped, loops, np.array(map_axes, dtype=np.uint64).reshape(len(map_axes), 3)

    def _record(
        self, step: Step, axes: list[tuple[int, int, int, int]]
    ) -> tuple[list[int], list[tuple[int, int]]]:
        a, b, out = step
        batch, alone_a, alone_b, k, inner = self._groups(step)
        of_a, of_out = self._strides[a], self._strides[out]
        of_b = self._strides[b] if b != NOTHING else {}
        rows, sizes = self.rows, self._sizes
        first = len(axes)
        for part in (batch, alone_a, alone_b):
            if part != inner:
                for v in self._members(part):
                    axis = (sizes[v], of_a.get(v, 0), of_b.get(v, 0), of_out[v])
                    if len(axes) > first and axes[-1][1:] == tuple(s * axis[0] for s in axis[1:]):
                        axis = (axes.pop()[0] * axis[0], *axis[1:])
                    axes.append(axis)
        summed = self._members(k)
        row = [0] * N_COLUMNS
        row[A_TABLE], row[B_TABLE], row[O_TABLE] = a, max(b, 0), out
        offsets, slopes = self._offset_lists
        row[A_VALUES], row[O_VALUES] = offsets[a], offsets[out]
        row[B_VALUES] = offsets[b] if b != NOTHING else 0
        row[K] = self._size(k)
        row[A_K] = of_a.get(summed[-1], 0) if summed else 0
        row[B_K] = of_b.get(summed[-1], 0) if summed else 0
        row[FIRST_AXIS], row[N_AXES] = first, len(axes) - first
        row[O_SIZE], row[O_ROWS] = offsets[out + 1] - offsets[out], self.has_rows(out)
        row[A_SLOPES], row[O_SLOPES] = slopes[a], slopes[out]
        row[B_SLOPES] = slopes[b] if b != NOTHING else 0
        row[A_SLOPE_SIZE] = slopes[a + 1] - slopes[a]
        row[B_SLOPE_SIZE] = slopes[b + 1] - slopes[b] if b != NOTHING else 0
        row[A_NEEDED], row[B_NEEDED] = self.needed[a], b != NOTHING and self.needed[b]
        mapped: list[tuple[int, int]] = []
        if rows > 1:
            row[INNER] = rows if self.has_rows(out) else 1
            row[A_INNER] = self.has_rows(a)
            row[B_INNER] = b != NOTHING and self.has_rows(b)
            row[SLOPE_INNER], row[A_SLOPE_INNER], row[B_SLOPE_INNER] = rows, 1, 1
            row[A_BY], row[O_BY] = (1 if self.has_rows(t) else rows for t in (a, out))
            row[B_BY] = 1 if b == NOTHING or self.has_rows(b) else rows
        else:
            row[INNER] = row[SLOPE_INNER] = self._size(inner)
            row[A_INNER] = row[A_SLOPE_INNER] = inner & self._masks[a] != 0
            row[B_INNER] = row[B_SLOPE_INNER] = b != NOTHING and inner & self._masks[b] != 0
            row[A_BY] = row[B_BY] = row[O_BY] = 1
            expected = 1
            for v in reversed(self._members(inner)):
                row[SCATTER] |= of_out[v] != expected
                expected *= sizes[v]
                mapped.append((sizes[v], of_out[v]))
        return row, mapped[::-1]

    @cached_property
    def _offset_lists(self) -> tuple[list[int], list[int]]:
        return self.offsets.tolist(), self.slope_offsets.tolist()

    @property
    def roots(self) -> list[int]:
        """Tables that no step reads."""
        read = {table for step in self.steps for table in (step.a, step.b)}
        return [table for table in range(len(self._masks)) if table not in read]

    def shape(self, table: int) -> list[int]:
        """The shape of a table as laid out, without the row axis."""
        return [self._sizes[v] for v in self._layouts[table]]

    def summed(self, step: Step) -> list[int]:
        """The variables that a step sums out, in the order of their axes."""
        union = self._masks[step.a] | (self._masks[step.b] if step.b != NOTHING else 0)
        return [self._name[v] for v in self._members(union & ~self._masks[step.out])]

    def slice_at(
        self, table: int, values: NDArray[np.float64], states: Mapping[int, int]
    ) -> NDArray[np.float64]:
        """The entries of a table (without rows) at the known states of some of its variables."""
        start, end = self._offset_lists[0][table : table + 2]
        place = tuple(states.get(v, slice(None)) for v in self.layout(table))
        part: NDArray[np.float64] = values[start:end].reshape(self.shape(table))[place]
        return part
