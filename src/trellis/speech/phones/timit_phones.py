"""The 61 phones of TIMIT, and how Lee and Hon (1989) fold them to 48 for models and to 39 for scores.

Lee and Hon drop the glottal stop ``q``. In an alignment a boundary cannot be dropped, so here ``q`` is folded
as what it mostly is, a closure: ``cl`` among the 48 and, with all closures, ``sil`` among the 39.
"""

from __future__ import annotations

from types import MappingProxyType

# fmt: off
TIMIT_61 = (
    "aa", "ae", "ah", "ao", "aw", "ax", "ax-h", "axr", "ay", "b", "bcl", "ch", "d", "dcl", "dh", "dx",
    "eh", "el", "em", "en", "eng", "epi", "er", "ey", "f", "g", "gcl", "h#", "hh", "hv", "ih", "ix",
    "iy", "jh", "k", "kcl", "l", "m", "n", "ng", "nx", "ow", "oy", "p", "pau", "pcl", "q", "r", "s",
    "sh", "t", "tcl", "th", "uh", "uw", "ux", "v", "w", "y", "z", "zh",
)
_TO_48 = {
    "ax-h": "ax", "axr": "er", "ux": "uw", "hv": "hh", "em": "m", "eng": "ng", "nx": "n",
    "pcl": "cl", "tcl": "cl", "kcl": "cl", "q": "cl", "bcl": "vcl", "dcl": "vcl", "gcl": "vcl",
    "h#": "sil", "pau": "sil",
}
FROM_48_TO_39 = {
    "ao": "aa", "ax": "ah", "ix": "ih", "el": "l", "en": "n", "zh": "sh",
    "cl": "sil", "vcl": "sil", "epi": "sil",
}
# fmt: on
TIMIT_TO_48 = MappingProxyType({phone: _TO_48.get(phone, phone) for phone in TIMIT_61})
TIMIT_TO_39 = MappingProxyType({p: FROM_48_TO_39.get(folded, folded) for p, folded in TIMIT_TO_48.items()})
