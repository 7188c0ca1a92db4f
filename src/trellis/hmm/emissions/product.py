"""Several emissions side by side: p(x | k) = product over the parts of p_part(columns of x | k).

The columns of one array go to different parts, which are independent given the state. All that EM needs is a
sum over the parts. The statistics of part i stand under ``"i."`` and their own name, the entropies added up
under ``"entropy"``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, hstack

from trellis.core.arguments import is_int
from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.data.row_checks import check_rows
from trellis.hmm.emissions.emission import Emission, Statistics
from trellis.hmm.emissions.emission_checks import check_order

Parts = tuple[tuple[tuple[int, ...], Emission], ...]


@register
@dataclass(frozen=True, eq=False, repr=False)
class Product(Emission):
    """``Product({0: Categorical(4), range(1, 4): Gaussian("full")})``: columns, and what emits them.

    The key of a part is a column or several (a tuple or range). Each column belongs to exactly one part.

    Examples
    --------
    >>> from trellis.hmm.emissions import Categorical, Gaussian, Product
    >>> emission = Product({0: Categorical(2, [[0.9, 0.1]]), 1: Gaussian(means=[[0.0]], covariances=[[1.0]])})
    >>> emission.log_likelihood(emission.check([[0, 0.0]])).round(3).tolist()
    [[-1.024]]
    """

    parts: Mapping[int | Iterable[int], Emission] | Parts

    def __post_init__(self) -> None:
        given = self.parts.items() if isinstance(self.parts, Mapping) else self.parts
        parts = tuple((_columns(key), part) for key, part in given)
        taken = sorted(column for columns, _ in parts for column in columns)
        if not parts or taken != list(range(len(taken))):
            raise DataError(f"each column from 0 on must belong to exactly one part, got columns {taken}")
        for columns, part in parts:
            if not isinstance(part, Emission):
                raise DataError(f"columns {columns} must have an emission, got a {type(part).__name__}")
        numbers = {part.n_states for _, part in parts}
        if len(numbers - {None}) > 1:
            raise DataError(
                f"the parts have different numbers of states: {sorted(numbers - {None}, key=str)}"
            )
        object.__setattr__(self, "parts", parts)
        object.__setattr__(self, "n_states", None if None in numbers else numbers.pop())

    @property
    def _parts(self) -> Parts:
        return self.parts  # type: ignore[return-value]  # __post_init__ has made them so

    def check(self, values: ArrayLike) -> FloatArray:
        """Float64 (N, D), each column as its part wants it; NaN is missing."""
        rows = check_rows(values, sum(len(columns) for columns, _ in self._parts)).copy()
        for columns, part in self._parts:
            try:
                checked = part.check(rows[:, columns])
            except DataError as error:
                raise DataError(f"{error} (columns {columns} of X)", error.step) from error
            rows[:, columns] = checked.reshape(len(rows), len(columns))
        return rows

    def missing(self, values: NDArray[Any]) -> BoolArray:
        parts = [part.missing(_take(part, values, columns)) for columns, part in self._parts]
        every: BoolArray = np.logical_and.reduce(parts)
        return every

    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        total: FloatArray = np.zeros(())
        for columns, part in self._parts:
            total = total + part.log_likelihood(_take(part, values, columns))
        return total

    def statistics(self, values: NDArray[Any], posterior: FloatArray) -> Statistics:
        entropy = 0.0
        result: Statistics = {}
        for i, (columns, part) in enumerate(self._parts):
            statistics = part.statistics(_take(part, values, columns), posterior)
            entropy += float(statistics.pop("entropy", np.zeros(())))
            result |= {f"{i}.{name}": value for name, value in statistics.items()}
        return {**result, "entropy": np.asarray(entropy)}

    def maximise(self, statistics: Mapping[str, FloatArray]) -> Product:
        return self._map(lambda i, _, part: part.maximise(_select_part(i, statistics)))

    def initialise(self, values: NDArray[Any], posterior: FloatArray, rng: np.random.Generator) -> Product:
        return self._map(
            lambda _, columns, part: part.initialise(_take(part, values, columns), posterior, rng)
        )

    def _map(self, change: Callable[[int, tuple[int, ...], Emission], Emission]) -> Product:
        return Product(
            tuple((columns, change(i, columns, part)) for i, (columns, part) in enumerate(self._parts))
        )

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        return sum(
            part.expected_log_likelihood(_select_part(i, statistics))
            for i, (_, part) in enumerate(self._parts)
        )

    def magnitude(self, statistics: Mapping[str, FloatArray]) -> float:
        return sum(part.magnitude(_select_part(i, statistics)) for i, (_, part) in enumerate(self._parts))

    def recentre(self, statistics: Mapping[str, FloatArray]) -> Statistics:
        result = dict(statistics)
        for i, (_, part) in enumerate(self._parts):
            moved = part.recentre(_select_part(i, statistics))
            result |= {f"{i}.{name}": value for name, value in moved.items()}
        return result

    def log_prior(self) -> float:
        return sum(part.log_prior() for _, part in self._parts)

    def natural_features(self, values: NDArray[Any]) -> csr_array:
        """Those of the parts, side by side; a part may be missing."""
        return csr_array(
            hstack(
                [part.natural_features(_take(part, values, columns)) for columns, part in self._parts],
                format="csr",
            )
        )

    def natural_weights(self) -> FloatArray:
        return np.vstack([part.natural_weights() for _, part in self._parts])

    def from_natural(self, weights: FloatArray) -> tuple[Product, FloatArray]:
        found = [part.from_natural(own) for part, own in self._natural_parts(weights)]
        normalisers = np.sum([a for _, a in found], axis=0)
        return self._map(lambda i, _columns, _part: found[i][0]), normalisers

    def natural_shift(self, weights: FloatArray) -> FloatArray:
        return np.concatenate([part.natural_shift(own) for part, own in self._natural_parts(weights)])

    def _natural_parts(self, weights: FloatArray) -> list[tuple[Emission, FloatArray]]:
        """The parts with their own rows of the weights."""
        sizes = [len(part.natural_weights()) for _, part in self._parts]
        own = np.split(weights, np.cumsum(sizes)[:-1])
        return [(part, rows) for (_, part), rows in zip(self._parts, own, strict=True)]

    def points(self, values: NDArray[Any]) -> FloatArray:
        return np.hstack([part.points(_take(part, values, columns)) for columns, part in self._parts])

    def sample(self, states: NDArray[np.integer[Any]], rng: np.random.Generator) -> FloatArray:
        rows = np.empty((len(states), sum(len(columns) for columns, _ in self._parts)))
        for columns, part in self._parts:
            rows[:, columns] = part.sample(states, rng).reshape(len(rows), len(columns))
        return rows

    @property
    def n_parameters(self) -> int:
        return sum(part.n_parameters for _, part in self._parts)

    @property
    def given_states(self) -> int | None:
        numbers = (part.given_states for _, part in self._parts)
        return next((n for n in numbers if n is not None), None)

    def permute(self, order: ArrayLike) -> Product:
        """Parts without parameters stay as they are."""
        order = check_order(order, self.given_states)
        return self._map(
            lambda _i, _columns, part: part if part.given_states is None else part.permute(order)
        )

    def permute_statistics(self, statistics: Mapping[str, FloatArray], order: IntArray) -> Statistics:
        result = dict(statistics)
        for i, (_, part) in enumerate(self._parts):
            moved = part.permute_statistics(_select_part(i, statistics), order)
            result |= {f"{i}.{name}": value for name, value in moved.items()}
        return result


def _columns(key: int | Iterable[int]) -> tuple[int, ...]:
    columns = tuple(key) if isinstance(key, Iterable) else (key,)
    if not columns or not all(is_int(c, 0) for c in columns):
        raise DataError(f"the columns of a part are whole numbers from 0 on, got {key!r}")
    return tuple(int(c) for c in columns)


def _take(part: Emission, values: NDArray[Any], columns: tuple[int, ...]) -> NDArray[Any]:
    """The columns of a part, as its own methods take them."""
    return part.check(values[:, columns])


def _select_part(i: int, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    prefix = f"{i}."
    return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
