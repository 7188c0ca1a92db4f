"""Words of a transcript that are not in the dictionary: what becomes of them, and what is said about it.

========= =================================================================================================
``noise`` the word is aligned as one segment ``spn`` that any sound can fill, as the Montreal aligner does
``skip``  the word is left out, as if it had not been said
``error`` the recording is not aligned
========= =================================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from trellis.core.errors import DataError
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.formats.intervals import Tier

UnknownWords = Literal["noise", "skip", "error"]
UNKNOWN_WORDS: tuple[str, ...] = get_args(UnknownWords)
AnyDictionary = Dictionary | Mapping[str, Sequence[Sequence[str]]]


def check_unknown_words(choice: str) -> None:
    if choice not in UNKNOWN_WORDS:
        raise DataError(f"unknown={choice!r}; choose {', '.join(UNKNOWN_WORDS)}")


def keep_known(words: Sequence[str], dictionary: AnyDictionary, unknown: str) -> tuple[str, ...]:
    """The words to align: all of them, or with ``skip`` those of the dictionary."""
    check_unknown_words(unknown)
    known = dictionary if isinstance(dictionary, Dictionary) else Dictionary(dictionary)
    if unknown == "error":
        known.require(words)
    if unknown != "skip":
        return tuple(words)
    kept = tuple(word for word in words if word in known)
    if words and not kept:
        raise DataError(f"none of the words {' '.join(words[:5])} is in the dictionary; add them")
    return kept


def unknown_flags(words: Sequence[str], aligned: Tier, dictionary: AnyDictionary, unknown: str) -> list[str]:
    """A sentence for each unknown word of the transcript, with its times in the ``aligned`` words."""
    known = dictionary if isinstance(dictionary, Dictionary) else Dictionary(dictionary)
    flags, place = [], 0
    for word in words:
        if word in known:
            place += 1
        elif unknown == "skip":
            before = aligned[place - 1].end if place else 0.0
            after = f"{aligned[place].start:.2f} s" if place < len(aligned) else "the end"
            where = f"between {before:.2f} s and {after}"
            flags.append(f"the word {word!r} ({where}) is not in the dictionary; it is skipped")
        else:
            at = aligned[place]
            where = f"{at.start:.2f} to {at.end:.2f} s"
            flags.append(f"the word {word!r} ({where}) is not in the dictionary; it is aligned as noise")
            place += 1
    return flags
