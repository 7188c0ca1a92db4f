"""Which variables Gibbs sampling draws together, so that zeros in tables cannot hold it back.

A table with zeros can split the possible configurations into islands that changing one variable at a time
never leaves. So the variables of such a table go into one block, and a block is drawn at once, exactly, given
everything outside of it. Then no table with zeros reaches beyond a block: what is possible inside does not
depend on the state outside, every configuration can follow upon every other in one sweep, and the chain is
irreducible. States that are impossible by themselves, as those that evidence rules out, are no islands; they
are found first (arc consistency) and tie nothing together.

Nearly deterministic tables hold a chain back for thousands of sweeps. Their variables are drawn together too,
where that is cheap. How strong a table ties its variables is the range of what is left of its logarithms
after the means along each axis have been taken off.

A block is eliminated variable by variable, as in variable elimination, and drawn in the opposite order:

    m_i(separator) = sum over x_i of the product of factors and messages in the bucket of x_i
    x_i ~ that product,  given the variables eliminated later

in logarithms, unless no product of the factors of the block can be too small for a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.factors.elimination_order import elimination_order
from trellis.factors.flat_factors import FlatFactors, offsets
from trellis.factors.tables import Table

MOST = 2.0**16  # entries of the buckets of a block that zeros ask for: a millisecond for each sweep
CHEAP = 2.0**10  # entries of a block that is drawn at once because its tables are nearly deterministic
STRONG = np.log(1e2)  # of such tables
RIGID = np.log(1e6)  # of tables that are as good as deterministic
WITHIN_RANGE = 600.0  # logarithms of products that are numbers


class Blocks(NamedTuple):
    """Blocks for the kernel: buckets of all blocks side by side, each block in the order of elimination.

    The table of a bucket has the states of its separator on rows and those of its own variable along them. It
    is a product of parts; part p is read from factor ``source`` (or the message of bucket -1 - ``source``),
    at the places ``maps[map_start[p] : ...]``. A block of one variable has no parts: it needs no table.
    """

    block_start: IntArray
    in_logs: BoolArray  # whether a block is eliminated in logarithms
    variable: IntArray
    table_start: IntArray
    message_start: IntArray
    separator_start: IntArray
    separator: IntArray
    separator_stride: IntArray
    part_start: IntArray
    source: IntArray
    map_start: IntArray
    maps: IntArray


@dataclass(frozen=True)
class Grouping:
    """``groups``: the variables of each block in the order of elimination. ``apart``: the variables of a
    table with zeros that no block holds together; ``loose``: of a table that is nearly so."""

    groups: list[tuple[int, ...]]
    apart: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()


class _Tie(NamedTuple):
    """Variables to be drawn together, and how strongly: infinite where there are zeros."""

    strength: float
    variables: tuple[int, ...]


def group_variables(
    sizes: IntArray,
    tables: Sequence[Table],
    free: Sequence[int],
    allowed: Sequence[BoolArray],
    *,
    all_zeros: bool,
) -> Grouping:
    """Blocks of the variables ``free``, of which the states ``allowed`` are not known to be impossible.

    ``all_zeros``: where they cannot all be inside of blocks, no blocks are looked for.
    """
    ties = sorted(_ties(tables, allowed), reverse=True)
    partition = _Partition(sizes, [table.variables for table in tables], free)
    zeros = [tie.variables for tie in ties if tie.strength == np.inf]
    whole = partition.joined(zeros)
    apart: tuple[int, ...] = ()
    loose: tuple[int, ...] = ()
    too_large = [group for group in whole if partition.cost(group) > MOST]
    if not too_large:
        partition.groups = {v: group for group in whole for v in group}
    elif all_zeros:
        apart = next(variables for variables in zeros if too_large[0].issuperset(variables))
        return Grouping([], apart)
    for strength, variables in ties:
        limit = MOST if strength > RIGID else CHEAP
        if not partition.join(variables, limit):
            if strength == np.inf:
                apart = apart or variables
            elif strength > RIGID:
                loose = loose or variables
    return Grouping(partition.ordered(), apart, loose)


def _ties(tables: Sequence[Table], allowed: Sequence[BoolArray]) -> Iterable[_Tie]:
    for variables, values in tables:
        open_axes = [axis for axis, v in enumerate(variables) if np.count_nonzero(allowed[v]) > 1]
        if len(open_axes) < 2:
            continue
        possible = values[np.ix_(*(allowed[v] for v in variables))]
        zero = possible == 0.0
        if zero.any():
            held = [axis for axis in open_axes if (zero != zero.take([0], axis=axis)).any()]
            yield _Tie(np.inf, tuple(variables[axis] for axis in held))
        else:
            strength = _interaction(np.log(possible))
            if strength > STRONG:
                yield _Tie(strength, tuple(variables[axis] for axis in open_axes))


def _interaction(logs: FloatArray) -> float:
    """The range of what no sum of functions of single variables explains."""
    rest = logs - logs.mean()
    for axis in range(logs.ndim):
        others = tuple(a for a in range(logs.ndim) if a != axis)
        rest = rest - rest.mean(axis=others, keepdims=True)
    return float(np.ptp(rest))


class _Partition:
    """Groups of variables, and what drawing each costs."""

    def __init__(self, sizes: IntArray, scopes: Sequence[tuple[int, ...]], free: Sequence[int]) -> None:
        self._sizes, self._scopes = sizes, scopes
        self._holders: dict[int, list[int]] = {}
        for number, scope in enumerate(scopes):
            for v in scope:
                self._holders.setdefault(v, []).append(number)
        self._orders: dict[frozenset[int], tuple[tuple[int, ...], float]] = {}
        self.groups = {v: frozenset([v]) for v in free}

    def joined(self, ties: Iterable[tuple[int, ...]]) -> list[frozenset[int]]:
        """The groups if all variables of each tie were in one."""
        groups = dict(self.groups)
        for variables in ties:
            union = frozenset().union(*(groups[v] for v in variables))
            groups.update(dict.fromkeys(union, union))
        return list(dict.fromkeys(groups.values()))

    def join(self, variables: tuple[int, ...], limit: float) -> bool:
        """Whether these variables are in one group, or can be within a cost."""
        union = frozenset().union(*(self.groups[v] for v in variables))
        if union != self.groups[variables[0]]:
            if self.cost(union) > limit:
                return False
            self.groups.update(dict.fromkeys(union, union))
        return True

    def cost(self, group: frozenset[int]) -> float:
        return self._order(group)[1]

    def _order(self, group: frozenset[int]) -> tuple[tuple[int, ...], float]:
        if group not in self._orders:
            if len(group) == 1:
                self._orders[group] = tuple(group), 0.0
            else:
                touched = {number for v in group for number in self._holders[v]}
                scopes = [tuple(v for v in self._scopes[number] if v in group) for number in sorted(touched)]
                best = elimination_order(self._sizes, scopes, "min_weight")
                self._orders[group] = best.variables, best.total
        return self._orders[group]

    def ordered(self) -> list[tuple[int, ...]]:
        """The groups by their first variables, each in the order of elimination."""
        return [self._order(group)[0] for group in dict.fromkeys(self.groups.values())]


def lay_out_blocks(factors: FlatFactors, groups: Sequence[tuple[int, ...]]) -> Blocks:
    """The arrays of the kernel; ``factors`` may have been multiplied together, within or across blocks."""
    buckets: list[_Bucket] = []
    for group in groups:
        buckets += _buckets(factors, group, len(buckets))
    parts = [part for bucket in buckets for part in bucket.parts]
    return Blocks(
        offsets(_lengths(groups)),
        np.array([_range(factors, group) > WITHIN_RANGE for group in groups], dtype=np.bool_),
        np.array([bucket.variable for bucket in buckets], dtype=np.int64),
        offsets(np.array([bucket.n_rows * bucket.size for bucket in buckets], dtype=np.int64)),
        offsets(np.array([bucket.n_rows for bucket in buckets], dtype=np.int64)),
        offsets(_lengths([bucket.separator for bucket in buckets])),
        np.array([v for bucket in buckets for v in bucket.separator], dtype=np.int64),
        np.array([stride for bucket in buckets for stride in bucket.strides], dtype=np.int64),
        offsets(_lengths([bucket.parts for bucket in buckets])),
        np.array([source for source, _ in parts], dtype=np.int64),
        offsets(_lengths([places for _, places in parts])),
        np.concatenate([np.zeros(0, dtype=np.int64), *(places for _, places in parts)]),
    )


def _range(factors: FlatFactors, group: tuple[int, ...]) -> float:
    """How far the logarithms of products of the factors of a block, and sums of them, can be from 0."""
    span = float(np.log(factors.cardinalities[list(group)]).sum())
    for f in {int(factors.factor_of[e]) for v in group for e in _places(factors, v)}:
        logs = factors.values[factors.value_start[f] : factors.value_start[f + 1]]
        span += float(np.abs(logs[logs > -np.inf]).max(initial=0.0))
    return span


@dataclass(frozen=True)
class _Bucket:
    """``strides``: how many rows apart neighbouring states of each variable of the separator are."""

    variable: int
    size: int
    separator: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    n_rows: int = 0
    parts: tuple[tuple[int, IntArray], ...] = ()


def _buckets(factors: FlatFactors, group: tuple[int, ...], first: int) -> list[_Bucket]:
    """The buckets of one block, of which ``first`` have been numbered before."""
    sizes = factors.cardinalities
    if len(group) == 1:
        return [_Bucket(group[0], int(sizes[group[0]]))]
    position = {v: i for i, v in enumerate(group)}
    waiting: list[list[tuple[int, dict[int, int]]]] = [[] for _ in group]  # sources with their strides
    for f in sorted({int(factors.factor_of[e]) for v in group for e in _places(factors, v)}):
        span = range(factors.scope_start[f], factors.scope_start[f + 1])
        inside = {int(factors.scope[e]): int(factors.stride[e]) for e in span}
        inside = {v: stride for v, stride in inside.items() if v in position}
        waiting[min(position[v] for v in inside)].append((f, inside))
    found = []
    for i, variable in enumerate(group):
        scope = {v for _, strides in waiting[i] for v in strides} - {variable}
        separator = tuple(sorted(scope, key=position.__getitem__))
        steps = np.cumprod([1, *(int(sizes[v]) for v in reversed(separator))])
        n_rows, strides = int(steps[-1]), tuple(steps[-2::-1].tolist())
        axes = (*separator, variable)
        parts = tuple((source, _map(sizes, axes, inside)) for source, inside in waiting[i])
        found.append(_Bucket(variable, int(sizes[variable]), separator, strides, n_rows, parts))
        if separator:
            message = dict(zip(separator, strides, strict=True))
            waiting[position[separator[0]]].append((-1 - (first + i), message))
    return found


def _places(factors: FlatFactors, v: int) -> IntArray:
    return factors.incidence[factors.incidence_start[v] : factors.incidence_start[v + 1]]


def _map(sizes: IntArray, axes: tuple[int, ...], strides: dict[int, int]) -> IntArray:
    """Where each entry of a table with these axes is read, relative to where all states are 0."""
    places = np.zeros(1, dtype=np.int64)
    for v in axes:
        places = (places[:, None] + strides.get(v, 0) * np.arange(sizes[v])).ravel()
    return places


def _lengths(several: Sequence[Sequence[object] | IntArray]) -> IntArray:
    return np.array([len(one) for one in several], dtype=np.int64)
