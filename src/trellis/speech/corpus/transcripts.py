"""Transcripts of recordings: given once for all of them, or in a file of the same name.

========== ================================================================================================
``.phones`` phones, separated by blanks
``.txt``    ordinary text; punctuation is ignored
``.lab``    words, as the Montreal Forced Aligner has them; with HTK times in it, the labels are phones
========== ================================================================================================

Where a recording has several, words are preferred if there is a dictionary to look them up in, else phones.
"""

from __future__ import annotations

import os
import re
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

    def __post_init__(self) -> None:
        if not (self.phones or self.words):
            what, where = "words" if self.phones is None else "phones", f"{self.path}: " if self.path else ""
            raise DataError(f"{where}the transcript has no {what}; write down what is said")


def parse_transcript(phones: str | None, words: str | None, encoding: str | None = None) -> Transcript | None:
    """The transcript that ``phones`` or ``words`` are: the name of a file, or the text itself."""
    if phones is not None and words is not None:
        raise DataError("phones and words are both given; give one of them")
    if phones is not None:
        text, path = _read_if_file(phones, (*_PHONES, *_WORDS), encoding)
        return Transcript(phones=tuple(text.split()), path=path)
    if words is not None:
        text, path = _read_if_file(words, _WORDS, encoding)
        return Transcript(words=tuple(split_words(text)), path=path)
    return None


def find_transcript(base: Path, dictionary: bool, encoding: str | None = None) -> Transcript:
    """The transcript ``base.phones``, ``base.txt`` or ``base.lab``; words need a ``dictionary``."""
    order = (*_WORDS, *_PHONES) if dictionary else (*_PHONES, *_WORDS)
    path = next((p for p in (base.with_name(base.name + suffix) for suffix in order) if p.is_file()), None)
    if path is None:
        raise DataError(f"{base}: no transcript of this name ({', '.join(order)}); write one, or give it")
    text = read_text(path, encoding)
    if path.suffix == ".phones":
        return Transcript(phones=tuple(text.split()), path=path)
    if path.suffix == ".lab" and _TIMED.match(text):
        return Transcript(phones=read_lab(path, encoding=encoding).labels, path=path)
    transcript = Transcript(words=tuple(split_words(text)), path=path)
    if not dictionary:
        raise DataError(f"{path}: these are words; give a dictionary, or a file {base.name}.phones")
    return transcript


def _read_if_file(given: str, suffixes: tuple[str, ...], encoding: str | None) -> tuple[str, Path | None]:
    """The text of the file ``given``, or ``given`` itself if it is not a file."""
    if os.path.isfile(given) or given.endswith(suffixes):
        return read_text(given, encoding), Path(given)
    return given, None
