"""TextGrids beside recordings: read as corrected alignments, written with the tiers that they had.

The *dress* of a TextGrid is what an alignment does not hold: the names of its tiers and the interval tiers
that are neither phones nor words, which are written back unchanged. Point tiers and Praat's short form are
not kept; the copy of the first TextGrid (:meth:`trellis.studio.folder.Folder.keep`) has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trellis.core.errors import DataError
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval, Tier, truncate
from trellis.speech.formats.textgrid import (
    alignment_tiers,
    choose_tiers,
    read_textgrid_tiers,
    textgrid_text,
)
from trellis.studio.edits import gapless

_MAX_EXCESS = 0.1  # seconds by which labels may end after their recording


@dataclass(frozen=True)
class Dress:
    """The names of the tiers, and the tiers that are only kept."""

    phones: str = "phones"
    words: str = "words"
    others: Mapping[str, Tier] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        others = {name: [(i.start, i.end, i.label) for i in tier] for name, tier in self.others.items()}
        return {"phones": self.phones, "words": self.words, "others": others}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Dress:
        others = {name: tuple(Interval(*row) for row in tier) for name, tier in content["others"].items()}
        return cls(str(content["phones"]), str(content["words"]), others)


def read_saved(path: Path, duration: float) -> tuple[Alignment, Dress]:
    """The alignment in a TextGrid for a recording of ``duration`` seconds, and its dress."""
    grid = read_textgrid_tiers(path)
    phones, words = choose_tiers(str(path), grid.tiers, None, None)
    names = {id(tier): name for name, tier in grid.tiers.items()}
    last = max((i.end for i in (*phones, *words) if i.label.strip()), default=0.0)
    if not last or any(" " in i.label.strip() for i in phones):
        raise DataError(f"{path}: its tier {names[id(phones)]!r} does not hold phones")
    if last > duration + _MAX_EXCESS:
        raise DataError(f"{path}: the last label ends at {last:.3f} s, the recording at {duration:.3f} s")
    taken = {names[id(phones)], names.get(id(words), "words")}
    others = {name: truncate(tier, duration) for name, tier in grid.tiers.items() if name not in taken}
    dress = Dress(names[id(phones)], names.get(id(words), "words"), others)
    found = Alignment(truncate(phones, duration), truncate(words, duration), duration)
    return gapless(replace(found, source=str(path))), dress


def render(alignment: Alignment, dress: Dress) -> bytes:
    """The content of the TextGrid, in UTF-8."""
    tiers = [*alignment_tiers(alignment, dress.phones, dress.words), *dress.others.items()]
    return textgrid_text(tiers, float(alignment.duration or 0.0)).encode()
