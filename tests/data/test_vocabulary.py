"""The vocabulary against a Python dictionary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import ModelFileError
from trellis.data.vocabulary import Vocabulary

texts = st.lists(st.lists(st.text(max_size=20)), max_size=12)
near_duplicates = st.lists(st.lists(st.text(alphabet="a\n\x00", max_size=17)), max_size=12)


def codes_by_dictionary(table: dict[str, int], groups: list[list[str]]) -> list[int]:
    return [table.setdefault(string, len(table)) for group in groups for string in group]


@given(st.one_of(texts, near_duplicates), st.one_of(texts, near_duplicates))
def test_codes_are_those_of_a_dictionary(known: list[list[str]], others: list[list[str]]) -> None:
    vocabulary, table = Vocabulary(), dict[str, int]()
    assert vocabulary.add(known).tolist() == codes_by_dictionary(table, known)
    assert vocabulary.strings() == list(table)
    expected = [table.get(string, -1) for group in others for string in group]
    assert vocabulary.find(others).tolist() == expected
    assert len(vocabulary) == len(table)
    assert vocabulary.add(others).tolist() == codes_by_dictionary(table, others)


def test_grows_and_keeps_its_codes() -> None:
    strings = [f"feature {i}" for i in range(20_000)]
    vocabulary = Vocabulary()
    assert vocabulary.add([strings[:7], strings[7:]]).tolist() == list(range(20_000))
    assert vocabulary.add([strings]).tolist() == list(range(20_000))
    assert vocabulary.find([["feature", "feature 20000", "feature 19999"]]).tolist() == [-1, -1, 19_999]


def test_reordered_and_packed() -> None:
    vocabulary = Vocabulary()
    vocabulary.add([["a", "", "héé", "\ud800"]])
    chosen = vocabulary.reordered(np.array([3, 0, 2]))
    assert chosen.strings() == ["\ud800", "a", "héé"]
    assert chosen._slots is None  # no table before it is needed
    assert chosen.find([["héé", "", "a"]]).tolist() == [2, -1, 1]
    assert vocabulary.reordered(np.array([2, 1])).add([["", "new", "héé"]]).tolist() == [1, 2, 0]
    again = Vocabulary.from_packed(*chosen.packed())
    assert again.find([["héé", "", "a"]]).tolist() == [2, -1, 1]


def test_a_damaged_pool_is_named() -> None:
    with pytest.raises(ModelFileError, match="damaged"):
        Vocabulary.from_packed(np.zeros(3, np.uint8), np.array([0, 5]))
    with pytest.raises(ModelFileError, match="has duplicates"):
        Vocabulary.from_packed(np.zeros(2, np.uint8), np.array([0, 1, 2]))


def test_what_is_no_string_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        Vocabulary().add([["a", 3]])  # type: ignore[list-item]
