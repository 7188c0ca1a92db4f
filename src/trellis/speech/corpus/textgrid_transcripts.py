"""Transcripts in TextGrids: utterances by speaker, as the Montreal aligner takes them, or words or phones.

==================================  =========================================================================
tiers                               what they say
==================================  =========================================================================
``words``, ``anna - words``         the words of a speaker. Their times are kept on request: phones are then
                                    aligned within each word; otherwise only those of pauses between speakers
any other name                      the utterances of the speaker of that name: each interval with text is
                                    aligned within its times
``phones``, ``anna - phones``       phones, where there is nothing else
==================================  =========================================================================

Intervals that are empty or mean silence or noise say nothing; point tiers are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.corpus.dictionary import split_words
from trellis.speech.corpus.transcripts import Piece, Transcript
from trellis.speech.formats.intervals import Interval, Tier
from trellis.speech.formats.textgrid import read_textgrid_tiers, split_speaker
from trellis.speech.phones.noise import is_noise
from trellis.speech.phones.silence import is_silence

PAUSE = 0.5  # seconds without a word that end an utterance of a tier of words
MARGIN = 0.25  # seconds before and after its words that belong to it, at most


def read_textgrid_transcript(
    path: PathLike,
    tiers: Sequence[str] | None = None,
    keep_words: bool = False,
    encoding: str | None = None,
) -> Transcript:
    """The transcript in a TextGrid; ``tiers`` names those to read, all of them unless given."""
    grid = read_textgrid_tiers(path, encoding)
    shown, known = os.fspath(path), ", ".join(map(repr, grid.tiers)) or "none"
    absent = [name for name in tiers or () if name not in grid.tiers]
    if absent:
        raise DataError(f"{shown}: there is no tier {absent[0]!r}; the interval tiers are {known}")
    by_content: dict[str, dict[str, Tier]] = {"words": {}, "": {}, "phones": {}}
    for name in tiers if tiers is not None else grid.tiers:
        speaker, what = split_speaker(name)
        spoken = tuple(i for i in grid.tiers[name] if _says_something(i.label, what))
        if spoken and speaker not in by_content[what]:
            by_content[what][speaker] = spoken
    content = next((what for what, found in by_content.items() if found), None)
    if content is None:
        raise DataError(f"{shown}: the interval tiers ({known}) contain no text; transcribe the recording")
    if keep_words and content != "words":
        raise DataError(
            f"{shown}: there is no tier of words whose times could be kept; the interval tiers are {known}"
        )
    return _transcript(by_content[content], content, keep_words, Path(path))


def _transcript(speakers: dict[str, Tier], content: str, keep_words: bool, path: Path) -> Transcript:
    if content == "":
        return Transcript(path=path, pieces=_in_order(_utterances(speakers)))
    if content == "words" and keep_words:
        return Transcript(path=path, pieces=_in_order(_timed_words(speakers)))
    if list(speakers) == [""]:
        labels = _labels(speakers[""], content)
        return Transcript(**{content: labels}, path=path)  # type: ignore[arg-type]
    pieces = (
        Piece(begin, end, speaker, **{content: _labels(run, content)})  # type: ignore[arg-type]
        for speaker, tier in speakers.items()
        for begin, end, run in _runs(tier)
    )
    return Transcript(path=path, pieces=_in_order(pieces))


def _utterances(speakers: dict[str, Tier]) -> Iterable[Piece]:
    for speaker, tier in speakers.items():
        for i in tier:
            yield Piece(i.start, i.end, speaker, words=tuple(split_words(i.label)))


def _timed_words(speakers: dict[str, Tier]) -> Iterable[Piece]:
    for speaker, tier in speakers.items():
        for i in tier:
            yield Piece(i.start, i.end, speaker, words=tuple(split_words(i.label)), exact=True)


def _runs(tier: Tier) -> Iterable[tuple[float, float, Tier]]:
    """The utterances that pauses divide a tier into, with some of the pauses on either side."""
    first, ends = 0, [*(k for k in range(1, len(tier)) if _gap(tier, k) >= PAUSE), len(tier)]
    for last in ends:
        before = _gap(tier, first) / 2 if first else tier[0].start
        after = _gap(tier, last) / 2 if last < len(tier) else MARGIN
        yield (
            tier[first].start - min(before, MARGIN),
            tier[last - 1].end + min(after, MARGIN),
            tier[first:last],
        )
        first = last


def _gap(tier: Tier, k: int) -> float:
    return tier[k].start - tier[k - 1].end


def _labels(tier: Sequence[Interval], content: str) -> tuple[str, ...]:
    if content == "phones":
        return tuple(i.label.strip() for i in tier)
    return tuple(word for i in tier for word in split_words(i.label))


def _says_something(text: str, content: str) -> bool:
    if content == "phones":
        return not is_silence(text)
    return not (is_silence(text) or is_noise(text)) and bool(split_words(text))


def _in_order(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    return tuple(sorted(pieces, key=lambda piece: (piece.begin, piece.speaker)))
