"""Pronunciation dictionaries of both formats; unknown words are listed all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trellis.core.errors import DataError
from trellis.speech import Dictionary
from trellis.speech.corpus.dictionary import Pronunciation, split_words

CMU = """;;; a comment
A  AH0
A(2)  EY1
READ  R EH1 D # past
READ(1)  R IY1 D
DON'T D OW1 N T
"""
MFA = "a\t0.99\t0.1\t1.2\t0.9\tɐ\na\t0.01\t0.1\t1.2\t0.9\teː\nhaus\th aʊ s\nκαλός\t1.0\tk a l o s\n"


def test_a_line_that_is_only_a_note(tmp_path: Path) -> None:
    path = tmp_path / "d.dict"
    path.write_text("a ah\n # a note\n\t# another\n#third\n")
    assert len(Dictionary.read(path)) == 1


def test_cmu(tmp_path: Path) -> None:
    path = tmp_path / "cmudict"
    path.write_text(CMU)
    found = Dictionary.read(path)
    assert len(found) == 3
    assert found["A"] == (Pronunciation(("AH0",)), Pronunciation(("EY1",)))
    assert [p.phones for p in found["read"]] == [("R", "EH1", "D"), ("R", "IY1", "D")]
    assert "don't" in found
    plain = Dictionary.read(path, strip_stress=True)
    assert [p.phones for p in plain["read"]] == [("R", "EH", "D"), ("R", "IY", "D")]
    assert plain.phones == ("AH", "D", "EH", "EY", "IY", "N", "OW", "R", "T")


def test_montreal(tmp_path: Path) -> None:
    path = tmp_path / "x.dict"
    path.write_text(MFA, encoding="utf-8")
    found = Dictionary.read(path)
    assert found["a"] == (Pronunciation(("ɐ",), 0.99), Pronunciation(("eː",), 0.01))
    assert found["Haus"] == (Pronunciation(("h", "aʊ", "s")),)
    assert found["καλός"][0].phones == ("k", "a", "l", "o", "s")
    path.write_text("read 0.6 r ɛ d\nread 0.4 r iː d\nx\ta b\n")
    assert [p.probability for p in Dictionary.read(path)["read"]] == [0.6, 0.4]


def test_the_same_way_twice_counts_once() -> None:
    assert len(Dictionary({"a": [("AH",), ("AH",), ("EY",)]})["a"]) == 2


def test_unknown_words_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "x.dict"
    path.write_text(CMU)
    found = Dictionary.read(path)
    assert found.missing(["a", "zyx", "READ", "qux", "zyx"]) == ["zyx", "qux"]
    found.require(["a", "read"])
    with pytest.raises(DataError, match=r"x\.dict: 2 words are not in the dictionary; add: zyx qux"):
        found.require(["a", "zyx", "READ", "qux", "zyx"])
    with pytest.raises(DataError, match="1 word is not in the dictionary; add: zyx"):
        found["zyx"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a AH\nword\n", r"x\.dict:2: the word 'word' has no phones"),
        ("a\t1.5\tAH\n", r"x\.dict:1: the probability 1\.5 of 'a' is not between 0 and 1"),
        (";;; nothing\n", "has no words"),
    ],
)
def test_bad_lines(text: str, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "x.dict"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence):
        Dictionary.read(path)


def test_words_of_a_transcript() -> None:
    assert split_words("“Don’t go,” she said — twice; 'tis well-known (really)!") == [
        "Don't", "go", "she", "said", "twice", "'tis", "well-known", "really",
    ]  # fmt: skip
    assert split_words(" <unk> ... \n '' ") == ["<unk>"]


@pytest.mark.parametrize("ways", ["dh ax", ["dh ax"], [["dh", "ax"], "dh iy"]])
def test_phones_are_not_the_letters_of_a_string(ways: Any) -> None:
    with pytest.raises(DataError, match="the word 'the' has a string"):
        Dictionary({"the": ways})


@pytest.mark.parametrize("ways", [[], [[]], [["dh", "ax"], []]])
def test_a_word_has_phones(ways: Any) -> None:
    with pytest.raises(DataError, match="the word 'the' has no phones"):
        Dictionary({"the": ways})
