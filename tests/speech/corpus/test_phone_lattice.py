"""Lattices of phones and words against enumeration."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.speech.corpus.dictionary import Dictionary, Pronunciation
from trellis.speech.corpus.phone_lattice import Lattice, loose_lattice, phone_lattice, word_lattice


def paths(lattice: Lattice) -> list[tuple[int, ...]]:
    """Every path, as nodes."""
    ways: list[list[tuple[int, ...]]] = []
    for i, before in enumerate(lattice.predecessors):
        ways.append([(*way, i) for p in before for way in ([()] if p < 0 else ways[p])])
    return [way for i in range(lattice.n_nodes) if lattice.final[i] for way in ways[i]]


def spoken(lattice: Lattice) -> list[str]:
    return sorted(" ".join(lattice.labels[i] for i in way) for way in paths(lattice))


def test_phones() -> None:
    chain = phone_lattice(["a", "b", "a"])
    assert chain.is_chain
    assert spoken(chain) == ["a b a"]
    assert chain.min_phones == 3
    open_ends = phone_lattice(["a", "b"], True)
    assert not open_ends.is_chain
    assert spoken(open_ends) == ["a b", "a b sil", "sil a b", "sil a b sil"]
    assert spoken(phone_lattice(["pau", "b"], True)) == ["pau b", "pau b sil"]
    assert spoken(loose_lattice(["a", "sil", "b"])) == sorted(
        " ".join(f"{x}a{y}b{z}".split()) for x, y, z in product(("", "sil "), (" ", " sil "), ("", " sil"))
    )
    with pytest.raises(DataError, match="no phones"):
        phone_lattice([])


WORDS = {"a": [["x", "y"], ["x"]], "b": [["z"], ["y", "z"], ["z"]]}


@pytest.mark.parametrize("silence", [True, False])
def test_words_are_all_pronunciations_with_optional_silences(silence: bool) -> None:
    lattice = word_lattice(["a", "b", "a"], WORDS, silence)
    gap = ("", "sil ") if silence else ("",)
    expected = [
        f"{g[0]}{a} {g[1]}{b} {g[2]}{c} {g[3]}".strip()
        for a, b, c in product(("x y", "x"), ("z", "y z"), ("x y", "x"))
        for g in product(gap, repeat=4)
    ]
    assert spoken(lattice) == sorted(expected)
    for i, before in enumerate(lattice.predecessors):
        assert len({"" if p < 0 else lattice.labels[p] for p in before}) == 1, i
        assert all(p < i for p in before)
    for way in paths(lattice):
        numbers = [lattice.word_index[i] for i in way if lattice.word_index[i] >= 0]
        assert sorted(set(numbers)) == [0, 1, 2]
        assert numbers == sorted(numbers)
    assert lattice.min_phones == 3


def test_pronunciations_have_priors() -> None:
    dictionary = Dictionary({"a": [Pronunciation(("x",), 0.9), Pronunciation(("y", "z"), 0.1)]})
    lattice = word_lattice(["a"], dictionary, False)
    prior = {" ".join(lattice.labels[i] for i in w): sum(lattice.prior[i] for i in w) for w in paths(lattice)}
    assert prior == pytest.approx({"x": np.log(0.9), "y z": np.log(0.1)})


def test_unknown_words_are_named_at_once() -> None:
    with pytest.raises(DataError, match="add: c d"):
        word_lattice(["a", "c", "b", "d", "c"], WORDS)
    with pytest.raises(DataError, match="not one string"):
        word_lattice("a b", WORDS)
    with pytest.raises(DataError, match="no words"):
        word_lattice([], WORDS)


def test_between_keeps_the_paths_between() -> None:
    lattice = word_lattice(["a", "b", "a", "b"], WORDS)
    every = paths(lattice)
    for head in (0, 3, 7):
        for stop in (9, 14, None):
            part = lattice.sublattice([head], stop)
            found = {tuple(part.nodes[i] for i in way) for way in paths(part.lattice)}
            expected = set()
            for way in every:
                if head in way and (stop is None or stop in way):
                    last = None if stop is None else way.index(stop)
                    expected.add(way[way.index(head) : last])
            assert found == expected - {()}


def test_a_chain_ends_in_its_last_node_alone() -> None:
    """With a silence at the beginning and none at the end, the last node may still be left out."""
    lattice = phone_lattice(["sil", "a"], optional_silence=True)
    assert not lattice.is_chain
    assert spoken(lattice) == ["sil a", "sil a sil"]
    assert phone_lattice(["sil", "a", "sil"], optional_silence=True).is_chain


def test_between_may_end_within_a_node() -> None:
    whole = phone_lattice(["a", "b", "c"])
    assert spoken(whole.sublattice([0], 2).lattice) == ["a b"]
    assert spoken(whole.sublattice([0], 2, within_stop=True).lattice) == ["a b c"]
    assert spoken(whole.sublattice([1], 1, within_stop=True).lattice) == ["b"]
