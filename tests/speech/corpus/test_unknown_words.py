"""Words that are not in the dictionary: noise, skipped, or refused."""

from __future__ import annotations

import pytest

from trellis.core.errors import DataError
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.corpus.phone_lattice import word_lattice
from trellis.speech.corpus.unknown_words import keep_known, unknown_flags
from trellis.speech.formats.intervals import Interval

KNOWN = Dictionary({"one": [["w", "a"]], "two": [["t", "u"], ["t", "o"]]})
WORDS = ("one", "odd", "two", "odd")


def test_what_is_aligned() -> None:
    assert keep_known(WORDS, KNOWN, "noise") == WORDS
    assert keep_known(WORDS, {"one": [["w"]]}, "skip") == ("one",)
    with pytest.raises(DataError, match="1 word is not in the dictionary; add: odd"):
        keep_known(WORDS, KNOWN, "error")
    with pytest.raises(DataError, match="none of the words odd is in the dictionary"):
        keep_known(("odd",), KNOWN, "skip")
    with pytest.raises(DataError, match="choose noise, skip, error"):
        keep_known(WORDS, KNOWN, "guess")


def test_noise_in_the_lattice() -> None:
    lattice = word_lattice(("odd", "one"), KNOWN, silence=False, unknown="noise")
    assert lattice.labels == ("spn", "w", "a")
    assert lattice.is_chain
    assert lattice.words == ("odd", "one")
    with pytest.raises(DataError, match="add: odd"):
        word_lattice(("odd", "one"), KNOWN)


def test_flags_name_words_and_times() -> None:
    aligned = tuple(Interval(0.5 * k, 0.5 * k + 0.4, word) for k, word in enumerate(WORDS))
    assert unknown_flags(WORDS, aligned, KNOWN, "noise") == [
        "the word 'odd' (0.50 to 0.90 s) is not in the dictionary; it is aligned as noise",
        "the word 'odd' (1.50 to 1.90 s) is not in the dictionary; it is aligned as noise",
    ]
    kept = (aligned[0], aligned[2])
    assert unknown_flags(WORDS, kept, KNOWN, "skip") == [
        "the word 'odd' (between 0.40 s and 1.00 s) is not in the dictionary; it is skipped",
        "the word 'odd' (between 1.40 s and the end) is not in the dictionary; it is skipped",
    ]
    assert unknown_flags(("one",), aligned, KNOWN, "noise") == []
