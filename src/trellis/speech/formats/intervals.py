"""Labelled intervals of time on one tier, and what every reader and writer does to them.

A *tier* is a sequence of :class:`Interval` in order of time that do not overlap. A tier may have gaps; a gap
and an interval with an empty label mean the same thing, so :func:`fill` turns the one into the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trellis.core.errors import DataError

Tier = tuple["Interval", ...]
SLACK = 1e-6  # seconds: what printing and adding times may lose; far below any sampling period
_LONGEST = 1e9  # seconds: thirty years
ROUNDED = 0.02  # seconds: overlaps caused by printing two decimals


@dataclass(frozen=True, slots=True)
class Interval:
    """``label`` from ``start`` to ``end``, in seconds from the beginning of the recording.

    Examples
    --------
    >>> from trellis.speech import Interval
    >>> Interval(0.25, 0.75, "a").label
    'a'
    """

    start: float
    end: float
    label: str

    @property
    def duration(self) -> float:
        return self.end - self.start


def check_tier(intervals: Iterable[Interval], tier: str, where: str = "") -> Tier:
    """The intervals as a tier, or a :class:`DataError` that names the first one out of order."""
    result = tuple(intervals)
    place = f"{where}: " if where else ""
    before = 0.0
    for number, interval in enumerate(result, 1):
        start, end = interval.start, interval.end
        named = f"{place}{tier} {number} ({interval.label!r}, {start:.6g} to {end:.6g} s)"
        if not (math.isfinite(start) and math.isfinite(end)):
            raise DataError(f"{named} has a time that is not a number; correct it")
        if max(abs(start), abs(end)) > _LONGEST:
            raise DataError(f"{named} lasts longer than any recording; correct it")
        if not start < end:
            raise DataError(f"{named} does not end after it starts; correct its times or delete it")
        if start < before - SLACK:
            what = "starts before the previous one ends" if number > 1 else "starts before 0 s"
            raise DataError(f"{named} {what} ({before:.6g} s); correct its times")
        before = end
    return result


def tidy(intervals: Sequence[Interval], overlap: float = SLACK) -> Tier:
    """Let each interval end where the next one starts if they overlap by at most ``overlap`` seconds.

    Formats that print rounded times, or a start and a duration, cause spurious overlaps. Gaps up to
    :data:`SLACK` are closed for the same reason. Wider overlaps are left for :func:`check_tier` to refuse.
    """
    result = list(intervals)
    for i in range(len(result) - 1):
        this, following = result[i], result[i + 1].start
        if -SLACK <= this.end - following <= overlap and this.end != following and this.start < following:
            result[i] = Interval(this.start, following, this.label)
    return tuple(result)


def fill(tier: Sequence[Interval], duration: float, label: str = "", shortest: float = SLACK) -> Tier:
    """The tier without gaps from 0 to ``duration``: each gap becomes an interval with ``label``.

    A gap shorter than ``shortest`` goes to the interval before it (at the beginning, to the one after it), so
    that no interval comes out that is too short to be aligned.
    """
    if not tier:
        return (Interval(0.0, duration, label),) if duration > 0 else ()
    result: list[Interval] = []
    first = tier[0]
    if first.start >= shortest:
        result.append(Interval(0.0, first.start, label))
    elif first.start != 0.0:
        first = Interval(0.0, first.end, first.label)
    for interval in (first, *tier[1:]):
        close_gap(result, interval.start, label, shortest)
        result.append(interval)
    close_gap(result, duration, label, shortest)
    return tuple(result)


def close_gap(result: list[Interval], until: float, label: str, shortest: float) -> None:
    """Bring the last interval of ``result`` up to ``until``, by a new interval if the gap is long enough."""
    if not result or result[-1].end >= until:
        return
    last = result[-1]
    if until - last.end >= shortest:
        result.append(Interval(last.end, until, label))
    else:
        result[-1] = Interval(last.start, until, last.label)


def truncate(tier: Sequence[Interval], duration: float) -> Tier:
    """The part of the tier within ``duration``: intervals that start later are dropped, others cut."""
    kept = (i for i in tier if i.start < duration)
    return tuple(i if i.end <= duration else Interval(i.start, duration, i.label) for i in kept)


def rename(tier: Sequence[Interval], name: Callable[[str], str], merge: str | None = None) -> Tier:
    """Labels mapped by ``name``; touching intervals whose new label is ``merge`` become one."""
    result: list[Interval] = []
    for interval in tier:
        label = name(interval.label)
        last = result[-1] if result else None
        if merge is not None and last and last.label == label == merge and interval.start - last.end <= SLACK:
            result[-1] = Interval(last.start, interval.end, label)
        else:
            result.append(Interval(interval.start, interval.end, label))
    return tuple(result)
