"""Checksums: equal for equal values in every process, different for any change."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import csr_array

from trellis.core.checksums import checksum
from trellis.objectives import Direct

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(), inner, max_size=4)
        | st.frozensets(st.text() | st.integers(), max_size=4)
    ),
    max_leaves=12,
)


@given(plain, plain)
def test_equal_values_and_no_others_have_equal_checksums(a: Any, b: Any) -> None:
    assert checksum(a) == checksum(a)
    if checksum(a) == checksum(b):
        assert a == b
    assert checksum([a, b]) != checksum([[a], b])


@given(arrays.arrays(np.float64, (3, 2), elements=st.floats(-1e9, 1e9)), st.integers(0, 5))
def test_one_changed_entry_counts(array: np.ndarray, place: int) -> None:
    other = array.copy()
    other.ravel()[place] = np.nextafter(other.ravel()[place], np.inf)
    assert checksum(array) != checksum(other)
    assert checksum(array) == checksum(np.asfortranarray(array))
    assert checksum(array) != checksum(array.T)
    assert checksum(array) != checksum(array.astype(np.float32))


@dataclass
class Options:
    rate: float = 1.0
    names: tuple[str, ...] = ("a",)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (Options(), Options(2.0)),
        (Direct(1.0), Direct(2.0)),
        (["ab", "c"], ["a", "bc"]),
        (["ab", "c"], ["ab", "c", ""]),
        (np.array(["x", None], dtype=object), np.array(["x", "None"], dtype=object)),
        (csr_array(np.eye(2)), csr_array(2 * np.eye(2))),
        *[(pd.DataFrame({name: [1.0]}), pd.DataFrame({name: [2.0]})) for name in ("tocsr", "get_params")],
        (checksum, pytest.raises),
        ({"a": 1}, {"a": 1.5}),
        (1, True),
        ("1", 1),
    ],
)
def test_kinds_of_values(a: Any, b: Any) -> None:
    assert checksum(a) == checksum(a) != checksum(b)


def test_every_process_has_the_same() -> None:
    """Sets of strings have another order in every process."""
    value = "[{'a', 'b', 'c', 'dd'}, {'x': {'y', 'z'}}]"
    code = f"from trellis.core.checksums import checksum; print(checksum({value}))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == checksum([{"a", "b", "c", "dd"}, {"x": {"y", "z"}}]) + "\n"
