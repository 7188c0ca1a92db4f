"""The letters and diacritics of the International Phonetic Alphabet, as tables.

The charts of 2020, with the retired ligatures, the symbols of Sinologists that are in wide use, and the
look-alikes that corpora are full of (``g`` for U+0261, ``'`` for U+02BC, ``:`` for U+02D0, Greek and Cyrillic
letters).
"""

from __future__ import annotations

# manner -> place -> letters, voiceless before voiced; "-" for a gap
_CONSONANTS = {
    "stop": {
        "bilabial": "pb", "alveolar": "td", "retroflex": "ʈɖ", "alveolo-palatal": "ȶȡ", "palatal": "cɟ",
        "velar": "kɡ", "uvular": "qɢ", "epiglottal": "ʡ-", "glottal": "ʔ-",
    },
    "nasal": {
        "bilabial": "-m", "labiodental": "-ɱ", "alveolar": "-n", "retroflex": "-ɳ", "alveolo-palatal": "-ȵ",
        "palatal": "-ɲ", "velar": "-ŋ", "uvular": "-ɴ",
    },
    "trill": {"bilabial": "-ʙ", "alveolar": "-r", "uvular": "-ʀ"},
    "tap": {"labiodental": "-ⱱ", "alveolar": "-ɾ", "retroflex": "-ɽ"},
    "lateral tap": {"alveolar": "-ɺ"},
    "fricative": {
        "bilabial": "ɸβ", "labiodental": "fv", "dental": "θð", "alveolar": "sz", "postalveolar": "ʃʒ",
        "retroflex": "ʂʐ", "alveolo-palatal": "ɕʑ", "palatal": "çʝ", "postalveolar-velar": "ɧ-",
        "velar": "xɣ", "uvular": "χʁ", "pharyngeal": "ħʕ",
        "epiglottal": "ʜʢ", "glottal": "hɦ", "labial-velar": "ʍ-",
    },
    "lateral fricative": {"alveolar": "ɬɮ"},
    "approximant": {
        "labiodental": "-ʋ", "alveolar": "-ɹ", "retroflex": "-ɻ", "palatal": "-j", "labial-palatal": "-ɥ",
        "velar": "-ɰ", "labial-velar": "-w",
    },
    "lateral": {"alveolar": "-lɫ", "retroflex": "-ɭ", "palatal": "-ʎ", "velar": "-ʟ"},
    "implosive": {
        "bilabial": "-ɓ", "alveolar": "-ɗ", "retroflex": "-ᶑ", "palatal": "-ʄ", "velar": "-ɠ", "uvular": "-ʛ",
    },
    "click": {"bilabial": "ʘ-", "dental": "ǀ-", "alveolar": "ǃ-", "palatal": "ǂ-", "lateral": "ǁ-"},
}  # fmt: skip

# height -> backness -> letters, unrounded before rounded
_VOWELS = {
    "close": {"front": "iy", "central": "ɨʉ", "back": "ɯu"},
    "near-close": {"front": "ɪʏ", "central": "ᵻᵿ", "back": "-ʊ"},
    "close-mid": {"front": "eø", "central": "ɘɵ", "back": "ɤo"},
    "mid": {"central": "ə-"},
    "open-mid": {"front": "ɛœ", "central": "ɜɞ", "back": "ʌɔ"},
    "near-open": {"front": "æ-", "central": "ɐ-"},
    "open": {"front": "aɶ", "back": "ɑɒ"},
}

# letter -> (place, manner, voiced)
CONSONANTS = {
    letter: (place, manner, i > 0)
    for manner, places in _CONSONANTS.items()
    for place, letters in places.items()
    for i, letter in enumerate(letters)
    if letter != "-"
}
# letter -> (height, backness, rounded)
VOWELS = {
    letter: (height, backness, i > 0)
    for height, places in _VOWELS.items()
    for backness, letters in places.items()
    for i, letter in enumerate(letters)
    if letter != "-"
}

