"""X-SAMPA against the names of the sounds in its standard table, and against the IPA."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.speech.phones.articulation import articulation, articulatory_features
from trellis.speech.phones.ipa import ipa_articulation
from trellis.speech.phones.xsampa import DIACRITICS, LETTERS, PROSODY, xsampa_to_ipa

# the names that the table of Wells (1995) gives: voicing, place and manner of every consonant
CONSONANTS = {
    "voiceless bilabial stop": "p", "voiced bilabial stop": "b", "voiceless alveolar stop": "t",
    "voiced alveolar stop": "d", "voiceless retroflex stop": "t`", "voiced retroflex stop": "d`",
    "voiceless palatal stop": "c", "voiced palatal stop": "J\\", "voiceless velar stop": "k",
    "voiced velar stop": "g", "voiceless uvular stop": "q", "voiced uvular stop": "G\\",
    "voiceless glottal stop": "?", "voiceless epiglottal stop": ">\\",
    "voiced bilabial implosive": "b_<", "voiced alveolar implosive": "d_<",
    "voiced palatal implosive": "J\\_<",
    "voiced velar implosive": "g_<", "voiced uvular implosive": "G\\_<",
    "voiced bilabial nasal": "m", "voiced labiodental nasal": "F", "voiced alveolar nasal": "n",
    "voiced retroflex nasal": "n`", "voiced palatal nasal": "J", "voiced velar nasal": "N",
    "voiced uvular nasal": "N\\", "voiced bilabial trill": "B\\", "voiced alveolar trill": "r",
    "voiced uvular trill": "R\\", "voiced alveolar tap": "4", "voiced retroflex tap": "r`",
    "voiced alveolar lateral tap": "l\\", "voiceless bilabial fricative": "p\\",
    "voiced bilabial fricative": "B",
    "voiceless labiodental fricative": "f", "voiced labiodental fricative": "v",
    "voiceless dental fricative": "T", "voiced dental fricative": "D", "voiceless alveolar fricative": "s",
    "voiced alveolar fricative": "z", "voiceless postalveolar fricative": "S",
    "voiced postalveolar fricative": "Z", "voiceless retroflex fricative": "s`",
    "voiced retroflex fricative": "z`", "voiceless alveolo-palatal fricative": "s\\",
    "voiced alveolo-palatal fricative": "z\\", "voiceless palatal fricative": "C",
    "voiced palatal fricative": "j\\", "voiceless postalveolar-velar fricative": "x\\",
    "voiceless velar fricative": "x", "voiced velar fricative": "G", "voiceless uvular fricative": "X",
    "voiced uvular fricative": "R", "voiceless pharyngeal fricative": "X\\",
    "voiced pharyngeal fricative": "?\\", "voiceless epiglottal fricative": "H\\",
    "voiced epiglottal fricative": "<\\", "voiceless glottal fricative": "h",
    "voiced glottal fricative": "h\\",
    "voiceless labial-velar fricative": "W", "voiceless alveolar lateral fricative": "K",
    "voiced alveolar lateral fricative": "K\\", "voiced labiodental approximant": ("P", "v\\"),
    "voiced alveolar approximant": "r\\", "voiced retroflex approximant": "r\\`",
    "voiced palatal approximant": "j", "voiced labial-palatal approximant": "H",
    "voiced velar approximant": "M\\", "voiced labial-velar approximant": "w",
    "voiced alveolar lateral": ("l", "5"), "voiced retroflex lateral": "l`", "voiced palatal lateral": "L",
    "voiced velar lateral": "L\\", "voiceless bilabial click": "O\\", "voiceless dental click": "|\\",
    "voiceless alveolar click": "!\\", "voiceless palatal click": "=\\", "voiceless lateral click": "|\\|\\",
}  # fmt: skip
# height and backness: unrounded, rounded
VOWELS = {
    "close front": "i y", "close central": "1 }", "close back": "M u", "near-close front": "I Y",
    "near-close central": "I\\ U\\", "near-close back": "- U", "close-mid front": "e 2",
    "close-mid central": "@\\ 8", "close-mid back": "7 o", "mid central": "@ -", "open-mid front": "E 9",
    "open-mid central": "3 3\\", "open-mid back": "V O", "near-open front": "{ -", "near-open central": "6 -",
    "open front": "a &", "open back": "A Q",
}  # fmt: skip


def _symbols(names: str | tuple[str, ...]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else names


def test_every_consonant_is_what_its_name_says() -> None:
    seen = set()
    for name, symbols in CONSONANTS.items():
        voicing, place, manner = name.split(" ", 2)
        for symbol in _symbols(symbols):
            made = articulation(symbol, "xsampa")
            assert (made.manner, made.place, made.voiced) == (manner, place, voicing == "voiced"), symbol
            seen.add(symbol)
    vowels = set()
    for name, pair in VOWELS.items():
        height, backness = name.split()
        for rounded, symbol in enumerate(pair.split()):
            if symbol != "-":
                made = articulation(symbol, "xsampa")
                assert (made.height, made.backness, made.rounded) == (height, backness, bool(rounded)), symbol
                vowels.add(symbol)
    assert seen | vowels | {"@`", "3`"} == set(LETTERS)  # every letter of the table is in this test


@pytest.mark.parametrize("symbol", [*LETTERS])
def test_letters_are_those_of_the_ipa(symbol: str) -> None:
    assert articulation(symbol, "xsampa") == ipa_articulation(LETTERS[symbol])
    assert (articulatory_features(symbol, "xsampa") == articulatory_features(LETTERS[symbol])).all()


MARKS = {
    "_\"": "centralised", "_+": "advanced", "_-": "retracted", "_0": "voiceless", "=": "syllabic",
    "_=": "syllabic", "_>": "glottalised", "_?\\": "pharyngealised", "_^": "nonsyllabic", "_}": "unreleased",
    "`": "rhotic", "~": "nasalised", "_~": "nasalised", "_A": "advanced root", "_a": "apical",
    "_c": "less rounded", "_d": "dental", "_e": "pharyngealised", "_G": "velarised", "_h": "aspirated",
    "_j": "palatalised", "'": "palatalised", "_k": "creaky", "_l": "lateral release", "_m": "laminal",
    "_N": "linguolabial", "_n": "nasalised", "_O": "more rounded", "_o": "lowered", "_q": "retracted root",
    "_r": "raised", "_t": "breathy", "_v": "voiced", "_w": "labialised", "_X": "short", "_x": "centralised",
    ":": "long", ":\\": "long",
}  # fmt: skip


def test_every_diacritic_says_what_its_name_says() -> None:
    assert set(MARKS) == set(DIACRITICS)
    for mark, meaning in MARKS.items():
        assert articulation(f"u{mark}", "xsampa").modifiers == {meaning}, mark
    for mark in PROSODY:  # changes no sound
        label = f"{mark}a" if mark in ('"', "%") else f"a{mark}"
        assert articulation(label, "xsampa") == articulation("a"), mark


@given(st.sampled_from([*LETTERS]), st.lists(st.sampled_from([*DIACRITICS]), max_size=3))
def test_any_letter_with_any_diacritics(letter: str, marks: list[str]) -> None:
    """Read as the IPA is, whatever follows: no mark is swallowed by the letter before it."""
    label = letter + "".join(marks)
    if label in LETTERS or any(label.startswith(longer) for longer in LETTERS if len(longer) > len(letter)):
        return
    assert xsampa_to_ipa(label) == LETTERS[letter] + "".join(DIACRITICS[mark] for mark in marks)


@pytest.mark.parametrize(
    ("label", "ipa"),
    [
        ("tS", "tʃ"), ("t_S", "t͡ʃ"), ("t)S", "t͡ʃ"), ("dZ", "d͡ʒ"), ("pf", "p͡f"), ("aI", "aɪ"), ("OY", "ɔʏ"),
        ("@U", "əʊ"), ("t_h", "tʰ"), ("k_w", "kʷ"), ("e~", "ẽ"), ("n=", "n̩"), ("r\\_r", "ɹ̝"), ("2:", "øː"),
        ('"a:', "aː"), ("u_0", "u̥"), ("l_G", "lˠ"), ("mb", "mb"), ("_h", None), ("a?", None), ("t?", None),
        ("a*", None), ("ʃ", None), ("", "sil"),
    ],
)  # fmt: skip
def test_labels_of_corpora(label: str, ipa: str | None) -> None:
    if ipa is None:
        with pytest.raises(DataError):
            articulation(label, "xsampa")
    else:
        assert articulation(label, "xsampa") == articulation(ipa)
