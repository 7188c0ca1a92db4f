"""The IPA taken apart, ARPABET by way of the IPA."""

from __future__ import annotations

import unicodedata
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.phones.alphabets import guess_alphabet
from trellis.speech.phones.arpabet import ARPABET_TO_IPA
from trellis.speech.phones.articulation import (
    FEATURE_NAMES,
    articulation,
    articulatory_features,
)
from trellis.speech.phones.ipa import BROAD_CLASSES
from trellis.speech.phones.ipa_tables import CONSONANTS, MODIFIERS, PROSODY, VOWELS
from trellis.speech.phones.timit_phones import TIMIT_61


def broad_class(label: str, alphabet: str = "ipa", unknown: str = "error") -> str:
    return articulation(label, alphabet, unknown).broad


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("p", ("stop", "bilabial", False)),
        ("g", ("stop", "velar", True)),  # the ASCII letter
        ("ɡ͡b", ("stop", "labial-velar", True)),
        ("t̪", ("stop", "dental", False)),
        ("d̠ˤ", ("stop", "postalveolar", True)),
        ("ʔ", ("stop", "glottal", False)),
        ("ɓ", ("stop", "bilabial", True)),
        ("k'ʷː", ("stop", "velar", False)),
        ("ⁿd", ("stop", "alveolar", True)),
        ("nd", ("stop", "alveolar", True)),
        ("t͡ʃʰ", ("affricate", "postalveolar", False)),
        ("dʒ", ("affricate", "postalveolar", True)),
        ("ʦ", ("affricate", "alveolar", False)),
        ("tˢ", ("affricate", "alveolar", False)),
        ("t͡ɬ'", ("affricate", "alveolar", False)),
        ("ç", ("fricative", "palatal", False)),
        (unicodedata.normalize("NFD", "ç"), ("fricative", "palatal", False)),
        ("z̥", ("fricative", "alveolar", False)),
        ("ɹ̝", ("fricative", "alveolar", True)),
        ("β̞", ("approximant", "bilabial", True)),
        ("ʍ", ("fricative", "labial-velar", False)),
        ("h͡w", ("approximant", "labial-velar", False)),
        ("m̩", ("nasal", "bilabial", True)),
        ("n̥", ("nasal", "alveolar", False)),
        ("h̩͡ŋ", ("nasal", "velar", False)),
        ("ʎ̥", ("lateral", "palatal", False)),
        ("r̝", ("tap_trill", "alveolar", True)),
        ("ɽ", ("tap_trill", "retroflex", True)),
        ("j̃", ("approximant", "palatal", True)),
        ("ǃ", ("click", "alveolar", False)),
        ("ɡ͡ǀ", ("click", "dental", False)),
    ],
)
def test_consonants(label: str, expected: tuple[str, str, bool]) -> None:
    made = articulation(label)
    assert (made.broad, made.place, made.voiced) == expected


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("i", ("close", "front", False, True)),
        ("yː", ("close", "front", True, True)),
        ("ã", ("open", "front", False, True)),
        ("ɒ", ("open", "back", True, True)),
        ("ə̥", ("mid", "central", False, False)),
        ("ɚ", ("mid", "central", False, True)),
        ("aɪ̯", ("open", "front", False, True)),
        ("u˥˩", ("close", "back", True, True)),
        ("ˈo", ("close-mid", "back", True, True)),
        ("e3", ("close-mid", "front", False, True)),
    ],
)
def test_vowels(label: str, expected: tuple[str, str, bool, bool]) -> None:
    made = articulation(label)
    assert made.broad == "vowel"
    assert (made.height, made.backness, made.rounded, made.voiced) == expected


@given(
    st.sampled_from(sorted(CONSONANTS | VOWELS)), st.lists(st.sampled_from(sorted({*MODIFIERS, *PROSODY})))
)
def test_any_letter_with_any_marks_has_a_class_whatever_its_normal_form(
    letter: str, marks: list[str]
) -> None:
    label = letter + "".join(marks)
    found = {broad_class(unicodedata.normalize(form, label)) for form in ("NFC", "NFD")}
    assert len(found) == 1
    assert found <= set(BROAD_CLASSES)
    features = articulatory_features(label)
    assert features.shape == (len(FEATURE_NAMES),)
    assert features[: len(BROAD_CLASSES) - 2].sum() == 1


def test_the_tables_do_not_contradict_each_other() -> None:
    assert not set(CONSONANTS) & set(VOWELS)
    assert not (set(CONSONANTS) | set(VOWELS)) & (set(MODIFIERS) | PROSODY)
    assert len(CONSONANTS) > 75
    assert len(VOWELS) == 30
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)


def test_unknown_symbols() -> None:
    with pytest.raises(DataError, match=r"the phone 'a§' contains '§' \(U\+00A7 SECTION SIGN\)"):
        broad_class("a§")
    assert broad_class("a§", unknown="other") == "other"
    assert articulatory_features("a§", unknown="other").sum() == 0
    with pytest.raises(DataError, match="has no letter"):
        broad_class("ː")
    with pytest.raises(DataError, match="is several sounds; label them as separate"):
        broad_class("an")
    with pytest.raises(DataError, match="no alphabet 'sampa'"):
        broad_class("a", "sampa")
    with pytest.raises(DataError, match="choose error, other or noise"):
        broad_class("a", unknown="ignore")


def test_features_of_some_phones() -> None:
    def true(label: str, alphabet: str = "ipa") -> set[str]:
        values = articulatory_features(label, alphabet)
        return {name for name, value in zip(FEATURE_NAMES, values, strict=True) if value}

    assert true("sil") == {"silence"}
    assert true("tʰ") == {"stop", "coronal", "aspirated"}
    assert true("ʃʷ") == {"fricative", "postalveolar", "sibilant", "labialised"}
    assert true("ɬ") == {"fricative", "coronal", "lateral_release"}
    assert true("õː") == {"vowel", "voiced", "mid", "back", "rounded", "nasalised", "long"}
    assert true("ᵐɓ") == {"stop", "voiced", "labial", "implosive", "prenasalised"}
    assert true("OY1", "arpabet") == {"vowel", "voiced", "mid", "back", "rounded", "diphthong"}
    assert true("bcl", "arpabet") == {"closure", "voiced"}
    assert np.array_equal(articulatory_features("g"), articulatory_features("ɡ"))


def test_arpabet_covers_timit_and_is_guessed() -> None:
    assert guess_alphabet(TIMIT_61) == "arpabet"
    assert guess_alphabet(["HH", "AH0", "L", "OW1", "sil"]) == "arpabet"
    assert guess_alphabet(["p", "a", "t"]) == "ipa"
    assert guess_alphabet(["sh", "ʃ"]) == "ipa"
    classes = {p: broad_class(p, "arpabet") for p in TIMIT_61}
    assert Counter(classes.values()) == {
        "vowel": 20, "stop": 7, "closure": 6, "affricate": 2, "fricative": 10, "nasal": 6,
        "approximant": 3, "lateral": 2, "tap_trill": 2, "silence": 3,
    }  # fmt: skip
    assert set(ARPABET_TO_IPA) > set(TIMIT_61) - {"h#", "pau", "epi"} - {f"{c}cl" for c in "ptkbdg"}
    assert broad_class("AH0", "arpabet") == broad_class("ah", "arpabet") == "vowel"
    with pytest.raises(DataError, match="'W1' has a digit of stress, but is not an ARPABET vowel"):
        broad_class("W1", "arpabet")
    with pytest.raises(DataError, match="'ʃ' is not in ARPABET"):
        broad_class("ʃ", "arpabet")
