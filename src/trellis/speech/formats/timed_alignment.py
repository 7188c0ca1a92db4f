"""An alignment: which phone and which word is spoken from when to when, how sure that is, and what is odd.

``phones`` and ``words`` are tiers (``timed_intervals``). ``confidence`` has one number from 0 to
1 per phone: how sure its *start* is; ``nan`` where nobody said. ``flags`` are sentences about what looks
wrong. Every file format reads into an ``Alignment`` and is written from one; what each can hold is in
``docs/speech-formats.md``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.timed_intervals import Interval, Tier, checked, fill, fit, rename
from trellis.speech.phones.silence import SILENCE, SILENCES, is_silence

__all__ = ["Alignment", "Interval"]


@dataclass(frozen=True)
class Alignment:
    """Phones and words of a recording of ``duration`` seconds (the end of the last one if not given)."""

    phones: Tier
    words: Tier = ()
    duration: float | None = None
    confidence: tuple[float, ...] | None = None
    flags: tuple[str, ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        phones = checked(self.phones, "phone", self.source)
        words = checked(self.words, "word", self.source)
        last = max((tier[-1].end for tier in (phones, words) if tier), default=0.0)
        duration = last if self.duration is None else float(self.duration)
        place = f"{self.source}: " if self.source else ""
        if not math.isfinite(duration) or duration < last - 1e-3:
            raise DataError(
                f"{place}the last interval ends at {last:.6g} s, after the end at {duration:.6g} s; "
                "give the length of the right recording"
            )
        confidence = self.confidence
        if confidence is not None:
            confidence = tuple(float(c) for c in confidence)
            if len(confidence) != len(phones):
                raise DataError(
                    f"{place}{len(confidence)} confidences for {len(phones)} phones; give one per phone"
                )
        for name, value in (
            ("phones", phones),
            ("words", words),
            ("duration", max(duration, last)),
            ("confidence", confidence),
            ("flags", tuple(self.flags)),
        ):
            object.__setattr__(self, name, value)

    @classmethod
    def from_starts(
        cls, starts: Iterable[float], labels: Iterable[str], duration: float, **more: Any
    ) -> Alignment:
        """Phones without gaps: ``labels[k]`` from ``starts[k]`` to ``starts[k + 1]``, the last to the end."""
        times = [*map(float, starts), float(duration)]
        names = list(labels)
        if len(times) != len(names) + 1:
            raise DataError(f"{len(times) - 1} start times for {len(names)} labels; give one per label")
        phones = tuple(Interval(times[k], times[k + 1], name) for k, name in enumerate(names))
        return cls(phones=phones, duration=duration, **more)

    @property
    def labels(self) -> tuple[str, ...]:
        """The phones without their times."""
        return tuple(interval.label for interval in self.phones)

    @property
    def starts(self) -> FloatArray:
        """The start of each phone in seconds."""
        return np.array([interval.start for interval in self.phones], dtype=np.float64)

    def tier(self, name: str) -> Tier:
        """The tier called ``"phones"`` or ``"words"``."""
        if name not in ("phones", "words"):
            raise DataError(f"an alignment has the tiers phones and words, not {name!r}")
        tier: Tier = getattr(self, name)
        return tier

    def filled(self, label: str = "", shortest: float = 0.0) -> Alignment:
        """Both tiers without gaps from 0 to the end (:func:`trellis.speech.formats.timed_intervals.fill`).

        The confidence of a silence that was put in is ``nan``. A tier without intervals stays empty.
        """
        length = float(self.duration or 0.0)
        shortest = max(shortest, 1e-6)
        phones = fill(self.phones, length, label, shortest) if self.phones else ()
        words = fill(self.words, length, label, shortest) if self.words else ()
        confidence = self.confidence
        if confidence is not None and len(phones) != len(confidence):
            given = iter(zip(self.phones, confidence, strict=True))
            phone, sure = next(given)
            result = []
            for p in phones:
                kept = p.start <= phone.start < p.end
                result.append(sure if kept else math.nan)
                if kept:
                    phone, sure = next(given, (phone, sure))
            confidence = tuple(result)
        return replace(self, phones=phones, words=words, confidence=confidence)

    def fitted(self, duration: float) -> Alignment:
        """Cut to ``duration`` seconds, which becomes the length; later intervals are dropped."""
        phones = fit(self.phones, duration)
        confidence = None if self.confidence is None else self.confidence[: len(phones)]
        return replace(
            self, phones=phones, words=fit(self.words, duration), duration=duration, confidence=confidence
        )

    def with_silence(self, silences: Collection[str] = SILENCES, name: str = SILENCE) -> Alignment:
        """Every label among ``silences`` becomes ``name``; neighbouring silences become one phone."""
        phones = rename(self.phones, lambda p: name if is_silence(p, silences) else p, merge=name)
        confidence = self.confidence
        if confidence is not None and len(phones) != len(confidence):
            by_start = {p.start: c for p, c in zip(self.phones, confidence, strict=True)}
            confidence = tuple(by_start[p.start] for p in phones)
        return replace(self, phones=phones, confidence=confidence)

    @classmethod
    def read(cls, path: PathLike, format: str | None = None, **options: Any) -> Alignment:
        """Read a file; the format is that of its suffix unless named (``trellis.speech.formats.FORMATS``)."""
        from trellis.speech.formats import read_alignment

        return read_alignment(path, format, **options)

    def write(self, path: PathLike, format: str | None = None, **options: Any) -> None:
        """Write a file; the format is that of its suffix unless named."""
        from trellis.speech.formats import write_alignment

        write_alignment(self, path, format, **options)

    def to_textgrid(self, path: PathLike, **options: Any) -> None:
        """Praat TextGrid with the tiers words and phones."""
        self.write(path, "textgrid", **options)

    def to_elan(self, path: PathLike) -> None:
        """ELAN annotations with the tiers words and phones, in whole milliseconds."""
        self.write(path, "elan")

    def to_json(self, path: PathLike) -> None:
        """JSON that holds everything (the format ``trellis-alignment``)."""
        self.write(path, "json")

    def to_csv(self, path: PathLike) -> None:
        """A table with the columns tier, start, end, label, confidence."""
        self.write(path, "csv")

    def to_ctm(self, path: PathLike, **options: Any) -> None:
        """NIST CTM of one tier."""
        self.write(path, "ctm", **options)

    def to_lab(self, path: PathLike, **options: Any) -> None:
        """HTK labels of one tier, in units of 100 ns."""
        self.write(path, "lab", **options)

    def to_phn(self, path: PathLike, **options: Any) -> None:
        """TIMIT labels of one tier, in samples."""
        self.write(path, "phn", **options)

    def to_audacity(self, path: PathLike, **options: Any) -> None:
        """An Audacity label track of one tier."""
        self.write(path, "audacity", **options)
