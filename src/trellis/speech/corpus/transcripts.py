"""What is said in a recording: given once for all recordings, or in a file of the same name.

========== ================================================================================================
``.phones`` phones, split at blanks
``.txt``    words as people write them; punctuation does not count
``.lab``    words, as the Montreal Forced Aligner has them; with HTK times in it, the labels are phones
========== ================================================================================================

Where a recording has several, words come first if there is a dictionary to look them up in, else phones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trellis.core.errors import DataError
from trellis.speech.corpus.dictionary import split_words
from trellis.speech.formats.label_lines import read_lab
from trellis.speech.formats.text_files import read_text

_WORDS, _PHONES = (".txt", ".lab"), (".phones",)
_TIMED = re.compile(r"\s*\d+\s+\d+\s+\S")


@dataclass(frozen=True)
class Transcript:
    """Either ``phones`` or ``words``, and the file that they come from."""

    phones: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None
    path: Path | None = None


def given_transcript(phones: str | None, words: str | None) -> Transcript | None:
    """What ``phones`` or ``words`` say: the path of a file, or the transcript itself."""
    if phones is not None and words is not None:
        raise DataError("phones and words are both given; give one of them")
    if phones is not None:
        text, path = _content(phones, (*_PHONES, *_WORDS))
        return Transcript(phones=_some(tuple(text.split()), "phones", phones), path=path)
    if words is not None:
        text, path = _content(words, _WORDS)
        return Transcript(words=_some(tuple(split_words(text)), "words", words), path=path)
    return None


def find_transcript(base: Path, dictionary: bool) -> Transcript:
    """The transcript ``base.phones``, ``base.txt`` or ``base.lab``; words need a ``dictionary``."""
    order = (*_WORDS, *_PHONES) if dictionary else (*_PHONES, *_WORDS)
    path = next((p for p in (base.with_name(base.name + suffix) for suffix in order) if p.is_file()), None)
    if path is None:
        raise DataError(f"{base}: no transcript of this name ({', '.join(order)}); write one, or give it")
    transcript = _READERS[path.suffix](path)
    if transcript.words is not None and not dictionary:
        raise DataError(f"{path}: these are words; give a dictionary, or a file {base.name}.phones")
    return transcript


def _content(given: str, suffixes: tuple[str, ...]) -> tuple[str, Path | None]:
    """The text of the file ``given``, or ``given`` itself where it cannot be meant as one."""
    if os.path.isfile(given) or given.endswith(suffixes):
        return read_text(given), Path(given)
    return given, None


def _some(found: tuple[str, ...], what: str, where: object) -> tuple[str, ...]:
    if not found:
        raise DataError(f"{where!s}: the transcript holds no {what}; write what is said")
    return found


def _read_phones(path: Path) -> Transcript:
    return Transcript(phones=_some(tuple(read_text(path).split()), "phones", path), path=path)


def _read_words(path: Path) -> Transcript:
    return Transcript(words=_some(tuple(split_words(read_text(path))), "words", path), path=path)


def _read_lab(path: Path) -> Transcript:
    if _TIMED.match(read_text(path)):
        return Transcript(phones=_some(read_lab(path).labels, "phones", path), path=path)
    return _read_words(path)


_READERS: dict[str, Callable[[Path], Transcript]] = {
    ".phones": _read_phones,
    ".txt": _read_words,
    ".lab": _read_lab,
}
