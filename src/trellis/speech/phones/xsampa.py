r"""X-SAMPA (Wells 1995), and SAMPA, of which it is the extension, in terms of the IPA.

A label is read from left to right, the longest symbol first (``r\``` before ``r\`` before ``r``), and
translated into the IPA, which says what the sound is. A question mark after other symbols marks doubt in more
corpora than it writes a glottalised sound, so ``a?`` is not read (``a_?\`` and ``?`` alone are).
"""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType

from trellis.core.errors import DataError

# fmt: off
LETTERS = MappingProxyType({
    "a": "a", "b": "b", "b_<": "ɓ", "c": "c", "d": "d", "d`": "ɖ", "d_<": "ɗ", "e": "e", "f": "f", "g": "ɡ",
    "g_<": "ɠ", "h": "h", "h\\": "ɦ", "i": "i", "j": "j", "j\\": "ʝ", "k": "k", "l": "l", "l`": "ɭ",
    "l\\": "ɺ", "m": "m", "n": "n", "n`": "ɳ", "o": "o", "p": "p", "p\\": "ɸ", "q": "q", "r": "r",
    "r`": "ɽ", "r\\": "ɹ", "r\\`": "ɻ", "s": "s", "s`": "ʂ", "s\\": "ɕ", "t": "t", "t`": "ʈ", "u": "u",
    "v": "v", "v\\": "ʋ", "w": "w", "x": "x", "x\\": "ɧ", "y": "y", "z": "z", "z`": "ʐ", "z\\": "ʑ",
    "A": "ɑ", "B": "β", "B\\": "ʙ", "C": "ç", "D": "ð", "E": "ɛ", "F": "ɱ", "G": "ɣ", "G\\": "ɢ",
    "G\\_<": "ʛ", "H": "ɥ", "H\\": "ʜ", "I": "ɪ", "I\\": "ᵻ", "J": "ɲ", "J\\": "ɟ", "J\\_<": "ʄ", "K": "ɬ",
    "K\\": "ɮ", "L": "ʎ", "L\\": "ʟ", "M": "ɯ", "M\\": "ɰ", "N": "ŋ", "N\\": "ɴ", "O": "ɔ", "O\\": "ʘ",
    "P": "ʋ", "Q": "ɒ", "R": "ʁ", "R\\": "ʀ", "S": "ʃ", "T": "θ", "U": "ʊ", "U\\": "ᵿ", "V": "ʌ", "W": "ʍ",
    "X": "χ", "X\\": "ħ", "Y": "ʏ", "Z": "ʒ",
    "@": "ə", "@\\": "ɘ", "@`": "ɚ", "{": "æ", "}": "ʉ", "1": "ɨ", "2": "ø", "3": "ɜ", "3\\": "ɞ", "3`": "ɝ",
    "4": "ɾ", "5": "ɫ", "6": "ɐ", "7": "ɤ", "8": "ɵ", "9": "œ", "&": "ɶ", "?": "ʔ", "?\\": "ʕ", "<\\": "ʢ",
    ">\\": "ʡ", "!\\": "ǃ", "|\\": "ǀ", "|\\|\\": "ǁ", "=\\": "ǂ",
})
DIACRITICS = MappingProxyType({
    "_\"": "\u0308", "_+": "\u031f", "_-": "\u0320", "_0": "\u0325", "=": "\u0329", "_=": "\u0329",
    "_>": "ʼ", "_?\\": "ˤ", "_^": "\u032f", "_}": "\u031a", "`": "˞", "~": "\u0303", "_~": "\u0303",
    "_A": "\u0318", "_a": "\u033a", "_c": "\u031c", "_d": "\u032a", "_e": "\u0334", "_G": "ˠ", "_h": "ʰ",
    "_j": "ʲ", "'": "ʲ", "_k": "\u0330", "_l": "ˡ", "_m": "\u033b", "_N": "\u033c", "_n": "ⁿ",
    "_O": "\u0339", "_o": "\u031e", "_q": "\u0319", "_r": "\u031d", "_t": "\u0324", "_v": "\u032c",
    "_w": "ʷ", "_X": "\u0306", "_x": "\u033d", ":": "ː", ":\\": "ˑ",
})
PROSODY = MappingProxyType({
    "\"": "ˈ", "%": "ˌ", ".": ".", "-\\": "‿", "^": "ꜛ", "!": "ꜜ", "<F>": "↘", "<R>": "↗",
    "_/": "\u030c", "_\\": "\u0302", "_B": "\u030f", "_L": "\u0300", "_M": "\u0304", "_H": "\u0301",
    "_T": "\u030b", "_R": "\u030c", "_F": "\u0302", "_B_L": "\u1dc5", "_H_T": "\u1dc4", "_R_F": "\u1dc8",
})
# fmt: on
TIE = "\u0361"
_TIES = ("_", ")")  # t_s and t)s hold two letters together
_SYMBOLS = {**LETTERS, **DIACRITICS, **PROSODY}
_SYMBOL = re.compile("|".join(map(re.escape, sorted(_SYMBOLS, key=len, reverse=True))) + r"|[_)]")


@lru_cache(maxsize=4096)
def xsampa_to_ipa(label: str) -> str:
    """The label in the IPA; what X-SAMPA has no symbol for is a :class:`DataError` that names it."""
    text, place = label.strip(), 0
    found: list[str] = []
    while place < len(text):
        match = _SYMBOL.match(text, place)
        if match is None or (match[0] == "?" and found):
            what = text[place]
            raise DataError(
                f"the phone {label!r} contains {what!r}, which is not X-SAMPA there; correct it, or let "
                "unknown phones be 'other'"
            )
        found.append(TIE if match[0] in _TIES else _SYMBOLS[match[0]])
        place = match.end()
    return "".join(found)
