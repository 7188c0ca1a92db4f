"""Phone labels and what to make of them: foldings to fewer classes, and articulatory features.

A *folding* maps a label to the class that a classifier or a duration model shares. Folding to broad classes
or to features makes one model serve languages that it has never heard. By name (:func:`folding`):

====================  ========================================================================================
``none``              the label itself; silences are ``sil``
``timit48, timit39``  Lee and Hon's tables (:mod:`trellis.speech.phones.timit_phones`)
``broad``             vowel, stop, affricate, fricative, nasal, approximant, lateral, tap_trill, click
``voiced``            broad, obstruents by voicing, vowels by height (about 20 classes)
``detailed``          voiced, with the region of consonants and the backness of vowels (about 60 classes)
====================  ========================================================================================

The last three take the IPA or ARPABET; an unknown phone is an error, or the class ``other`` if asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.speech.phones.arpabet import ARPABET_TO_IPA, CLOSURES, arpabet_symbol, is_arpabet
from trellis.speech.phones.ipa import BROAD_CLASSES, Articulation, ipa_articulation
from trellis.speech.phones.silence import SILENCE, SILENCES, is_silence
from trellis.speech.phones.timit_phones import FROM_48_TO_39, TIMIT_61, TIMIT_TO_39, TIMIT_TO_48

__all__ = [
    "BROAD_CLASSES",
    "FEATURE_NAMES",
    "FOLDINGS",
    "TIMIT_61",
    "TIMIT_TO_39",
    "TIMIT_TO_48",
    "Articulation",
    "Folding",
    "articulation",
    "articulatory_features",
    "broad_class",
    "folding",
    "guess_alphabet",
]

# where consonants are made, in five regions
_REGION = {
    "bilabial": "labial", "labiodental": "labial", "linguolabial": "labial", "labial-velar": "labial",
    "labial-palatal": "labial", "dental": "coronal", "alveolar": "coronal", "lateral": "coronal",
    "postalveolar": "postalveolar", "retroflex": "postalveolar", "alveolo-palatal": "postalveolar",
    "postalveolar-velar": "postalveolar", "palatal": "dorsal", "velar": "dorsal", "uvular": "dorsal",
    "pharyngeal": "guttural", "epiglottal": "guttural", "glottal": "guttural",
}  # fmt: skip
_HEIGHT = {
    "close": "close", "near-close": "close", "close-mid": "mid", "mid": "mid", "open-mid": "mid",
    "near-open": "open", "open": "open",
}  # fmt: skip
FEATURE_NAMES = (
    *BROAD_CLASSES[:-1], "voiced", "labial", "coronal", "postalveolar", "dorsal", "guttural", "sibilant",
    "lateral_release", "close", "mid", "open", "front", "central", "back", "rounded", "nasalised", "long",
    "diphthong", "rhotic", "aspirated", "breathy", "creaky", "glottalised", "labialised", "palatalised",
    "pharyngealised", "syllabic", "implosive", "prenasalised",
)  # fmt: skip
_MARKS = frozenset(FEATURE_NAMES) & {
    "nasalised", "long", "diphthong", "rhotic", "aspirated", "breathy", "creaky", "glottalised", "labialised",
    "palatalised", "pharyngealised", "syllabic", "prenasalised",
}  # fmt: skip
_NOISY = ("stop", "affricate", "fricative")


def articulation(label: str, alphabet: str = "ipa", silences: Collection[str] = SILENCES) -> Articulation:
    """How the phone is made. ``alphabet`` is ``"ipa"`` or ``"arpabet"``."""
    if is_silence(label, silences):
        return Articulation("silence")
    if alphabet == "ipa":
        return ipa_articulation(label)
    if alphabet != "arpabet":
        raise DataError(f"no alphabet {alphabet!r}; choose ipa or arpabet")
    symbol = arpabet_symbol(label)
    if symbol in CLOSURES:
        return Articulation("closure", voiced=CLOSURES[symbol])
    if symbol not in ARPABET_TO_IPA:
        raise DataError(f"the phone {label!r} is not in ARPABET; correct it, or choose another alphabet")
    return ipa_articulation(ARPABET_TO_IPA[symbol])


def guess_alphabet(labels: Iterable[str]) -> str:
    """``"arpabet"`` if every phone can be that and some phone needs two letters, else ``"ipa"``."""
    spoken = {label for label in labels if not is_silence(label)}
    needs = any(len(arpabet_symbol(label)) > 1 for label in spoken)
    return "arpabet" if needs and all(map(is_arpabet, spoken)) else "ipa"


def broad_class(
    label: str, alphabet: str = "ipa", unknown: str = "error", silences: Collection[str] = SILENCES
) -> str:
    """One of :data:`BROAD_CLASSES`; an unknown phone is an error, or ``"other"`` with ``unknown="other"``."""
    return _or_other(label, alphabet, unknown, silences).broad


def articulatory_features(
    label: str, alphabet: str = "ipa", unknown: str = "error", silences: Collection[str] = SILENCES
) -> FloatArray:
    """Zeros and ones in the order of :data:`FEATURE_NAMES`; an unknown phone has none of them."""
    made = _or_other(label, alphabet, unknown, silences)
    true = {made.broad, *(made.modifiers & _MARKS), _HEIGHT.get(made.height, ""), made.backness}
    region = _REGION.get(made.place, "")
    true.add(region)
    lateral = "lateral" in made.manner
    strident = made.broad in ("fricative", "affricate") and not lateral
    checks = {
        "voiced": made.voiced,
        "rounded": made.rounded,
        "implosive": made.manner == "implosive",
        "lateral_release": lateral or "lateral release" in made.modifiers,
        "sibilant": strident and (region == "postalveolar" or made.place == "alveolar"),
    }
    true |= {name for name, holds in checks.items() if holds}
    return np.array([name in true for name in FEATURE_NAMES], dtype=np.float64)


def _or_other(label: str, alphabet: str, unknown: str, silences: Collection[str]) -> Articulation:
    if unknown not in ("error", "other"):
        raise DataError(f"unknown={unknown!r}; choose error or other")
    try:
        return articulation(label, alphabet, silences)
    except DataError:
        if unknown == "error":
            raise
        return Articulation("other")


@dataclass(frozen=True)
class Folding:
    """A map from labels to classes; ``alphabet`` and ``unknown`` matter to those that know articulation."""

    name: str = "none"
    alphabet: str = "ipa"
    unknown: str = "error"
    silences: Collection[str] = field(default=SILENCES, repr=False)

    def __post_init__(self) -> None:
        if self.name not in FOLDINGS:
            raise DataError(f"no folding {self.name!r}; choose one of {', '.join(FOLDINGS)}")

    def __call__(self, label: str) -> str:
        return FOLDINGS[self.name](self, label)

    def all(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The class of each label."""
        seen: dict[str, str] = {}
        return tuple(seen[p] if p in seen else seen.setdefault(p, self(p)) for p in labels)


