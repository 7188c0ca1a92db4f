"""Labels that are no phones: noise, remarks, and what people type."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.phones.alphabets import ALPHABETS
from trellis.speech.phones.articulation import articulation
from trellis.speech.phones.folding import FOLDINGS, Folding
from trellis.speech.phones.ipa import canonical
from trellis.speech.phones.ipa_tables import (
    CONSONANTS,
    LOOK_ALIKES,
    MODIFIERS,
    PROSODY,
    SPELLINGS,
    TIES,
    TONE_DIGITS,
    VOWELS,
)
from trellis.speech.phones.noise import is_noise
from trellis.speech.phones.silence import SILENCES

NOISY = ["spn", "SPN", "nsn", "<usb>", "<nib>", "{B_TRANS}", "[noise]", "(laughs)", "VOCNOISE", " spn "]
LETTERS = sorted({**CONSONANTS, **VOWELS})
KNOWN = {*CONSONANTS, *VOWELS, *MODIFIERS, *PROSODY, *TIES, *TONE_DIGITS, *SPELLINGS, *"\u0327"}
COMBINING = [mark for mark in MODIFIERS if unicodedata.combining(mark)]


@pytest.mark.parametrize("label", NOISY)
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_noise_is_noise_in_every_folding_and_alphabet(label: str, alphabet: str) -> None:
    assert is_noise(label)
    assert {Folding(name, alphabet)(label) for name in FOLDINGS} == {"noise"}
    assert articulation(label, alphabet).broad == "noise"


def test_silences_and_phones_are_no_noise() -> None:
    assert not any(map(is_noise, SILENCES))
    assert not any(map(is_noise, [*LETTERS, "a?", "{", "}", "<", "t͡s", "@", "[", "()"]))


@given(
    st.text(st.sampled_from(LETTERS), max_size=2),
    st.characters(codec="utf-8").filter(
        lambda c: not set(unicodedata.normalize("NFD", c)) <= KNOWN and not c.isspace()
    ),
    st.text(st.sampled_from(LETTERS), max_size=2),
)
def test_no_label_with_a_foreign_character_is_some_phone(before: str, foreign: str, after: str) -> None:
    """Punctuation, brackets, question marks, capitals: an error, 'other' or noise on request."""
    label = before + foreign + after
    if label.strip().lower() in SILENCES or is_noise(label):
        return
    with pytest.raises(DataError):
        articulation(label)
    assert articulation(label, unknown="other").broad == "other"
    assert articulation(label, unknown="noise").broad == "noise"
    assert Folding("voiced", unknown="other")(label) == "other"


@pytest.mark.parametrize("mark", [*'?!<>[]{}()/\\*#+=~^&%$@;,_-"', "??", "1a", "°"])
def test_ascii_marks_beside_a_consonant(mark: str) -> None:
    for letter, (place, manner, _) in CONSONANTS.items():
        accompanied = mark == "!" and (place in ("velar", "uvular", "glottal") or manner == "click")
        if accompanied or letter + mark in SILENCES:
            continue
        with pytest.raises(DataError):
            articulation(letter + mark)


@pytest.mark.parametrize("letter", [*string.ascii_uppercase])
def test_capitals_are_not_in_the_ipa(letter: str) -> None:
    for label in (letter, f"{letter}ː", f"a{letter}", f"{letter}a", f"t{letter}"):
        with pytest.raises(DataError):
            articulation(label)


def test_digits_are_tones_at_the_end_of_what_can_carry_one() -> None:
    for label in ("a3", "ŋ̩55", "m2", "əɻ35", "z̩4", "aj51"):
        assert articulation(label) == articulation(label.rstrip("0123456789"))
    for label in ("3a", "a3a", "p3", "s1", "t͡s5", "w0", "l2", "r1", "7", "12"):
        with pytest.raises(DataError):
            articulation(label)


@pytest.mark.parametrize(
    "label",
    [
        "spk",
        "st",
        "kts",
        "pl",
        "an",
        "na",
        "ʃp",
        "usb",
        "noi",
        "rt",
        "lm",
        "aeiou",
        "t͡",
        "͡ts",
        "t͡͡s",
        "a!",
        "s|",
    ],
)
def test_several_sounds_are_not_one_phone(label: str) -> None:
    with pytest.raises(DataError):
        articulation(label)


@pytest.mark.parametrize(
    ("label", "same"),
    [
        ("a͡ɪ", "aɪ"), ("a͜ɪ", "aɪ"), ("t͜s", "t͡s"), ("ts", "t͡s"), ("tːs", "t͡sː"), ("ʦ", "t͡s"), ("aj", "aɪ"),
        ("ow", "oʊ"), ("ɔj", "ɔɪ"), ("i̯a", "ai̯"), ("g", "ɡ"), ("a:", "aː"), ("k’", "kʼ"), ("k'", "kʼ"),
        ("ttʃ", "t͡ʃː"), ("ss", "sː"), ("kj", "kʲ"), ("tw", "tʷ"), ("ε", "ɛ"), ("ǝ", "ə"), ("а", "a"),
        ("∫", "ʃ"), ("ł", "ɫ"),
    ],
)  # fmt: skip
def test_ways_to_write_the_same_sound(label: str, same: str) -> None:
    one, other = articulation(label), articulation(same)
    marks = {"long", "diphthong", "nonsyllabic", "labialised", "palatalised", "glottalised", "rhotic"}
    assert one.modifiers & marks == other.modifiers & marks
    assert (one.manner, one.place, one.voiced, one.height) == (
        other.manner,
        other.place,
        other.voiced,
        other.height,
    )


@given(
    st.sampled_from(LETTERS), st.lists(st.sampled_from([m for m in MODIFIERS if unicodedata.combining(m)]))
)
def test_composed_and_decomposed_are_one_phone(letter: str, marks: list[str]) -> None:
    label = letter + "".join(marks)
    forms = {unicodedata.normalize(form, label) for form in ("NFC", "NFD")}
    assert len({articulation(form) for form in forms}) == 1
    for name in FOLDINGS:
        if not name.startswith("timit"):
            assert len({Folding(name)(form) for form in forms}) == 1


@pytest.mark.parametrize("written", sorted(LOOK_ALIKES))
def test_look_alikes_are_one_class_even_unfolded(written: str) -> None:
    assert canonical(f"a{written}") == unicodedata.normalize("NFC", f"a{LOOK_ALIKES[written]}")
    assert Folding("none")(written) == Folding("none")(LOOK_ALIKES[written])
    assert Folding("none", "arpabet")("g") == "g"
