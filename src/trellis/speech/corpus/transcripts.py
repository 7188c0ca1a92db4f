"""Transcripts of recordings: given once for all of them, or in a file of the same name.

========== ================================================================================================
``.phones`` phones, separated by blanks
``.txt``    ordinary text; punctuation is ignored
``.lab``    words, as the Montreal Forced Aligner has them; with HTK times in it, the labels are phones
``.TextGrid`` utterances by speaker, words or phones (:mod:`trellis.speech.corpus.textgrid_transcripts`)
========== ================================================================================================

Where a recording has several, words are preferred if there is a dictionary to look them up in, else phones;
and what was written for the recording (``.txt``, ``.lab``, ``.phones``) to TextGrids, which may be results.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trellis.core.errors import DataError
from trellis.speech.corpus.dictionary import split_words
from trellis.speech.formats.label_lines import read_lab
from trellis.speech.formats.text_files import read_text

_WORDS, _PHONES = (".txt", ".lab"), (".phones",)
_TEXTGRIDS = (".TextGrid", ".textgrid", ".TEXTGRID")
_TIMED = re.compile(r"\s*\d+\s+\d+\s+\S")


@dataclass(frozen=True)
class Piece:
    """What ``speaker`` says from ``begin`` to ``end`` (seconds). ``exact``: nothing but that, no silence."""

    begin: float
    end: float
    speaker: str = ""
    phones: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None
    exact: bool = False


@dataclass(frozen=True)
class Transcript:
    """Either ``phones`` or ``words`` of the whole recording, or ``pieces`` of it by time and speaker, and the
    file that they come from."""

    phones: tuple[str, ...] | None = None
    words: tuple[str, ...] | None = None
    path: Path | None = None
    pieces: tuple[Piece, ...] = ()

    @property
    def speakers(self) -> tuple[str, ...]:
        """Those of the pieces, in order of appearance."""
        return tuple(dict.fromkeys(piece.speaker for piece in self.pieces))

    @property
    def all_words(self) -> tuple[str, ...]:
        return (*(self.words or ()), *(word for piece in self.pieces for word in piece.words or ()))

    @property
    def all_phones(self) -> tuple[str, ...]:
        return (*(self.phones or ()), *(phone for piece in self.pieces for phone in piece.phones or ()))

    def __post_init__(self) -> None:
        if not (self.phones or self.words or self.pieces):
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


def find_transcript(
    base: Path,
    dictionary: bool,
    encoding: str | None = None,
    tiers: Sequence[str] | None = None,
    keep_words: bool = False,
) -> Transcript:
    """The transcript ``base.phones``, ``base.txt``, ``base.lab`` or ``base.TextGrid``; words need a
    ``dictionary``. ``tiers`` and ``keep_words`` are those of TextGrids, which then come first."""
    order: tuple[str, ...] = (
        (*_WORDS, *_TEXTGRIDS, *_PHONES) if dictionary else (*_PHONES, *_TEXTGRIDS, *_WORDS)
    )
    if tiers is not None or keep_words:
        order = _TEXTGRIDS
    path = next((p for p in (base.with_name(base.name + suffix) for suffix in order) if p.is_file()), None)
    if path is None:
        named = ", ".join(suffix for suffix in order if suffix not in _TEXTGRIDS[1:])
        raise DataError(f"{base}: no transcript of this name ({named}); write one, or give it")
    if path.suffix in _TEXTGRIDS:
        from trellis.speech.corpus.textgrid_transcripts import read_textgrid_transcript

        found = read_textgrid_transcript(path, tiers, keep_words, encoding)
        if found.all_words and not dictionary:
            raise DataError(f"{path}: these are words; give a dictionary, or a file {base.name}.phones")
        return found
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
