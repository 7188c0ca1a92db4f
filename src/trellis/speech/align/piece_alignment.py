"""Recordings whose transcript is in pieces: utterances with times and speakers, or words that keep theirs.

Each piece is aligned within its times, and the results are put together by speaker; where nobody speaks
there are gaps. The frames of an utterance are normalised by itself, as those of a recording are in training;
words whose times are kept are cut from the frames of the whole recording, because a word alone is too short
to say what is loud.

A piece that cannot be aligned (too short for its words, say) is left out and flagged; the rest is not lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trellis.core.errors import DataError, InfeasibleError
from trellis.core.storage import PathLike
from trellis.speech.audio.front_end import FramedRecording
from trellis.speech.audio.recordings import audio_info
from trellis.speech.corpus.transcripts import Piece
from trellis.speech.corpus.unknown_words import unknown_flags
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.conversation import Conversation
from trellis.speech.formats.intervals import Interval, Tier

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner

_TIME = re.compile(r"\d s\b")
MAX_EXCESS = 0.1  # seconds by which a piece may end after its recording


def align_pieces(
    aligner: Aligner,
    audio: PathLike,
    pieces: Sequence[Piece],
    *,
    channel: int | None = None,
    **options: Any,
) -> Conversation:
    """Align every piece; ``options`` are those of ``Aligner.align``."""
    duration = audio_info(audio).duration
    last = max(piece.end for piece in pieces)
    if last > duration + MAX_EXCESS:
        raise DataError(
            f"{audio}: the transcript ends at {last:.3f} s, but the recording at {duration:.3f} s; pair it "
            "with the right recording"
        )
    frames = aligner.framed(audio, channel) if any(piece.exact for piece in pieces) else None
    found: dict[str, list[Alignment]] = {piece.speaker: [] for piece in pieces}
    flags: list[str] = []
    problems: list[str] = []
    for piece in pieces:
        where = f"{piece.speaker + ', ' if piece.speaker else ''}{piece.begin:.2f} to {piece.end:.2f} s"
        try:
            part = _align_piece(aligner, audio, piece, min(piece.end, duration), frames, channel, options)
        except (DataError, InfeasibleError) as error:
            problems.append(f"{where}: not aligned, {str(error).removeprefix(f'{audio}: ')}")
            continue
        found[piece.speaker].append(part)
        flags += [f"{where}: {flag}" for flag in part.flags]
    if problems and not any(found.values()):
        raise DataError(f"{audio}: none of {len(pieces)} utterances could be aligned ({problems[0]})")
    speakers = {
        speaker: _together(parts, duration, f"{audio} ({speaker})" if speaker else str(audio))
        for speaker, parts in found.items()
        if parts
    }
    return Conversation(speakers, duration, (*problems, *flags), str(audio))


def _align_piece(
    aligner: Aligner,
    audio: PathLike,
    piece: Piece,
    end: float,
    frames: FramedRecording | None,
    channel: int | None,
    options: dict[str, Any],
) -> Alignment:
    said: dict[str, Any] = {"phones": piece.phones, "words": piece.words}
    if piece.words is None:
        options = {**options, "dictionary": None}
    begin = piece.begin
    if piece.exact and frames is not None:
        step = frames.duration / len(frames.features)
        first, last = round(piece.begin / step), round(end / step)
        cut = FramedRecording(frames.features[first:last], (last - first) * step, ())
        part = aligner.align(cut, **said, **{**options, "silence": "none"})
        begin = first * step
    else:
        part = aligner.align(aligner.framed(audio, channel, piece.begin, end), **said, **options)

    def move(tier: Tier) -> Tier:
        """The tier at its place; what begins or ends with the piece does so to the last digit."""
        final = float(part.duration or 0.0) - 1e-9
        return tuple(
            Interval(
                piece.begin if i.start <= 0.0 else i.start + begin,
                end if i.end >= final else i.end + begin,
                i.label,
            )
            for i in tier
        )

    moved = replace(part, phones=move(part.phones), words=move(part.words), duration=end)
    return replace(moved, flags=_moved_flags(part, moved, piece, options))


def _moved_flags(part: Alignment, moved: Alignment, piece: Piece, options: dict[str, Any]) -> tuple[str, ...]:
    """Unknown words with their times in the recording; other flags say that theirs are those in the piece."""
    dictionary, unknown = options.get("dictionary"), options.get("unknown", "noise")
    here: list[str] = []
    there: list[str] = []
    if piece.words is not None and dictionary is not None:
        here = unknown_flags(piece.words, part.words, dictionary, unknown)
        there = unknown_flags(piece.words, moved.words, dictionary, unknown)
    others = [flag for flag in part.flags if flag not in here]
    return (*(f"{flag} (times in the utterance)" if _TIME.search(flag) else flag for flag in others), *there)


def _together(parts: Iterable[Alignment], duration: float, source: str) -> Alignment:
    """The pieces of one speaker as one alignment."""
    all_parts = list(parts)
    known = all(part.confidence is not None for part in all_parts)
    counts = [len(part.phones) for part in all_parts]
    scores = [part.score for part in all_parts if part.score is not None]
    weighted = sum(s * n for s, n in zip(scores, counts, strict=True)) if len(scores) == len(counts) else None
    return Alignment(
        tuple(phone for part in all_parts for phone in part.phones),
        tuple(word for part in all_parts for word in part.words),
        duration,
        tuple(c for part in all_parts for c in part.confidence or ()) if known else None,
        tuple(dict.fromkeys(flag for part in all_parts for flag in part.flags)),
        source,
        None if weighted is None else weighted / sum(counts),
    )
