"""How the phones of an alphabet are articulated, and their articulatory features as numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.speech.phones.arpabet import ARPABET_TO_IPA, CLOSURES, arpabet_symbol
from trellis.speech.phones.ipa import BROAD_CLASSES, Articulation, ipa_articulation
from trellis.speech.phones.noise import NOISE, check_unknown_phones, is_noise
from trellis.speech.phones.silence import is_silence
from trellis.speech.phones.xsampa import xsampa_to_ipa

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
    *(name for name in BROAD_CLASSES if name not in ("other", NOISE)), "voiced", "labial", "coronal",
    "postalveolar", "dorsal", "guttural", "sibilant",
    "lateral_release", "close", "mid", "open", "front", "central", "back", "rounded", "nasalised", "long",
    "diphthong", "rhotic", "aspirated", "breathy", "creaky", "glottalised", "labialised", "palatalised",
    "pharyngealised", "syllabic", "implosive", "prenasalised",
)  # fmt: skip
_MARKS = frozenset(FEATURE_NAMES) & {
    "nasalised", "long", "diphthong", "rhotic", "aspirated", "breathy", "creaky", "glottalised", "labialised",
    "palatalised", "pharyngealised", "syllabic", "prenasalised",
}  # fmt: skip


def articulation(label: str, alphabet: str = "ipa", unknown: str = "error") -> Articulation:
    """How a phone is articulated; ``alphabet`` is one of :data:`READERS`.

    Labels of silence and of noise are the same in all of them. A phone that is not in the alphabet is an
    error, or has the manner ``"other"`` or ``"noise"`` if ``unknown`` says so.
    """
    check_unknown_phones(unknown)
    if is_silence(label):
        return Articulation("silence")
    if is_noise(label):
        return Articulation(NOISE)
    if alphabet not in READERS:
        raise DataError(f"no alphabet {alphabet!r}; choose {', '.join(READERS)}")
    try:
        return READERS[alphabet](label)
    except DataError:
        if unknown == "error":
            raise
        return Articulation(unknown)


def _read_xsampa(label: str) -> Articulation:
    return ipa_articulation(xsampa_to_ipa(label))


def _read_arpabet(label: str) -> Articulation:
    symbol = arpabet_symbol(label)
    if symbol in CLOSURES:
        return Articulation("closure", voiced=CLOSURES[symbol])
    if symbol not in ARPABET_TO_IPA:
        raise DataError(f"the phone {label!r} is not in ARPABET; correct it, or choose another alphabet")
    sound = ipa_articulation(ARPABET_TO_IPA[symbol])
    if symbol != label.strip().lower() and not (sound.manner == "vowel" or "syllabic" in sound.modifiers):
        raise DataError(f"the phone {label!r} has a digit of stress, but is not an ARPABET vowel; correct it")
    return sound


# alphabet -> the articulation of a label that is neither silence nor noise; ARPABET includes TIMIT's names
READERS: dict[str, Callable[[str], Articulation]] = {
    "ipa": ipa_articulation,
    "arpabet": _read_arpabet,
    "xsampa": _read_xsampa,
}


def articulatory_features(label: str, alphabet: str = "ipa", unknown: str = "error") -> FloatArray:
    """Zeros and ones in the order of :data:`FEATURE_NAMES`; noise and unknown phones have none."""
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
