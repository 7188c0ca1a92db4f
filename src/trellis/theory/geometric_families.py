"""Families of hypotheses with a geometry: boxes, discs, half-planes, decision trees, sinusoids.

Intervals, Boxes   closed; the smallest box around the true points holds no false one
Discs              {x : ||x|| <= R}, R >= 0; with the centre, without it, or both kinds together
HalfPlanes         {x : w.x >= b} in any dimension: a linear program (HiGHS) finds w, b with a margin
Trees              thresholds on one coordinate in each node, ``depth`` of them on the longest path
Sinusoids          {x : sin(omega x) >= 0} on the line, for points that are multiples of one unit: the
                   pattern is periodic in omega, and one period is searched from one change of sign to
                   the next
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

import numpy as np
from scipy.optimize import linprog

from trellis.core.arguments import check_choice, check_int
from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError, NumericalError
from trellis.theory.hypothesis_families import Family, Hypothesis

MOST_SIGN_CHANGES = 1 << 22


@dataclass(frozen=True)
class Boxes(Family):
    """Closed axis-parallel boxes: intervals on the line, rectangles in the plane.

    Examples
    --------
    >>> from trellis.theory import Boxes, vc_dimension
    >>> int(vc_dimension(Boxes(), [[0, 1], [1, 0], [0, -1], [-1, 0], [0, 0]]))
    4
    """

    name: str = "axis-parallel boxes"

    def hypothesis(self, points: FloatArray, labels: BoolArray) -> Hypothesis | None:
        """The smallest box, or none; widened by half of the way to the nearest false point."""
        if not labels.any():
            return lambda x: np.zeros(len(x), dtype=np.bool_)
        low, high = points[labels].min(axis=0), points[labels].max(axis=0)
        beyond = np.maximum(low - points[~labels], points[~labels] - high).max(axis=1)
        if (beyond <= 0).any():
            return None
        room = 0.5 * (beyond.min() if len(beyond) else (high - low).max())
        return lambda x: np.asarray(((x >= low - room) & (x <= high + room)).all(axis=1))


@dataclass(frozen=True)
class Intervals(Boxes):
    """Closed intervals on the line.

    Examples
    --------
    >>> from trellis.theory import Intervals, growth
    >>> growth(Intervals(), [0.0, 1.0, 2.0])
    7
    """

    name: str = "intervals"
    coordinates: ClassVar[int | None] = 1


@dataclass(frozen=True)
class Rectangles(Boxes):
    """Closed axis-parallel rectangles in the plane.

    Examples
    --------
    >>> from trellis.theory import Rectangles, shatters
    >>> shatters(Rectangles(), [[0, 1], [1, 0], [0, -1], [-1, 0]])
    True
    """

    name: str = "axis-parallel rectangles"
    coordinates: ClassVar[int | None] = 2


@dataclass(frozen=True)
class Discs(Family):
    """Closed discs about the origin. ``centre``: "with" it, "without" it, or "either" (both kinds).

    Examples
    --------
    >>> from trellis.theory import Discs, vc_dimension
    >>> plane = [[0, 0], [1, 0], [0, 2]]
    >>> [int(vc_dimension(Discs(centre), plane)) for centre in ("with", "without", "either")]
    [1, 1, 2]
    """

    centre: Literal["with", "without", "either"] = "with"

    def __post_init__(self) -> None:
        check_choice("centre", self.centre, ("with", "without", "either"))

    @property
    def name(self) -> str:  # type: ignore[override]
        with_or_without = {"either": "with and without their"}.get(self.centre, f"{self.centre} their")
        return f"discs about the origin, {with_or_without} centre"

    def hypothesis(self, points: FloatArray, labels: BoolArray) -> Hypothesis | None:
        unit = _power_of_two(points)  # squares neither overflow nor vanish, and lose no digit
        squares = ((points / unit) ** 2).sum(axis=1)
        at_centre = (points == 0).all(axis=1)
        inside = labels | at_centre  # the centre does not limit the radius
        radius = squares[inside].max(initial=0.0)
        if (squares[~inside] <= radius).any():
            return None
        outside = squares[~inside].min(initial=np.inf)
        limit = 0.5 * (radius + outside) if np.isfinite(outside) else 1.1 * radius
        for holds in {"with": (True,), "without": (False,), "either": (True, False)}[self.centre]:
            if (labels[at_centre] == holds).all():
                return lambda x, holds=holds: _in_disc(x / unit, limit, holds)  # type: ignore[misc]
        return None


def _power_of_two(points: FloatArray) -> float:
    """The largest power of two that is not above the largest coordinate; 1 if all are 0."""
    largest = float(np.abs(points).max(initial=0.0))
    return 2.0 ** (math.frexp(largest)[1] - 1) if largest else 1.0


def _in_disc(points: FloatArray, square: float, with_centre: bool) -> BoolArray:
    squares = (points**2).sum(axis=1)
    return np.asarray((squares <= square) & (with_centre | (points != 0).any(axis=1)))


@dataclass(frozen=True)
class HalfPlanes(Family):
    """Closed half-spaces on either side of any hyperplane, and nothing and everything.

    Examples
    --------
    >>> from trellis.theory import HalfPlanes, vc_dimension
    >>> int(vc_dimension(HalfPlanes(), [[0, 0], [1, 0], [0, 2], [3, 3]]))
    3
    """

    name: str = "half-planes"

    def hypothesis(self, points: FloatArray, labels: BoolArray) -> Hypothesis | None:
        """y_i (w.x_i - b) >= 1 for all i: feasible if and only if the labels can be separated."""
        if points.shape[1] == 1:
            return _half_line(points[:, 0], labels)
        # moved and scaled, coordinate by coordinate, which changes no separability, so that HiGHS's
        # tolerances mean something
        middle = points.mean(axis=0)
        scale = np.abs(points - middle).max(axis=0, initial=0.0)
        scale[scale == 0] = 1.0
        rows = np.column_stack([(points - middle) / scale, -np.ones(len(points))])
        signs = np.where(labels, 1.0, -1.0)
        n = rows.shape[1]
        found = linprog(
            np.zeros(n), A_ub=-signs[:, None] * rows, b_ub=-np.ones(len(rows)), bounds=[(None, None)] * n
        )
        if found.status == 2:
            return None
        if found.status != 0:
            raise NumericalError(f"half-planes: the linear program failed ({found.message.strip()})")
        w, b = found.x[:-1], found.x[-1]
        return lambda x: np.asarray((x - middle) / scale @ w >= b)


def _half_line(points: FloatArray, labels: BoolArray) -> Hypothesis | None:
    """On the line there is nothing to search: the true points lie on one side of all others."""
    for side in (1.0, -1.0):
        nearest = (side * points[labels]).min(initial=np.inf)
        furthest = (side * points[~labels]).max(initial=-np.inf)
        if nearest > furthest:
            return lambda x, side=side, nearest=nearest: np.asarray(side * x[:, 0] >= nearest)  # type: ignore[misc]
    return None


@dataclass(frozen=True)
class Trees(Family):
    """Decision trees: each node compares one coordinate with a threshold. ``depth=None``: no limit.

    Examples
    --------
    >>> from trellis.theory import Trees, growth
    >>> attributes = [[0, 0], [0, 1], [1, 0], [1, 1]]
    >>> [growth(Trees(depth), attributes) for depth in (0, 1, None)]
    [2, 6, 16]
    """

    depth: int | None = None

    def __post_init__(self) -> None:
        if self.depth is not None:
            check_int("depth", self.depth, 0)

    @property
    def name(self) -> str:  # type: ignore[override]
        return "decision trees" if self.depth is None else f"decision trees of depth {self.depth}"

    def realisable(self, points: FloatArray, labels: BoolArray) -> bool:
        if self.depth is None:  # only equal points are never told apart
            _, which = np.unique(points, axis=0, return_inverse=True)
            n_true = np.bincount(which.ravel(), labels)
            return bool(((n_true == 0) | (n_true == np.bincount(which.ravel()))).all())
        splits = [
            points[:, j] <= value for j in range(points.shape[1]) for value in np.unique(points[:, j])[:-1]
        ]
        masks = sorted({_bit_set(split) for split in splits})
        return _tree_fits((1 << len(points)) - 1, _bit_set(labels), self.depth, masks, {})


def _bit_set(chosen: BoolArray) -> int:
    return sum(1 << i for i in np.flatnonzero(chosen).tolist())


def _tree_fits(
    here: int, true: int, depth: int, splits: list[int], known: dict[tuple[int, int], bool]
) -> bool:
    """Whether a tree of this depth labels the points of the bit set ``here`` as ``true`` does."""
    if not here & true or not here & ~true:
        return True
    if depth == 0:
        return False
    key = here, depth
    if key not in known:
        known[key] = any(
            _tree_fits(here & split, true, depth - 1, splits, known)
            and _tree_fits(here & ~split, true, depth - 1, splits, known)
            for split in splits
            if here & split and here & ~split
        )
    return known[key]


@dataclass(frozen=True)
class Sinusoids(Family):
    """{x : sin(omega x) >= 0} for any omega: one parameter, and yet of infinite VC dimension.

    Examples
    --------
    >>> from trellis.theory import Sinusoids, vc_dimension
    >>> int(vc_dimension(Sinusoids(), [0.1, 0.01, 0.001]))
    3
    """

    name: str = "sinusoids"
    coordinates: ClassVar[int | None] = 1

    def labellings(self, points: FloatArray) -> BoolArray:
        """With x = p u for whole p: sin(pi t p) changes sign at t = k / p, and has the period 2 in t."""
        exact = [Fraction(repr(float(x))) for x in points[:, 0]]
        unit = math.lcm(*(x.denominator for x in exact))
        whole = [int(x * unit) for x in exact]
        whole = [p // (math.gcd(*whole) or 1) for p in whole]
        common = math.lcm(*(abs(p) for p in whole if p))
        if 2 * sum(map(abs, whole)) > MOST_SIGN_CHANGES or 4 * common * max(map(abs, whole)) >= 2**62:
            raise DataError(
                f"{self.name}: the points have too many digits for the exact search; give small whole "
                "multiples of one unit, such as 1, 0.1, 0.01"
            )
        # t in units of 1 / (2 common), so that every change of sign and every middle between two is whole
        steps = [2 * common // abs(p) for p in whole if p] or [4 * common]
        changes = np.unique(np.concatenate([np.arange(0, 4 * common + 1, step) for step in steps]))
        t = np.concatenate([changes, (changes[1:] + changes[:-1]) // 2])
        phase = np.remainder(t[:, None] * np.array(whole, dtype=np.int64), 4 * common)
        return np.unique(phase <= 2 * common, axis=0)
