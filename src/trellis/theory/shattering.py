"""Growth function and VC dimension on given points, exactly, by search with pruning.

The labellings of n points are found by labelling one point after the other: a labelling of the first j points
is extended only if it is realisable, since a restriction of a realisable labelling is realisable. A class of
VC dimension d has at most sum_{i <= d} C(n, i) of them (Sauer), so the search is polynomial in n.

All else is read from this table (S, n), because a labelling of some points is realisable if and only if it is
the restriction of one in the table. A set of k points is shattered if the table shows all 2^k labellings on
it. Sets grow by one point at a time, and a point that cannot extend a set cannot extend a larger one: subsets
of shattered sets are shattered. No set is larger than log2(S), where the search stops early.

The dimension found is that *on the given points*, so a lower limit for the family on all points.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.theory.hypothesis_families import Family, FamilyLike, as_family

MOST_LABELLINGS = 1 << 20


@dataclass(frozen=True, eq=False)
class Shattering:
    """The points with the indices ``witness`` are shattered, ``dimension`` in number; no larger set is.

    Examples
    --------
    >>> from trellis.theory import Intervals, vc_dimension
    >>> found = vc_dimension(Intervals(), [0.0, 1.0, 2.0])
    >>> found.witness, found.growth
    ((0, 1), 7)
    """

    family: Family
    points: FloatArray
    witness: tuple[int, ...]
    growth: int

    @property
    def dimension(self) -> int:
        return len(self.witness)

    @property
    def witness_points(self) -> FloatArray:
        """(dimension, d)"""
        return self.points[list(self.witness)]

    def __int__(self) -> int:
        return self.dimension

    def __str__(self) -> str:
        shown = ", ".join("(" + ", ".join(f"{x:g}" for x in point) + ")" for point in self.witness_points)
        return (
            f"{self.family.name}: VC dimension {self.dimension} on {len(self.points)} points, "
            f"which are labelled in {self.growth:,} ways; shattered: {shown or 'no point'}"
        )


def labellings(
    family: FamilyLike, points: ArrayLike | None = None, *, limit: int = MOST_LABELLINGS
) -> BoolArray:
    """Every realisable labelling of the points, (S, n), in the order of binary numbers.

    Examples
    --------
    >>> from trellis.theory import Intervals, labellings
    >>> labellings(Intervals(), [0.0, 1.0]).astype(int).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    family = as_family(family)
    return _table(family, _checked(family, points), limit)


def growth(family: FamilyLike, points: ArrayLike | None = None, *, limit: int = MOST_LABELLINGS) -> int:
    """In how many ways the family labels the points.

    Examples
    --------
    >>> from trellis.theory import Intervals, growth
    >>> growth(Intervals(), [0.0, 1.0, 2.0, 3.0])
    11
    """
    return len(labellings(family, points, limit=limit))


def shatters(family: FamilyLike, points: ArrayLike | None = None) -> bool:
    """Whether every labelling of the points is realisable.

    Examples
    --------
    >>> from trellis.theory import Intervals, shatters
    >>> shatters(Intervals(), [0.0, 1.0]), shatters(Intervals(), [0.0, 1.0, 2.0])
    (True, False)
    """
    family = as_family(family)
    checked = _checked(family, points)
    return len(_table(family, checked, MOST_LABELLINGS)) == 1 << len(checked)


def vc_dimension(
    family: FamilyLike, points: ArrayLike | None = None, *, limit: int = MOST_LABELLINGS
) -> Shattering:
    """The largest shattered set among the points. ``limit``: give up beyond that many labellings.

    Examples
    --------
    >>> from trellis.theory import Intervals, vc_dimension
    >>> int(vc_dimension(Intervals(), [0.0, 1.0, 2.0]))
    2
    """
    family = as_family(family)
    checked = _checked(family, points)
    table = _table(family, checked, limit)
    if not len(table):
        raise DataError(
            f"{family.name}: no labelling at all is realisable; a family has at least one hypothesis"
        )
    return Shattering(family, checked, _largest_shattered(table), len(table))


def _checked(family: Family, points: ArrayLike | None) -> FloatArray:
    checked = family.points(points)
    if not len(checked):
        raise DataError(f"{family.name}: no points were given; give at least one")
    return checked


def _table(family: Family, points: FloatArray, limit: int) -> BoolArray:
    listed = family.labellings(points)
    if listed is not None:
        return listed
    table = np.zeros((1, 0), dtype=np.bool_)
    for j in range(len(points)):
        longer = [
            labels
            for prefix in table
            for last in (False, True)
            if family.realisable(points[: j + 1], labels := np.append(prefix, last))
        ]
        if len(longer) > limit:
            raise UnsupportedError(
                f"{family.name}: more than {limit:,} labellings of the first {j + 1} points; give fewer "
                "points, or a larger limit"
            )
        table = np.array(longer, dtype=np.bool_).reshape(-1, j + 1)
    return table


def _largest_shattered(table: BoolArray) -> tuple[int, ...]:
    most = len(table).bit_length() - 1  # 2^k labellings need k <= log2(S)
    bits = table.astype(np.int64)
    best: list[int] = []

    def grow(chosen: list[int], codes: IntArray, candidates: list[int]) -> None:
        """Extend ``chosen``, whose labels in each row of the table are the binary number ``codes``."""
        nonlocal best
        if len(chosen) > len(best):
            best = chosen
        extended = []
        for j in candidates:
            longer = 2 * codes + bits[:, j]
            if np.bincount(longer, minlength=2 << len(chosen)).all():
                extended.append((j, longer))
        for i, (j, longer) in enumerate(extended):
            if len(best) == most or len(chosen) + len(extended) - i <= len(best):
                return
            # only points that extend this set can extend a larger one
            grow([*chosen, j], longer, [k for k, _ in extended[i + 1 :]])

    if most:
        grow([], np.zeros(len(table), dtype=np.int64), list(range(table.shape[1])))
    return tuple(best)
