"""ARPABET, as CMU's dictionary, Festival and TIMIT write it, in terms of the IPA."""

from __future__ import annotations

import re
from types import MappingProxyType

# fmt: off
ARPABET_TO_IPA = MappingProxyType({
    "aa": "ɑ", "ae": "æ", "ah": "ʌ", "ao": "ɔ", "aw": "aʊ", "ax": "ə", "ax-h": "ə̥", "axr": "ɚ", "ay": "aɪ",
    "eh": "ɛ", "er": "ɝ", "ey": "eɪ", "ih": "ɪ", "ix": "ɨ", "iy": "i", "ow": "oʊ", "oy": "ɔɪ", "uh": "ʊ",
    "uw": "u", "ux": "ʉ",
    "b": "b", "ch": "tʃ", "d": "d", "dh": "ð", "dx": "ɾ", "el": "l̩", "em": "m̩", "en": "n̩", "eng": "ŋ̩",
    "f": "f", "g": "ɡ", "h": "h", "hh": "h", "hv": "ɦ", "jh": "dʒ", "k": "k", "l": "l", "m": "m", "n": "n",
    "ng": "ŋ", "nx": "ɾ̃", "p": "p", "q": "ʔ", "r": "ɹ", "s": "s", "sh": "ʃ", "t": "t", "th": "θ", "v": "v",
    "w": "w", "wh": "ʍ", "y": "j", "z": "z", "zh": "ʒ",
})
# fmt: on
# the silent part of a stop, which TIMIT labels by itself -> whether it is voiced
CLOSURES = MappingProxyType(
    dict.fromkeys(("pcl", "tcl", "kcl", "cl"), False) | dict.fromkeys(("bcl", "dcl", "gcl", "vcl"), True)
)
_STRESS = re.compile(r"[0-3]$")


def arpabet_symbol(label: str) -> str:
    """The label in lower case without the digit of its stress."""
    return _STRESS.sub("", label.strip().lower())
