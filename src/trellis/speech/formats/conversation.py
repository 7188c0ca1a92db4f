"""The alignments of several speakers in one recording, who may talk at the same time.

As a TextGrid they are one file, with tiers "speaker - words" and "speaker - phones" of each, as the Montreal
aligner names them. Other formats hold one speaker per file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Tier
from trellis.speech.formats.textgrid import (
    TextGrid,
    read_textgrid_tiers,
    split_speaker,
    write_textgrid_tiers,
)


@dataclass(frozen=True)
class Conversation:
    """``speakers``: the alignment of each, as long as the recording. A speaker without a name is ``""``."""

    speakers: Mapping[str, Alignment]
    duration: float
    flags: tuple[str, ...] = ()
    source: str = ""

    def to_textgrid(self, path: PathLike, short: bool = False, encoding: str = "utf-8") -> None:
        """One TextGrid with the tiers of all speakers."""
        tiers: list[tuple[str, Tier]] = []
        for speaker, alignment in self.speakers.items():
            if alignment.words:
                tiers.append((tier_name(speaker, "words"), alignment.words))
            tiers.append((tier_name(speaker, "phones"), alignment.phones))
        write_textgrid_tiers(tiers, self.duration, path, short, encoding)


def tier_name(speaker: str, what: str) -> str:
    return f"{speaker} - {what}" if speaker else what


def read_conversation(path: PathLike, encoding: str | None = None) -> Conversation:
    """The speakers of a TextGrid whose tiers of phones are called "speaker - phones"."""
    grid = read_textgrid_tiers(path, encoding)
    speakers = {
        speaker: Alignment(
            tier, _words(grid, speaker), grid.duration, source=f"{path} ({speaker})" if speaker else str(path)
        )
        for (speaker, what), tier in _by_speaker(grid).items()
        if what == "phones"
    }
    if not speakers:
        known = ", ".join(map(repr, grid.tiers)) or "none"
        raise DataError(f"{path}: no tier 'speaker - phones'; the interval tiers are {known}")
    return Conversation(speakers, grid.duration, source=str(path))


def _words(grid: TextGrid, speaker: str) -> Tier:
    return _by_speaker(grid).get((speaker, "words"), ())


def _by_speaker(grid: TextGrid) -> dict[tuple[str, str], Tier]:
    found: dict[tuple[str, str], Tier] = {}
    for name, tier in grid.tiers.items():
        found.setdefault(split_speaker(name), tier)
    return found
