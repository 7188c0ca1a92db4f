"""English words and how they are said: CMU's dictionary, numbers, and letters where neither helps.

A word is looked up as follows, the first that fits:

* CMU's dictionary (:mod:`.cmu_dictionary`), all of its pronunciations;
* a number in digits, as the words that it is read as (:mod:`.number_words`);
* a word of parts joined by hyphens, ``/`` or ``&``, part by part; ``n't`` and ``'s`` as in the dictionary;
* capitals without a vowel, up to six of them, are spelt: ``FBX`` is "f b x";
* any other word of letters is pronounced by the model (:mod:`.letter_to_sound`), and is in :attr:`guessed`.

Accents are dropped first. What is none of these (``¥``) is missing, as in any dictionary. Phones are written
in the IPA, as the builtin model's are, or in ARPABET.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from itertools import islice, product
from pathlib import Path

from trellis.core.errors import DataError
from trellis.speech.corpus.dictionary import Dictionary, Pronunciation
from trellis.speech.phones.arpabet import ARPABET_TO_IPA
from trellis.speech.pronunciation.cmu_dictionary import Ways, cmu_pronunciations
from trellis.speech.pronunciation.letter_to_sound import LetterToSound
from trellis.speech.pronunciation.number_words import number_words

MODEL = Path(__file__).parent / "english.npz"
MOST_WAYS = 8  # of a word with several parts
_PARTS = re.compile(r"[-/&_]+")
_SPELT = re.compile(r"[B-DF-HJ-NP-TV-XZ]{1,6}")
_READABLE = re.compile(r"[a-z]+(?:'[a-z]+)*'?")


class EnglishDictionary(Dictionary):
    """A :class:`Dictionary` of all words that can be read; entries are found when they are asked for.

    Examples
    --------
    >>> from trellis.speech import EnglishDictionary
    >>> EnglishDictionary()["cat"][0].phones
    ('k', 'æ', 't')
    """

    def __init__(self, alphabet: str = "ipa") -> None:
        super().__init__({}, "English")
        if alphabet not in ("ipa", "arpabet"):
            raise DataError(f"English is not written in the alphabet {alphabet!r}; choose ipa or arpabet")
        self._written = ARPABET_TO_IPA if alphabet == "ipa" else {phone: phone for phone in ARPABET_TO_IPA}
        self._words = cmu_pronunciations()
        self._found: dict[str, tuple[Pronunciation, ...]] = {}
        self._guessed: dict[str, None] = {}

    @property
    def guessed(self) -> tuple[str, ...]:
        """The words pronounced by the model so far, in the order in which they came."""
        return tuple(self._guessed)

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, word: str) -> tuple[Pronunciation, ...]:
        if word not in self:
            self.require([word])
        return self._found[word]

    def __contains__(self, word: str) -> bool:
        if word not in self._found:
            ways = self._ways(word)
            if not ways:
                return False
            self._found[word] = tuple(Pronunciation(tuple(self._written[p] for p in way)) for way in ways)
        return True

    @property
    def phones(self) -> tuple[str, ...]:
        return tuple(sorted({self._written[p] for ways in self._words.values() for way in ways for p in way}))

    def _ways(self, written: str) -> Ways:
        plain = _plain(written)
        word = plain.lower()
        if word in self._words:
            return self._words[word]
        if numbers := number_words(word):
            return self._together(numbers)
        parts = [part for part in _PARTS.split(plain) if part]
        if len(parts) > 1:
            return self._together(parts)
        if _SPELT.fullmatch(plain):
            return self._together(list(word))
        if not _READABLE.fullmatch(word):
            return []
        self._guessed[written] = None
        return [way for way in _model().pronounce([word]) if way]

    def _together(self, parts: Iterable[str]) -> Ways:
        """The pronunciations of words that are said as one."""
        each = [self._ways(part) for part in parts]
        return [sum(chosen, ()) for chosen in islice(product(*each), MOST_WAYS)]


def _plain(word: str) -> str:
    """Without accents, with the apostrophe of typewriters: ``Café's`` is ``Cafe's``."""
    letters = unicodedata.normalize("NFD", word.replace("\u2019", "'"))
    return "".join(c for c in letters if not unicodedata.combining(c)).rstrip(".")


@cache
def _model() -> LetterToSound:
    return LetterToSound.load(MODEL)
