"""The letters and diacritics of the International Phonetic Alphabet, as tables.

The charts of 2020, with the retired ligatures, the symbols of Sinologists that are in wide use, and the ASCII
stand-ins that corpora are full of (``g`` for U+0261, ``'`` for U+02BC, ``:`` for U+02D0).
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
    "near-close": {"front": "ɪʏ", "back": "-ʊ"},
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

# what is written another way (after canonical decomposition) -> letters of the tables above
SPELLINGS = {
    "c\u0327": "ç",
    "g": "ɡ",
    "ɚ": "ə˞",
    "ɝ": "ɜ˞",
    "ɿ": "ɨ",
    "ʅ": "ɨ",
    "ʦ": "ts",
    "ʣ": "dz",
    "ʧ": "tʃ",
    "ʤ": "dʒ",
    "ʨ": "tɕ",
    "ʥ": "dʑ",
    "'": "ʼ",
    "\u2019": "ʼ",
    ":": "ː",
    "!": "ǃ",
    "|": "ǀ",
    "ᴇ": "e",
    "ᴀ": "a",
}

# diacritics after a letter -> what they say of it
MODIFIERS = {
    "\u0325": "voiceless",
    "\u030a": "voiceless",
    "\u032c": "voiced",
    "\u0324": "breathy",
    "ʱ": "breathy",
    "\u0330": "creaky",
    "\u0303": "nasalised",
    "ⁿ": "nasalised",
    "ᵐ": "nasalised",
    "ᵑ": "nasalised",
    "\u0329": "syllabic",
    "\u030d": "syllabic",
    "\u032f": "nonsyllabic",
    "\u0311": "nonsyllabic",
    "\u032a": "dental",
    "\u0346": "dental",
    "\u033c": "linguolabial",
    "\u033a": "apical",
    "\u033b": "laminal",
    "\u031f": "advanced",
    "\u0320": "retracted",
    "\u0331": "retracted",
    "\u0308": "centralised",
    "\u033d": "centralised",
    "\u031d": "raised",
    "\u0323": "raised",
    "\u031e": "lowered",
    "\u0318": "advanced root",
    "\u0319": "retracted root",
    "\u0339": "more rounded",
    "\u031c": "less rounded",
    "\u031a": "unreleased",
    "\u0334": "pharyngealised",
    "ˤ": "pharyngealised",
    "ˠ": "velarised",
    "ʰ": "aspirated",
    "ʷ": "labialised",
    "ʲ": "palatalised",
    "ᶣ": "palatalised",
    "ʼ": "glottalised",
    "ˀ": "glottalised",
    "ˡ": "lateral release",
    "˞": "rhotic",
    "ʴ": "rhotic",
    "ː": "long",
    "ˑ": "long",
    "\u0306": "short",
    "ᵊ": "released",
    "ˢ": "fricated",
    "ᶻ": "fricated",
    "ᶴ": "fricated",
    "ᶿ": "fricated",
    "ˣ": "fricated",
    "ᶠ": "fricated",
}
# nasal letters before an obstruent, written small
PRENASAL = frozenset("ⁿᵐᵑ")
# prosody: tone marks and letters, stress, syllable breaks, digits, upstep and downstep
PROSODY = frozenset(
    "\u0301\u0300\u0302\u030c\u0304\u030b\u030f\u1dc4\u1dc5\u1dc6\u1dc7\u1dc8\u1dc9"
    "˥˦˧˨˩꜀꜁꜂꜃꜄꜅꜆꜇ꜛꜜꜝꜞ↗↘¹²³⁴⁵⁶⁷⁸⁹⁰ˈˌ.‿0123456789"
)
TIES = frozenset("\u0361\u035c")