# what is typed for a letter because it looks like it: ASCII, other Latin letters, Greek, Cyrillic
LOOK_ALIKES = {
    "g": "ɡ", "'": "ʼ", "\u2019": "ʼ", "\u02bb": "ʼ", ":": "ː", "\ua789": "ː", "!": "ǃ", "|": "ǀ",
    "\u01dd": "ə", "\u0142": "ɫ", "\u0241": "ʔ", "\u0242": "ʔ", "\u222b": "ʃ", "\u03b1": "ɑ", "\u03b5": "ɛ",
    "\u03b3": "ɣ", "\u03c6": "ɸ", "\u03d5": "ɸ", "\u03b9": "ɪ", "\u0269": "ɪ", "\u0277": "ʊ", "\u03c5": "ʊ",
    "\u0430": "a", "\u0435": "e", "\u043e": "o", "\u0441": "c", "\u0440": "p", "\u0445": "x", "\u0443": "y",
    "\u0456": "i", "\u0458": "j", "\u04d9": "ə", "\u04e1": "ʒ",
}  # fmt: skip
# what is written another way (after canonical decomposition) -> letters of the tables above
SPELLINGS = {
    "c\u0327": "ç", **LOOK_ALIKES, "ɚ": "ə˞", "ɝ": "ɜ˞", "ɿ": "ɨ", "ʅ": "ɨ", "ʦ": "t\u0361s",
    "ʣ": "d\u0361z", "ʧ": "t\u0361ʃ", "ʤ": "d\u0361ʒ", "ʨ": "t\u0361ɕ", "ʥ": "d\u0361ʑ", "ᴇ": "e", "ᴀ": "a",
}  # fmt: skip

# what diacritics after a letter say of it
_DIACRITICS = {
    "voiceless": "\u0325\u030a", "voiced": "\u032c", "breathy": "\u0324ʱ", "creaky": "\u0330",
    "nasalised": "\u0303ⁿᵐᵑ", "syllabic": "\u0329\u030d", "nonsyllabic": "\u032f\u0311",
    "dental": "\u032a\u0346", "linguolabial": "\u033c", "apical": "\u033a", "laminal": "\u033b",
    "advanced": "\u031f", "retracted": "\u0320\u0331", "centralised": "\u0308\u033d",
    "raised": "\u031d\u0323", "lowered": "\u031e", "advanced root": "\u0318", "retracted root": "\u0319",
    "more rounded": "\u0339", "less rounded": "\u031c", "unreleased": "\u031a",
    "pharyngealised": "\u0334ˤ", "velarised": "ˠ", "aspirated": "ʰ", "labialised": "ʷ",
    "palatalised": "ʲᶣ", "glottalised": "ʼˀ", "lateral release": "ˡ", "rhotic": "˞ʴ", "long": "ːˑ",
    "short": "\u0306", "released": "ᵊ", "fricated": "ˢᶻᶴᶿˣᶠ", "strong": "\u0348", "weak": "\u0349",
}  # fmt: skip
MODIFIERS = {mark: meaning for meaning, marks in _DIACRITICS.items() for mark in marks}
# nasal letters before an obstruent, written small
PRENASAL = frozenset("ⁿᵐᵑ")
# prosody: tone marks and letters, stress, syllable breaks, digits, upstep and downstep
PROSODY = frozenset(
    "\u0301\u0300\u0302\u030c\u0304\u030b\u030f\u1dc4\u1dc5\u1dc6\u1dc7\u1dc8\u1dc9"
    "˥˦˧˨˩꜀꜁꜂꜃꜄꜅꜆꜇ꜛꜜꜝꜞ↗↘¹²³⁴⁵⁶⁷⁸⁹⁰ˈˌ.‿"
)
TONE_DIGITS = frozenset("0123456789")  # at the end of a label, after what can carry a tone
TIES = frozenset("\u0361\u035c")
