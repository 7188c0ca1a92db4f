"""How the phones of an alphabet are articulated, and their articulatory features as numbers."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.speech.phones.arpabet import ARPABET_TO_IPA, CLOSURES, arpabet_symbol, is_arpabet
from trellis.speech.phones.ipa import BROAD_CLASSES, Articulation, ipa_articulation
from trellis.speech.phones.silence import is_silence

# where consonants are made, in five regions
REGION = {
    "bilabial": "labial", "labiodental": "labial", "linguolabial": "labial", "labial-velar": "labial",
    "labial-palatal": "labial", "dental": "coronal", "alveolar": "coronal", "lateral": "coronal",
    "postalveolar": "postalveolar", "retroflex": "postalveolar", "alveolo-palatal": "postalveolar",
    "postalveolar-velar": "postalveolar", "palatal": "dorsal", "velar": "dorsal", "uvular": "dorsal",
    "pharyngeal": "guttural", "epiglottal": "guttural", "glottal": "guttural",
}  # fmt: skip
HEIGHT = {
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


def articulation(label: str, alphabet: str = "ipa", unknown: str = "error") -> Articulation:
    """How a phone is articulated; ``alphabet`` is ``"ipa"`` or ``"arpabet"``.

    A phone that is not in the alphabet is an error, or has the manner ``"other"`` with ``unknown="other"``.
    """
    if unknown not in ("error", "other"):
        raise DataError(f"unknown={unknown!r}; choose error or other")
    if is_silence(label):
        return Articulation("silence")
    try:
        return _read_phone(label, alphabet)
    except DataError:
        if unknown == "error":
            raise
        return Articulation("other")


def _read_phone(label: str, alphabet: str) -> Articulation:
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


def articulatory_features(label: str, alphabet: str = "ipa", unknown: str = "error") -> FloatArray:
    """Zeros and ones in the order of :data:`FEATURE_NAMES`; an unknown phone has none of them."""
    phone = articulation(label, alphabet, unknown)
    true = {phone.broad, *(phone.modifiers & _MARKS), HEIGHT.get(phone.height, ""), phone.backness}
    region = REGION.get(phone.place, "")
    true.add(region)
    lateral = "lateral" in phone.manner
    strident = phone.broad in ("fricative", "affricate") and not lateral
    checks = {
        "voiced": phone.voiced,
        "rounded": phone.rounded,
        "implosive": phone.manner == "implosive",
        "lateral_release": lateral or "lateral release" in phone.modifiers,
        "sibilant": strident and (region == "postalveolar" or phone.place == "alveolar"),
    }
    true |= {name for name, holds in checks.items() if holds}
    return np.array([name in true for name in FEATURE_NAMES], dtype=np.float64)
