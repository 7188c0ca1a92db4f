"""Phones in the International Phonetic Alphabet, taken apart: what kind of sound, where and how it is made.

A label is decomposed into letters with their diacritics; composed and decomposed characters, and look-alikes
(``g``, ``:``, ``'``), are one. Several letters in one label make one sound by these rules, the first that
fits; a tie bar, above or below, says that they do:

* a click and its velar, uvular or glottal accompaniment is a click;
* vowels are a diphthong, named after its nucleus: the first vowel that is not marked as non-syllabic; so are
  a vowel and a glide after it (``aj``, ``ow``); with ``ɹ`` or ``ɻ`` after it, a vowel is rhotic;
* a letter twice is one long sound;
* a stop and a fricative make an affricate, made where the fricative is;
* a glottal beside another sound is its onset or release (``h`` makes it voiceless);
* a nasal before an obstruent is prenasalisation; velar with bilabial is labial-velar;
* a glide after a consonant is labialisation, palatalisation or velarisation;
* of other letters that are tied, the first says what the sound is.

Anything else is not one phone: an error, never a guess. Nor is a label with a character outside the tables,
a digit elsewhere than at the end of what can carry a tone, or a tie that ties nothing.

A raised approximant is a fricative, a lowered fricative an approximant, a stop with a fricative release an
affricate.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

from trellis.core.errors import DataError
from trellis.speech.phones.ipa_tables import (
    CONSONANTS,
    LOOK_ALIKES,
    MODIFIERS,
    PRENASAL,
    PROSODY,
    SPELLINGS,
    TIES,
    TONE_DIGITS,
    VOWELS,
)  # fmt: skip

# broad class -> manners
_MANNERS = {
    "vowel": ("vowel",), "stop": ("stop", "implosive"), "affricate": ("affricate", "lateral affricate"),
    "fricative": ("fricative", "lateral fricative"), "nasal": ("nasal",), "approximant": ("approximant",),
    "lateral": ("lateral",), "tap_trill": ("tap", "lateral tap", "trill"), "click": ("click",),
    "closure": ("closure",), "silence": ("silence",), "other": ("other",), "noise": ("noise",),
}  # fmt: skip
BROAD_CLASSES = tuple(_MANNERS)
BROAD_CLASS = {manner: broad for broad, manners in _MANNERS.items() for manner in manners}
_OBSTRUENTS = frozenset(
    ("stop", "implosive", "fricative", "lateral fricative", "affricate", "lateral affricate")
)

_MOST_LETTERS = 4  # of one phone: a prenasalised affricate and its release
_TONED = ("vowel", "nasal")  # and what is marked as syllabic
_CLICK_PLACES = ("velar", "uvular", "glottal")
# glides, and what they are when they follow a consonant in one phone
_SECONDARY = {
    "palatal": "palatalised", "labial-velar": "labialised", "labial-palatal": "labialised",
    "velar": "velarised",
}  # fmt: skip


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


@dataclass
class _Letter:
    """A letter, what its diacritics say, and whether a tie leads to the next one."""

    letter: str
    marks: list[str] = field(default_factory=list)
    tied: bool = False


@lru_cache(maxsize=4096)
def ipa_articulation(label: str) -> Articulation:
    """The articulation of one phone; what is not one is a :class:`DataError` that says why."""
    letters, toned, before = _letters(label)
    if not letters:
        raise DataError(
            f"the phone {label!r} has no letter of the IPA; correct it, or choose another alphabet"
        )
    if letters[-1].tied:
        raise DataError(f"the phone {label!r} ends in a tie bar with nothing after it; correct it")
    if len(letters) > _MOST_LETTERS:
        raise DataError(f"the phone {label!r} has {len(letters)} letters; label them as separate phones")
    sound = _sound(letters[0].letter, frozenset(letters[0].marks))
    for left, right in pairwise(letters):
        other = _sound(right.letter, frozenset(right.marks))
        joined = _doubled(sound, left, right) or _joined(sound, other, left.tied)
        if joined is None:
            raise DataError(
                f"the phone {label!r} is several sounds; label them as separate phones, or tie those that "
                "are one"
            )
        sound = joined
    if toned and not (sound.broad in _TONED or "syllabic" in sound.modifiers):
        raise DataError(f"the phone {label!r} ends in a digit, but a {sound.broad} has no tone; correct it")
    if before:
        sound = replace(sound, modifiers=sound.modifiers | {"prenasalised"})
    return sound


def canonical(label: str) -> str:
    """The label composed (NFC), with look-alikes replaced by the letters of the IPA."""
    text = unicodedata.normalize("NFD", label.strip())
    for written, meant in LOOK_ALIKES.items():
        text = text.replace(written, meant)
    return unicodedata.normalize("NFC", text)


def _letters(label: str) -> tuple[list[_Letter], bool, bool]:
    """The letters; whether digits of a tone end the label; whether a small nasal stands before the first."""
    text = unicodedata.normalize("NFD", label.strip())
    plain = text.rstrip("0123456789")
    toned = len(plain) < len(text)
    for written, meant in SPELLINGS.items():
        plain = plain.replace(written, meant)
    letters: list[_Letter] = []
    before = False
    for character in plain:
        if character in CONSONANTS or character in VOWELS:
            letters.append(_Letter(character))
        elif character in TIES and letters and not letters[-1].tied:
            letters[-1].tied = True
        elif character in PRENASAL and not letters:
            before = True
        elif character in MODIFIERS and (letters or not unicodedata.combining(character)):
            if letters:  # before the letter stand pre-aspiration and the like, which change no class
                letters[-1].marks.append(MODIFIERS[character])
        elif character not in PROSODY:
            raise DataError(_foreign(label, character))
    return letters, toned, before


def _foreign(label: str, character: str) -> str:
    if character in TIES:
        return f"the phone {label!r} has a tie bar with nothing to tie; correct it"
    if character in TONE_DIGITS:
        return f"the phone {label!r} has a digit before its end, which is not in the IPA; correct it"
    name = unicodedata.name(character, "unnamed")
    return (
        f"the phone {label!r} contains {character!r} (U+{ord(character):04X} {name}), which is not "
        "in the IPA table; correct it, or let unknown phones be 'other'"
    )


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


def _doubled(sound: Articulation, left: _Letter, right: _Letter) -> Articulation | None:
    """A consonant written twice is one long consonant; so are ``ttʃ`` and ``ssʰ``."""
    if left.letter != right.letter or left.letter in VOWELS:
        return None
    return replace(sound, modifiers=sound.modifiers | set(right.marks) | {"long"})


def _joined(first: Articulation, second: Articulation, tied: bool) -> Articulation | None:
    """Two sounds as one, None if they are two."""
    marks = first.modifiers | second.modifiers
    for one, other in ((first, second), (second, first)):
        if one.manner == "click":
            return replace(one, modifiers=marks) if other.place in _CLICK_PLACES else None
    if first.manner == "vowel":
        return _diphthong(first, second, marks)
    if second.manner == "vowel":
        return None
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
    if second.manner == "approximant" and second.place in _SECONDARY:
        return replace(first, modifiers=marks | {_SECONDARY[second.place]})
    return replace(first, modifiers=marks) if tied else None


def _diphthong(first: Articulation, second: Articulation, marks: frozenset[str]) -> Articulation | None:
    """Named after its nucleus."""
    if second.manner == "approximant":
        more = {"alveolar": "rhotic", "retroflex": "rhotic"} | dict.fromkeys(_SECONDARY, "diphthong")
        return replace(first, modifiers=marks | {more[second.place]}) if second.place in more else None
    if second.manner != "vowel":
        return None
    rising = "nonsyllabic" in first.modifiers and "diphthong" not in first.modifiers
    return replace(second if rising else first, modifiers=marks | {"diphthong"})
