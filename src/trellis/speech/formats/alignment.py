"""Alignments: from when to when each phone and word is spoken, how sure that is, and what looks wrong.

``phones`` and ``words`` are tiers (``intervals``). ``confidence`` has one number from 0 to 1 per phone:
how sure its *start* is; ``nan`` where unknown. ``flags`` are sentences about what looks wrong. An aligner
also gives the ``score`` per phone, ``match``, the probability that the transcript is what was said, and, on
request, ``margins``: by how many nats the best path whose boundary lies elsewhere is worse. Every file format
reads into an ``Alignment`` and is written from one; what each can hold is in ``docs/speech-formats.md``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.storage import PathLike
from trellis.speech.formats.intervals import SLACK, Interval, Tier, check_tier, fill, rename, tidy, truncate
from trellis.speech.phones.silence import SILENCE, SILENCES, is_silence

__all__ = ["Alignment", "Interval"]


@dataclass(frozen=True)
class Alignment:
    """Phones and words of a recording of ``duration`` seconds (the end of the last one if not given).

    Examples
    --------
    >>> from trellis.speech import Alignment, Interval
    >>> alignment = Alignment(phones=(Interval(0.08, 0.17, "h"), Interval(0.17, 0.42, "aɪ")), duration=0.5)
    >>> alignment.write("hi.json")
    >>> Alignment.read("hi.json").phones == alignment.phones
    True
    """

    phones: Tier
    words: Tier = ()
    duration: float | None = None
    confidence: tuple[float, ...] | None = None
    flags: tuple[str, ...] = ()
    source: str = ""
    score: float | None = None
    margins: tuple[float, ...] | None = None
    match: float | None = None

    def __post_init__(self) -> None:
        phones = check_tier(self.phones, "phone", self.source)
        words = check_tier(self.words, "word", self.source)
        last = max((tier[-1].end for tier in (phones, words) if tier), default=0.0)
        place = f"{self.source}: " if self.source else ""
        if not isinstance(self.duration, Real | None):
            raise DataError(f"{place}the duration is {self.duration!r}; give a number of seconds")
        duration = last if self.duration is None else float(self.duration)
        if not math.isfinite(duration) or duration < last - 1e-3:
            raise DataError(
                f"{place}the last interval ends at {last:.6g} s, after the end at {duration:.6g} s; "
                "give the length of the right recording"
            )
        if self.match is not None and not 0.0 <= self.match <= 1.0:
            raise DataError(f"{place}match is {self.match!r}; give a probability from 0 to 1")
        values = {"phones": phones, "words": words, "duration": max(duration, last)}
        for name in ("confidence", "margins"):
            given = getattr(self, name)
            if given is not None and len(given) != len(phones):
                raise DataError(f"{place}{name}: {len(given)} values for {len(phones)} phones; give one each")
            values[name] = None if given is None else tuple(map(float, given))
        for name, value in {**values, "flags": tuple(self.flags)}.items():
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

    def _repr_html_(self) -> str:
        from trellis.speech.formats.notebook_tiers import alignment_html

        return alignment_html(self)

    def filled(self, label: str = "", shortest: float = 0.0) -> Alignment:
        """Both tiers without gaps from 0 to the end (:func:`trellis.speech.formats.intervals.fill`).

        The confidence of an inserted silence is ``nan``. A tier without intervals stays empty.
        """
        length = float(self.duration or 0.0)
        shortest = max(shortest, 1e-6)
        phones = fill(self.phones, length, label, shortest) if self.phones else ()
        words = fill(self.words, length, label, shortest) if self.words else ()
        return self._with(phones, words=words)

    def truncate(self, duration: float) -> Alignment:
        """Cut to ``duration`` seconds, which becomes the length; later intervals are dropped."""
        return self._with(
            truncate(self.phones, duration), words=truncate(self.words, duration), duration=duration
        )

    def normalise_silence(self, silences: Collection[str] = SILENCES, name: str = SILENCE) -> Alignment:
        """Every label among ``silences`` becomes ``name``; neighbouring silences become one phone."""
        return self._with(rename(self.phones, lambda p: name if is_silence(p, silences) else p, merge=name))

    def _with(self, phones: Tier, **changes: Any) -> Alignment:
        """Other phones, each with the confidence and margin of the first old phone that starts within it
        (``nan`` if there is none)."""
        first = np.searchsorted(self.starts, [p.start for p in phones])
        starts = np.append(self.starts, np.inf)[first]

        def carry(values: tuple[float, ...] | None) -> tuple[float, ...] | None:
            if values is None:
                return None
            kept = zip(first, starts, phones, strict=True)
            return tuple(values[i] if start < p.end else math.nan for i, start, p in kept)

        return replace(
            self, phones=phones, confidence=carry(self.confidence), margins=carry(self.margins), **changes
        )

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


def one_tier(
    intervals: Sequence[Interval], tier: str, duration: float | None, source: str, overlap: float = SLACK
) -> Alignment:
    """An alignment of a file that holds one tier, ``"phones"`` or ``"words"``."""
    if tier not in ("phones", "words"):
        raise DataError(f"an alignment has the tiers phones and words, not {tier!r}")
    made = check_tier(tidy(intervals, overlap), tier[:-1], source)
    phones, words = (made, ()) if tier == "phones" else ((), made)
    return Alignment(phones, words, duration, source=source)