def folding(name: str, labels: Iterable[str] = (), unknown: str = "error") -> Folding:
    """The folding called ``name``, in the alphabet that ``labels`` are written in."""
    return Folding(name, guess_alphabet(labels), unknown)


def _as_is(fold: Folding, label: str) -> str:
    return SILENCE if is_silence(label, fold.silences) else label


def _by_table(table: Mapping[str, str]) -> Callable[[Folding, str], str]:
    folded = set(table.values())

    def look_up(fold: Folding, label: str) -> str:
        symbol = arpabet_symbol(label)
        if symbol in table:
            return table[symbol]
        if symbol in folded:  # folded before, by the corpus or by hand
            return symbol
        if is_silence(label, fold.silences):
            return SILENCE
        if fold.unknown == "other":
            return "other"
        raise DataError(f"the phone {label!r} is not one of the 61 of TIMIT; correct it or fold another way")

    return look_up


def _broad(fold: Folding, label: str) -> str:
    return broad_class(label, fold.alphabet, fold.unknown, fold.silences)


def _voiced(fold: Folding, label: str) -> str:
    made = _or_other(label, fold.alphabet, fold.unknown, fold.silences)
    if made.manner == "vowel":
        return f"{_HEIGHT[made.height]} vowel" if made.voiced else "voiceless vowel"
    if made.broad in (*_NOISY, "closure"):
        glottal = "glottal " if made.place == "glottal" else ""
        return f"{'voiced' if made.voiced else 'voiceless'} {glottal}{made.broad}"
    return made.broad


def _detailed(fold: Folding, label: str) -> str:
    made = _or_other(label, fold.alphabet, fold.unknown, fold.silences)
    kind = _voiced(fold, label)
    if made.manner == "vowel" and made.voiced:
        nasal = "nasalised " if "nasalised" in made.modifiers else ""
        return f"{nasal}{made.backness} {kind}"
    region = _REGION.get(made.place, "")
    if not region or made.place == "glottal":
        return kind
    released = "aspirated " if "aspirated" in made.modifiers else ""
    ejective = "ejective " if "glottalised" in made.modifiers and made.broad in _NOISY else ""
    return f"{released}{ejective}{region} {kind}"


FOLDINGS: dict[str, Callable[[Folding, str], str]] = {
    "none": _as_is,
    "timit48": _by_table(TIMIT_TO_48),
    "timit39": _by_table({**TIMIT_TO_39, **FROM_48_TO_39}),
    "broad": _broad,
    "voiced": _voiced,
    "detailed": _detailed,
}
