"""The steps of a plan as rows of whole numbers, which kernels read.

A step has loops over all axes but k and the inner one (in ``axes``: length, and strides in A, B and O), the
sum over k (its length, and strides in A and B), and the inner axis: contiguous in the inputs that hold it,
scattered in O through a map where O is laid out otherwise.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import UIntArray
from trellis.factors.junction_tree.plan import NOTHING, Plan

# Columns. A table's values and its derivatives (slopes) have places of their own; BY is the factor from
# strides in values to strides in slopes, for tables whose derivatives alone have rows.
(
    A_TABLE, B_TABLE, O_TABLE, A_VALUES, B_VALUES, O_VALUES, K, A_K, B_K, INNER, A_INNER, B_INNER,
    SCATTER, MAP, FIRST_AXIS, N_AXES, O_SIZE, O_ROWS,
    A_SLOPES, B_SLOPES, O_SLOPES, A_BY, B_BY, O_BY, SLOPE_INNER, A_SLOPE_INNER, B_SLOPE_INNER,
    A_SLOPE_SIZE, B_SLOPE_SIZE,
    N_COLUMNS,
) = range(30)  # fmt: skip

Axis = tuple[int, int, int, int]


def step_records(plan: Plan) -> tuple[UIntArray, UIntArray, UIntArray]:
    """Steps (one row of columns each), loops, and the axes of the maps (step, length, stride in O)."""
    axes: list[Axis] = []
    map_axes: list[tuple[int, int, int]] = []
    rows = []
    maps = 0
    for number in range(len(plan.steps)):
        row = _places(plan, number)
        first = len(axes)
        _add_loops(plan, number, axes)
        row[FIRST_AXIS], row[N_AXES] = first, len(axes) - first
        mapped = _inner_rows(plan, number, row) if plan.rows > 1 else _inner_group(plan, number, row)
        if row[SCATTER]:
            row[MAP] = maps
            maps += row[INNER]
            map_axes.extend((number, size, stride) for size, stride in mapped)
        rows.append(row)
    shaped = np.array(rows, dtype=np.uint64).reshape(len(rows), N_COLUMNS)
    loops = np.array(axes, dtype=np.uint64).reshape(len(axes), 4)
    return shaped, loops, np.array(map_axes, dtype=np.uint64).reshape(len(map_axes), 3)


def _places(plan: Plan, number: int) -> list[int]:
    """Where the tables of a step are, and its sum over k."""
    a, b, out = plan.steps[number]
    summed = plan.groups[number][3]
    offsets, slopes = plan.offset_lists
    row = [0] * N_COLUMNS
    row[A_TABLE], row[B_TABLE], row[O_TABLE] = a, max(b, 0), out
    row[A_VALUES], row[O_VALUES] = offsets[a], offsets[out]
    row[A_SLOPES], row[O_SLOPES] = slopes[a], slopes[out]
    row[A_SLOPE_SIZE] = slopes[a + 1] - slopes[a]
    row[O_SIZE], row[O_ROWS] = offsets[out + 1] - offsets[out], plan.has_rows(out)
    row[K] = plan.size(summed)
    if summed:  # k lies together in A and in B: the stride of its fastest variable
        fastest = plan.members(summed)[-1]
        row[A_K] = plan.strides[a][fastest]
        row[B_K] = plan.strides[b][fastest] if b != NOTHING else 0
    if b != NOTHING:
        row[B_VALUES], row[B_SLOPES] = offsets[b], slopes[b]
        row[B_SLOPE_SIZE] = slopes[b + 1] - slopes[b]
    return row


def _add_loops(plan: Plan, number: int, axes: list[Axis]) -> None:
    """Loops over all variables of O but the inner ones, neighbours in one loop where strides allow."""
    a, b, out = plan.steps[number]
    batch, alone_a, alone_b, _, inner = plan.groups[number]
    of_a, of_out = plan.strides[a], plan.strides[out]
    of_b = plan.strides[b] if b != NOTHING else {}
    first = len(axes)
    for part in (batch, alone_a, alone_b):
        if part != inner:
            for v in plan.members(part):
                axis = (plan.sizes[v], of_a.get(v, 0), of_b.get(v, 0), of_out[v])
                if len(axes) > first and axes[-1][1:] == tuple(s * axis[0] for s in axis[1:]):
                    axis = (axes.pop()[0] * axis[0], *axis[1:])
                axes.append(axis)


def _inner_rows(plan: Plan, number: int, row: list[int]) -> list[tuple[int, int]]:
    """The rows are the inner axis, of the tables that have them and of all derivatives."""
    a, b, out = plan.steps[number]
    rows = plan.rows
    row[INNER] = rows if plan.has_rows(out) else 1
    row[A_INNER], row[B_INNER] = plan.has_rows(a), b != NOTHING and plan.has_rows(b)
    row[SLOPE_INNER], row[A_SLOPE_INNER], row[B_SLOPE_INNER] = rows, 1, 1
    row[A_BY], row[O_BY] = (1 if plan.has_rows(table) else rows for table in (a, out))
    row[B_BY] = 1 if b == NOTHING or plan.has_rows(b) else rows
    return []


def _inner_group(plan: Plan, number: int, row: list[int]) -> list[tuple[int, int]]:
    """A group of variables is the inner axis; its axes in O, from the slowest, for the map."""
    a, b, out = plan.steps[number]
    inner = plan.groups[number][4]
    row[INNER] = row[SLOPE_INNER] = plan.size(inner)
    row[A_INNER] = row[A_SLOPE_INNER] = inner & plan.masks[a] != 0
    row[B_INNER] = row[B_SLOPE_INNER] = b != NOTHING and inner & plan.masks[b] != 0
    row[A_BY] = row[B_BY] = row[O_BY] = 1
    mapped, expected = [], 1
    for v in reversed(plan.members(inner)):
        stride = plan.strides[out][v]
        row[SCATTER] |= stride != expected
        expected *= plan.sizes[v]
        mapped.append((plan.sizes[v], stride))
    return mapped[::-1]
