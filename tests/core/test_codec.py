"""The codec: what goes in comes out, and nothing else can."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from codec_copy import through_codec
from trellis.core.codec import decode, encode
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.core.registration import register

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
keys = st.text() | st.integers() | st.tuples(st.text(), st.integers())
values = st.recursive(
    plain,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(keys, inner),
    max_leaves=10,
)


@register
@dataclass(frozen=True, eq=False)
class Pair:
    left: Any
    right: Any = 0

    def __post_init__(self) -> None:
        if isinstance(self.right, str):
            raise DataError("right is a string")


@register
class Named(NamedTuple):
    a: Any
    b: Any


@given(values)
def test_values_come_back(value: Any) -> None:
    again = through_codec(value)
    assert again == value
    assert type(again) is type(value)


def test_arrays_and_records_come_back() -> None:
    value = {"x": [Pair(np.arange(3), Named(np.ones(2), {"y": -math.inf}))], 3: (np.eye(2), {1, 2})}
    again = through_codec(value)
    assert np.array_equal(again["x"][0].left, np.arange(3))
    assert isinstance(again["x"][0].right, Named)
    assert again["x"][0].right.b == {"y": -math.inf}
    assert np.array_equal(again[3][0], np.eye(2))
    assert again[3][1] == {1, 2}
    assert through_codec(np.float64(2.5)) == 2.5
    assert math.isnan(through_codec(math.nan))


def test_functions_are_not_stored() -> None:
    again = through_codec(len)
    with pytest.raises(UnsupportedError, match="a Python function, which model files do not store"):
        again([1])


def test_unknown_classes_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="thing is a object, which model files cannot store"):
        encode(object(), {}, "thing")


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"@": "os.system", "command": "true"}, "unknown kind 'os.system'"),
        ({"@": ["Pair"]}, "unknown kind"),
        ({"no": "kind"}, "unknown kind None"),
        ({"@": "Pair", "middle": 1}, "its Pair is damaged"),
        ({"@": "Pair"}, "its Pair is damaged"),
        ({"@": "array"}, "the array  is missing"),
    ],
)
def test_damaged_records_are_named(stored: Any, message: str) -> None:
    with pytest.raises(ModelFileError, match=message):
        decode(stored, {})


def test_constructors_check_what_is_read() -> None:
    with pytest.raises(DataError, match="right is a string"):
        decode({"@": "Pair", "left": 1, "right": "x"}, {})


def test_names_are_taken_once() -> None:
    @dataclass
    class Pair:
        other: int

    with pytest.raises(DataError, match="a record named 'Pair' already exists"):
        register(Pair)
