"""Values against annotations, sizes against the file."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import pytest
from numpy.typing import ArrayLike

from trellis.core.arrays import AnyArray, BoolArray, FloatArray, IntArray
from trellis.core.errors import ModelFileError
from trellis.core.file_checks import check_fields, check_indices, check_size, limit_sizes, matches


@pytest.mark.parametrize(
    ("value", "annotation", "fits"),
    [
        (np.zeros(2), FloatArray, True),
        (np.zeros(2, np.float32), FloatArray, False),
        (np.zeros(2, int), FloatArray, False),
        ([0.0], FloatArray, False),
        (0.5, FloatArray, True),
        (0.5, IntArray, False),
        (np.zeros(2, np.int64), IntArray, True),
        (np.zeros(2, np.uint8), BoolArray, False),
        (np.zeros(2, np.uint8), AnyArray, True),
        (3, int, True),
        (True, int, False),
        (3.0, int, False),
        (3, float, True),
        (10**400, float, False),
        (np.inf, float, True),
        (True, float, False),
        ("3", float, False),
        (None, float | None, True),
        ("a", Literal["a", "b"], True),
        ("c", Literal["a", "b"], False),
        ({"a": [1.0, 2]}, dict[str, list[float]], True),
        ({"a": [1.0, "b"]}, dict[str, list[float]], False),
        ({1: [1.0]}, Mapping[str, Sequence[float]], False),
        ((1, "a"), tuple[int, str], True),
        ((1, "a", 2), tuple[int, str], False),
        ((1, 2, 3), tuple[int, ...], True),
        ((1, "a"), tuple[int, ...], False),
        (print, Callable[[str], None], True),
        ("print", Callable[[str], None], False),
        ([[1, 2], [3, 4]], ArrayLike, True),
        (1j, Any, True),
        ("a", FloatArray | str, True),
        (["a"], FloatArray | str, False),
    ],
    ids=str,
)
def test_matches(value: object, annotation: object, fits: bool) -> None:
    assert matches(value, annotation) == fits


ScalarT = TypeVar("ScalarT", bound=np.generic)


class _Alias:
    """As NumPy 2.5 declares ``NDArray``: ``type NDArray[ScalarT] = np.ndarray[..., np.dtype[ScalarT]]``."""

    __value__ = np.ndarray[tuple[Any, ...], np.dtype[ScalarT]]


@pytest.mark.parametrize("value", [np.zeros(2, np.float32), np.zeros(2, int), [0.0], "a", None])
def test_aliases_are_what_they_stand_for(value: object) -> None:
    for annotation in (types.GenericAlias(_Alias(), (np.float64,)), FloatArray):
        assert not matches(value, annotation)
        assert matches(np.zeros(2), annotation)


@dataclass
class Base:
    weights: FloatArray


@dataclass
class Derived(Base):
    other: NotThere  # type: ignore[name-defined]  # noqa: F821
    n: int = 0


class Pair(NamedTuple):
    a: int
    b: FloatArray


def test_fields_of_records_and_their_bases() -> None:
    check_fields(Derived, {"weights": np.zeros(2), "n": 3, "other": "what type checkers know only"})
    for bad in ({"weights": np.zeros(2, np.int64)}, {"n": "3"}):
        with pytest.raises(ModelFileError, match="of its Derived should not be a"):
            check_fields(Derived, bad)
    with pytest.raises(ModelFileError, match="a of its Pair"):
        check_fields(Pair, {"a": [], "b": np.zeros(1)})


def test_sizes_are_bounded_only_while_a_file_is_read() -> None:
    check_size("states", 10**12)
    with limit_sizes(100):
        check_size("states", 100)
        for size in (101, 10**12, -1):
            with pytest.raises(ModelFileError, match=f"states is {size}, more than a file of 100 bytes"):
                check_size("states", size)
    check_size("states", 10**12)


def test_indices() -> None:
    check_indices("rows", np.array([-1, 0, 4]), 5)
    check_indices("rows", np.zeros(0, int), 0)
    for bad in ([5], [-2]):
        with pytest.raises(ModelFileError, match="rows should hold numbers below 5"):
            check_indices("rows", np.array(bad), 5)
