"""Families of hypotheses (subsets of points), by the one question that shattering needs answered.

A family answers ``realisable(points, labels)``: is there a hypothesis that holds for exactly the points
labelled true? ``points`` is (n, d), ``labels`` (n,) of booleans. Answers are exact:

    Intervals, Boxes   closed; the smallest box around the true points holds no false one
    Discs              {x : ||x|| <= R}, R >= 0; with the centre, without it, or both kinds together
    HalfPlanes         {x : w.x >= b} in any dimension: a linear program (HiGHS) finds w, b with a margin
    Trees              thresholds on one coordinate in each node, ``depth`` of them on the longest path
    Sinusoids          {x : sin(omega x) >= 0} on the line, for points that are multiples of one unit: the
                       pattern is periodic in omega, and one period is searched from one change of sign to
                       the next
    Finite             a list of functions, or a matrix of booleans with one row for each hypothesis
    Predicate          a user's function ``realisable(points, labels)``

Where a family can construct such a hypothesis, ``hypothesis(points, labels)`` returns one, for drawing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog

from trellis.core.arguments import as_floats, check_choice, check_int
from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError, NumericalError

Hypothesis = Callable[[FloatArray], BoolArray]  # of points (n, d), (n,) whether it holds

MOST_SIGN_CHANGES = 1 << 22


class Family:
    """A subclass answers ``realisable``, finds a ``hypothesis``, or lists its ``labellings`` outright.

    Examples
    --------
    >>> from trellis.theory import Family, HalfPlanes, growth
    >>> isinstance(HalfPlanes(), Family), growth(HalfPlanes(), [[0, 0], [1, 0], [0, 1]])
    (True, 8)
    """

    name: str = "family"
    coordinates: ClassVar[int | None] = None  # that points must have; None: any number

    def points(self, points: ArrayLike | None) -> FloatArray:
        """Points as (n, d); a list of numbers is n points on the line."""
        if points is None:
            raise DataError(f"{self.name}: give the points to be labelled, (n, d) or (n,)")
        array = as_floats(f"{self.name}: points", points)
        array = array[:, None] if array.ndim == 1 else array
        if array.ndim != 2 or not np.isfinite(array).all():
            raise DataError(f"{self.name}: points must be finite numbers of shape (n, d), not {array.shape}")
        if self.coordinates is not None and array.shape[1] != self.coordinates:
            raise DataError(
                f"{self.name}: points lie {'on the line' if self.coordinates == 1 else 'in the plane'}, so "
                f"(n, {self.coordinates}), not {array.shape}"
            )
        return array

    def realisable(self, points: FloatArray, labels: BoolArray) -> bool:
        """Whether some hypothesis holds for exactly the points labelled true."""
        listed = self.labellings(points)
        if listed is not None:
            return bool((listed == labels).all(axis=1).any())
        return self.hypothesis(points, labels) is not None

    def labellings(self, points: FloatArray) -> BoolArray | None:
        """All labellings (S, n) where they can be listed directly; ``None`` leaves them to the search."""
        return None

    def hypothesis(self, points: FloatArray, labels: BoolArray) -> Hypothesis | None:
        """A hypothesis that gives these labels, where the family can say so."""
        return None


@dataclass(frozen=True)
class Predicate(Family):
    """A family known by ``function(points, labels) -> bool`` alone.

    Examples
    --------
    >>> from trellis.theory import Predicate, shatters
    >>> at_most_one = Predicate(lambda points, labels: labels.sum() <= 1)
    >>> shatters(at_most_one, [0.0]), shatters(at_most_one, [0.0, 1.0])
    (True, False)
    """

    function: Callable[[FloatArray, BoolArray], bool]
    name: str = "predicate"

    def realisable(self, points: FloatArray, labels: BoolArray) -> bool:
        return bool(self.function(points, labels))


@dataclass(frozen=True, eq=False)
class Finite(Family):
    """``hypotheses``: functions of one point, or booleans (hypotheses, points), whose points are columns.

    Examples
    --------
    >>> from trellis.theory import Finite, growth
    >>> growth(Finite([lambda x: x > 0, lambda x: x > 1]), [0.5, 2.0])
    2
    """

    hypotheses: Sequence[Callable[[Any], bool]] | BoolArray
    name: str = "finite family"

    def points(self, points: ArrayLike | None) -> FloatArray:
        if isinstance(self.hypotheses, np.ndarray):
            width = self.hypotheses.shape[1]
            columns = np.arange(width) if points is None else as_floats("points", points).ravel()
            if not np.all((columns >= 0) & (columns < width) & (columns == np.floor(columns))):
                raise DataError(f"{self.name}: points are columns of the matrix, 0 to {width - 1}")
            return np.asarray(columns[:, None], dtype=np.float64)
        return super().points(points)

    def labellings(self, points: FloatArray) -> BoolArray:
        if isinstance(self.hypotheses, np.ndarray):
            rows = self.hypotheses[:, points[:, 0].astype(np.int64)].astype(np.bool_)
        else:
            given = points[:, 0] if points.shape[1] == 1 else points
            rows = np.array([[bool(h(x)) for x in given] for h in self.hypotheses], dtype=np.bool_)
        return np.unique(rows.reshape(-1, len(points)), axis=0)


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


def parametrised(build: Callable[..., Callable[[Any], bool]], *grids: Iterable[Any]) -> Finite:
    """The hypotheses ``build(*parameters)`` for every combination of values from the grids.

    Examples
    --------
    >>> from trellis.theory import growth, parametrised
    >>> thresholds = parametrised(lambda a: lambda x: x >= a, [0.5, 1.5, 2.5])
    >>> growth(thresholds, [1.0, 2.0])
    3
    """
    return Finite([build(*values) for values in product(*grids)], "parametrised family")


FamilyLike = Family | Callable[[FloatArray, BoolArray], bool] | Sequence[Callable[[Any], bool]] | ArrayLike


def as_family(family: FamilyLike) -> Family:
    """A family as given; from a predicate, a matrix of booleans, or a list of functions of one point."""
    if isinstance(family, Family):
        return family
    if callable(family):
        return Predicate(family)
    if isinstance(family, Sequence) and family and all(callable(h) for h in family):
        return Finite([*family])
    matrix = np.asarray(family)
    if matrix.ndim != 2 or not np.isin(matrix, (0, 1)).all():
        raise DataError(
            "a family is one of trellis.theory's, a function realisable(points, labels), a list of "
            f"functions of one point, or booleans (hypotheses, points); this is {type(family).__name__}"
        )
    return Finite(matrix.astype(np.bool_))
