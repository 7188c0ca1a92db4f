"""Foldings: maps from phone labels to the classes that a classifier or a duration model shares.

Folding by articulation makes one model serve languages that were not in training. By name (:func:`folding`):

====================  ========================================================================================
``none``              the label itself, composed, look-alikes replaced; silences are ``sil``
``timit48, timit39``  Lee and Hon's tables (:mod:`trellis.speech.phones.timit_phones`)
``broad``             vowel, stop, affricate, fricative, nasal, approximant, lateral, tap_trill, click
``voiced``            broad, obstruents by voicing, vowels by height (about 20 classes)
``detailed``          voiced, with the region of consonants and the backness of vowels (about 60 classes)
====================  ========================================================================================

The last three read the IPA, ARPABET (and TIMIT's names) or X-SAMPA; a lateral, approximant, tap or trill
without voice is a fricative in them, as which it is heard. Labels of noise have the class ``noise``
in all of them; an unknown phone is an error, or in the class ``other`` or ``noise`` on request.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from trellis.core.errors import DataError
from trellis.speech.phones.alphabets import guess_alphabet
from trellis.speech.phones.arpabet import arpabet_symbol
from trellis.speech.phones.articulation import HEIGHT, REGION, articulation
from trellis.speech.phones.ipa import Articulation, canonical
from trellis.speech.phones.noise import NOISE, check_unknown_phones, is_noise
from trellis.speech.phones.silence import SILENCE, is_silence
from trellis.speech.phones.timit_phones import FROM_48_TO_39, TIMIT_TO_39, TIMIT_TO_48

_OBSTRUENTS = ("stop", "affricate", "fricative")
_BREATHED = ("approximant", "lateral", "tap_trill")  # without voice, all that is heard of them is breath


@dataclass(frozen=True)
class Folding:
    """A map from labels to classes; ``alphabet`` and ``unknown`` concern foldings by articulation."""

    name: str = "none"
    alphabet: str = "ipa"
    unknown: str = "error"

    def __post_init__(self) -> None:
        if self.name not in FOLDINGS:
            raise DataError(f"no folding {self.name!r}; choose one of {', '.join(FOLDINGS)}")
        check_unknown_phones(self.unknown)

    def __call__(self, label: str) -> str:
        return FOLDINGS[self.name](self, label)

    def articulation(self, label: str) -> Articulation:
        return articulation(label, self.alphabet, self.unknown)


def folding(name: str, labels: Iterable[str] = (), unknown: str = "error", alphabet: str = "auto") -> Folding:
    """The folding called ``name``, in the alphabet that ``labels`` are written in."""
    return Folding(name, guess_alphabet(labels) if alphabet == "auto" else alphabet, unknown)


def _as_is(fold: Folding, label: str) -> str:
    if is_silence(label):
        return SILENCE
    if is_noise(label):
        return NOISE
    return canonical(label) if fold.alphabet == "ipa" else unicodedata.normalize("NFC", label.strip())


def _by_table(table: Mapping[str, str]) -> Callable[[Folding, str], str]:
    folded = set(table.values())

    def look_up(fold: Folding, label: str) -> str:
        symbol = arpabet_symbol(label)
        if symbol in table:
            return table[symbol]
        if symbol in folded:  # folded before, by the corpus or by hand
            return symbol
        if is_silence(label):
            return SILENCE
        if is_noise(label):
            return NOISE
        if fold.unknown != "error":
            return fold.unknown
        raise DataError(f"the phone {label!r} is not one of the 61 of TIMIT; correct it or fold another way")

    return look_up


def _manner(phone: Articulation) -> str:
    return "fricative" if phone.broad in _BREATHED and not phone.voiced else phone.broad


def _broad(fold: Folding, label: str) -> str:
    return _manner(fold.articulation(label))


def _voiced(fold: Folding, label: str) -> str:
    phone = fold.articulation(label)
    if phone.manner == "vowel":
        return f"{HEIGHT[phone.height]} vowel" if phone.voiced else "voiceless vowel"
    manner = _manner(phone)
    if manner in (*_OBSTRUENTS, "closure"):
        glottal = "glottal " if phone.place == "glottal" else ""
        return f"{'voiced' if phone.voiced else 'voiceless'} {glottal}{manner}"
    return manner


def _detailed(fold: Folding, label: str) -> str:
    phone = fold.articulation(label)
    kind = _voiced(fold, label)
    if phone.manner == "vowel" and phone.voiced:
        nasal = "nasalised " if "nasalised" in phone.modifiers else ""
        return f"{nasal}{phone.backness} {kind}"
    region = REGION.get(phone.place, "")
    if not region or phone.place == "glottal":
        return kind
    released = "aspirated " if "aspirated" in phone.modifiers else ""
    ejective = "ejective " if "glottalised" in phone.modifiers and phone.broad in _OBSTRUENTS else ""
    return f"{released}{ejective}{region} {kind}"


FOLDINGS: dict[str, Callable[[Folding, str], str]] = {
    "none": _as_is,
    "timit48": _by_table(TIMIT_TO_48),
    "timit39": _by_table({**TIMIT_TO_39, **FROM_48_TO_39}),
    "broad": _broad,
    "voiced": _voiced,
    "detailed": _detailed,
}
