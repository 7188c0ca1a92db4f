"""Phones in the International Phonetic Alphabet, taken apart: what kind of sound, where and how it is made.

A label is decomposed into letters with their diacritics; ties hold letters together, and so does standing in
one label. Several letters make one sound by these rules, the first that fits:

* a click and its accompaniment is a click; two vowels are a diphthong, named after the first;
* a stop and a fricative make an affricate, made where the fricative is;
* a glottal beside another sound is its onset or release (``h`` makes it voiceless);
* a nasal before a stop or fricative is prenasalisation; otherwise the first letter says what the sound is.

A raised approximant is a fricative, a lowered fricative an approximant, a stop with a fricative release an
affricate.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from functools import lru_cache

from trellis.core.errors import DataError
from trellis.speech.phones.ipa_tables import (
    CONSONANTS,
    MODIFIERS,
    PRENASAL,
    PROSODY,
    SPELLINGS,
    TIES,
    VOWELS,
)  # fmt: skip

# broad class -> manners
_MANNERS = {
    "vowel": ("vowel",), "stop": ("stop", "implosive"), "affricate": ("affricate", "lateral affricate"),
    "fricative": ("fricative", "lateral fricative"), "nasal": ("nasal",), "approximant": ("approximant",),
    "lateral": ("lateral",), "tap_trill": ("tap", "lateral tap", "trill"), "click": ("click",),
    "closure": ("closure",), "silence": ("silence",), "other": ("other",),
}  # fmt: skip
BROAD_CLASSES = tuple(_MANNERS)
BROAD_CLASS = {manner: broad for broad, manners in _MANNERS.items() for manner in manners}
_OBSTRUENTS = frozenset(
    ("stop", "implosive", "fricative", "lateral fricative", "affricate", "lateral affricate")
)


@dataclass(frozen=True)
class Articulation:
    """How a phone is made. Vowels have height, backness and rounding, consonants a place; others none."""

    manner: str
    voiced: bool = False
    place: str = ""
    height: str = ""
    backness: str = ""
    rounded: bool = False
    modifiers: frozenset[str] = frozenset()

    @property
    def broad(self) -> str:
        """One of :data:`BROAD_CLASSES`."""
        return BROAD_CLASS[self.manner]


@lru_cache(maxsize=4096)
def ipa_articulation(label: str) -> Articulation:
    """The articulation of one phone; an unknown symbol is a :class:`DataError` that names it."""
    letters, before = _letters(label)
    if not letters:
        raise DataError(
            f"the phone {label!r} has no letter of the IPA; correct it, or choose another alphabet"
        )
    sounds = [_sound(letter, frozenset(marks)) for letter, marks in letters]
    sound = sounds[0]
    for other in sounds[1:]:
        sound = _joined(sound, other, label)
    if before:
        sound = replace(sound, modifiers=sound.modifiers | {"prenasalised"})
    return sound


def _letters(label: str) -> tuple[list[tuple[str, list[str]]], bool]:
    """Each letter with what its diacritics say, and whether a small nasal stands before the first."""
    text = unicodedata.normalize("NFD", label.strip())
    for written, meant in SPELLINGS.items():
        text = text.replace(written, meant)
    letters: list[tuple[str, list[str]]] = []
    before = False
    for character in text:
        if character in CONSONANTS or character in VOWELS:
            letters.append((character, []))
        elif character in PRENASAL and not letters:
            before = True
        elif character in MODIFIERS:
            if letters:  # before the letter stand pre-aspiration and the like, which change no class
                letters[-1][1].append(MODIFIERS[character])
        elif character not in PROSODY and character not in TIES:
            name = unicodedata.name(character, "unnamed")
            raise DataError(
                f"the phone {label!r} holds {character!r} (U+{ord(character):04X} {name}), which is not "
                "in the IPA table; correct it, or let unknown phones be 'other'"
            )
    return letters, before


def _sound(letter: str, marks: frozenset[str]) -> Articulation:
    if letter in VOWELS:
        height, backness, rounded = VOWELS[letter]
        voiced = "voiceless" not in marks
        return Articulation("vowel", voiced, "", height, backness, rounded, marks)
    place, manner, voiced = CONSONANTS[letter]
    voiced = (voiced and "voiceless" not in marks) or bool(marks & {"voiced", "breathy"})
    if "raised" in marks and manner in ("approximant", "lateral"):
        manner = "fricative" if manner == "approximant" else "lateral fricative"
    elif "lowered" in marks and manner == "fricative":
        manner = "approximant"
    elif "fricated" in marks and manner == "stop":
        manner = "affricate"
    if "dental" in marks and place == "alveolar":
        place = "dental"
    elif "retracted" in marks and place == "alveolar":
        place = "postalveolar"
    elif "linguolabial" in marks:
        place = "linguolabial"
    return Articulation(manner, voiced, place, modifiers=marks)


def _joined(first: Articulation, second: Articulation, label: str) -> Articulation:
    marks = first.modifiers | second.modifiers
    pair = (first.manner, second.manner)
    for one in (first, second):
        if one.manner == "click":
            return replace(one, modifiers=marks)
    if pair == ("vowel", "vowel"):
        return replace(first, modifiers=marks | {"diphthong"})
    if "vowel" in pair:
        raise DataError(f"the phone {label!r} is a vowel and a consonant in one; label them as two phones")
    if first.manner in ("stop", "implosive") and second.manner in ("fricative", "lateral fricative"):
        if second.place == "glottal":
            return replace(first, modifiers=marks | {"aspirated"})
        manner = "lateral affricate" if second.manner == "lateral fricative" else "affricate"
        return replace(second, manner=manner, voiced=first.voiced, modifiers=marks)
    if "glottal" in (first.place, second.place) and first.place != second.place:
        glottal, other = (first, second) if first.place == "glottal" else (second, first)
        voiced = other.voiced and not (glottal.manner == "fricative" and not glottal.voiced)
        return replace(other, voiced=voiced, modifiers=marks)
    if first.manner == "nasal" and second.manner in _OBSTRUENTS:
        return replace(second, modifiers=marks | {"prenasalised"})
    if {first.place, second.place} == {"velar", "bilabial"}:
        return replace(first, place="labial-velar", modifiers=marks)
    return replace(first, modifiers=marks)
