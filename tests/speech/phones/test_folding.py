"""Foldings by TIMIT's tables and by articulation."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from trellis.core.errors import DataError
from trellis.speech.phones.folding import Folding, folding
from trellis.speech.phones.timit_phones import TIMIT_61, TIMIT_TO_39, TIMIT_TO_48


def test_timit_folds_61_to_48_to_39() -> None:
    assert len(TIMIT_61) == len(set(TIMIT_61)) == 61
    assert set(TIMIT_TO_48) == set(TIMIT_TO_39) == set(TIMIT_61)
    assert len(set(TIMIT_TO_48.values())) == 48
    assert len(set(TIMIT_TO_39.values())) == 39
    for one, other in zip(TIMIT_61, TIMIT_61[1:] + TIMIT_61[:1], strict=True):  # 39 is coarser than 48
        if TIMIT_TO_48[one] == TIMIT_TO_48[other]:
            assert TIMIT_TO_39[one] == TIMIT_TO_39[other]
    merged = Counter(TIMIT_TO_39.values())
    assert {p: n for p, n in merged.items() if n > 1} == {
        "aa": 2, "ah": 3, "er": 2, "hh": 2, "ih": 2, "l": 2, "m": 2, "n": 3, "ng": 2, "sh": 2, "uw": 2,
        "sil": 10,  # h# pau epi, six closures, and q
    }  # fmt: skip


def test_timit_foldings_by_name() -> None:
    fold = folding("timit39", ["ax-h", "sh"])
    assert tuple(map(fold, ["ax-h", "AX-H", "zh", "bcl", "h#", "sil", "AH0", "ux"])) == (
        "ah", "ah", "sh", "sil", "sil", "sil", "ah", "uw",
    )  # fmt: skip
    assert folding("timit48")("bcl") == "vcl"
    assert folding("timit39")("vcl") == "sil"
    with pytest.raises(DataError, match="'xx' is not one of the 61 of TIMIT"):
        fold("xx")
    assert Folding("timit39", unknown="other")("xx") == "other"
    with pytest.raises(DataError, match="no folding 'timit40'; choose one of none, timit48"):
        folding("timit40")
    assert tuple(map(folding("none"), ["a", "<p:>", ""])) == ("a", "sil", "sil")


def test_articulatory_foldings_nest() -> None:
    labels = [
        "a",
        "ã",
        "i",
        "ɪ̥",
        "p",
        "pʰ",
        "k'",
        "b",
        "m",
        "ʔ",
        "h",
        "ʃ",
        "z",
        "l",
        "l̥",
        "ɾ",
        "r̥",
        "w",
        "",
        "ǃ",
    ]
    folds = [folding(name, labels) for name in ("detailed", "voiced", "broad")]
    for fine, coarse in pairwise(folds):
        parent: dict[str, str] = {}
        for label in labels:
            assert parent.setdefault(fine(label), coarse(label)) == coarse(label)
    assert folds[0]("pʰ") == "aspirated labial voiceless stop"
    assert folds[0]("ã") == "nasalised front open vowel"
    assert folds[1]("i") == "close vowel"
    assert folds[2]("") == "silence"
    assert [folds[2](label) for label in ("l", "l̥", "r̥", "w̥")] == ["lateral", *["fricative"] * 3]
    assert folds[1]("l̥") == folds[1]("ɬ") == "voiceless fricative"
