"""Undo and redo. Each step is kept as splices of the tiers (what was removed where, and what came instead),
so that an hour of speech with thousands of edits stays small, and a page need only be told what changed.

A *row* of a tier is ``(start, end, label, confidence)``, the confidence None where unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from trellis.core.errors import DataError
from trellis.speech.formats.alignment import Alignment
from trellis.speech.formats.intervals import Interval

Row = tuple[float, float, str, float | None]
Rows = list[Row]


@dataclass(frozen=True)
class Splice:
    """At row ``at``, the rows ``old`` made room for the rows ``new``."""

    at: int
    old: tuple[Row, ...]
    new: tuple[Row, ...]

    def forward(self, rows: Rows) -> Rows:
        return [*rows[: self.at], *self.new, *rows[self.at + len(self.old) :]]

    def inverse(self) -> Splice:
        return Splice(self.at, self.new, self.old)

    def to_json(self) -> dict[str, Any]:
        return {"at": self.at, "removed": len(self.old), "rows": list(self.new)}


@dataclass(frozen=True)
class Change:
    """What a step did to the phones and to the words."""

    phones: Splice
    words: Splice

    def inverse(self) -> Change:
        return Change(self.phones.inverse(), self.words.inverse())

    def to_json(self) -> dict[str, Any]:
        return {"phones": self.phones.to_json(), "words": self.words.to_json()}


def phone_rows(alignment: Alignment) -> Rows:
    sure = alignment.confidence or (math.nan,) * len(alignment.phones)
    return [
        (p.start, p.end, p.label, None if math.isnan(c) else c)
        for p, c in zip(alignment.phones, sure, strict=True)
    ]


def word_rows(alignment: Alignment) -> Rows:
    return [(w.start, w.end, w.label, None) for w in alignment.words]


def from_rows(phones: Rows, words: Rows, like: Alignment) -> Alignment:
    """An alignment with other tiers, and all else as in ``like``."""
    known = like.confidence is not None or any(row[3] is not None for row in phones)
    sure = tuple(math.nan if row[3] is None else row[3] for row in phones) if known else None
    return replace(
        like,
        phones=tuple(Interval(*row[:3]) for row in phones),
        words=tuple(Interval(*row[:3]) for row in words),
        confidence=sure,
        margins=None,
    )


def difference(old: Alignment, new: Alignment) -> Change:
    """The shortest splice of each tier that leads from one alignment to the other."""
    return Change(
        _splice(phone_rows(old), phone_rows(new)),
        _splice(word_rows(old), word_rows(new)),
    )


def _splice(old: Rows, new: Rows) -> Splice:
    shorter = min(len(old), len(new))
    before = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    room = shorter - before
    after = next((i for i in range(room) if old[-1 - i] != new[-1 - i]), room)
    return Splice(before, tuple(old[before : len(old) - after]), tuple(new[before : len(new) - after]))


class EditHistory:
    """The alignment now, and the way back and forth. A new step forgets what could be redone."""

    def __init__(self, base: Alignment) -> None:
        self.now = base
        self._done: list[Change] = []
        self._undone: list[Change] = []

    @property
    def n_done(self) -> int:
        return len(self._done)

    @property
    def n_undone(self) -> int:
        return len(self._undone)

    def step(self, new: Alignment) -> Change:
        change = difference(self.now, new)
        self.now = new
        self._done.append(change)
        self._undone.clear()
        return change

    def undo(self) -> Change:
        if not self._done:
            raise DataError("there is nothing to undo")
        change = self._done.pop()
        self._undone.append(change)
        return self._go(change.inverse())

    def redo(self) -> Change:
        if not self._undone:
            raise DataError("there is nothing to redo")
        change = self._undone.pop()
        self._done.append(change)
        return self._go(change)

    def _go(self, change: Change) -> Change:
        self.now = from_rows(
            change.phones.forward(phone_rows(self.now)), change.words.forward(word_rows(self.now)), self.now
        )
        return change
