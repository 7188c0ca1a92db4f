"""Families of hypotheses (subsets of points), by the one question that shattering needs answered.

A family answers ``realisable(points, labels)``: is there a hypothesis that holds for exactly the points
labelled true? ``points`` is (n, d), ``labels`` (n,) of booleans. Answers are exact:

    Finite      a list of functions, or a matrix of booleans with one row for each hypothesis
    Predicate   a user's function ``realisable(points, labels)``

and those of :mod:`.geometric_families`. Where a family can construct such a hypothesis,
``hypothesis(points, labels)`` returns one, for drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import as_floats
from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError

Hypothesis = Callable[[FloatArray], BoolArray]  # of points (n, d), (n,) whether it holds


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
