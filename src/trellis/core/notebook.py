"""What objects show of themselves in a notebook: escaped text and small inline pictures (SVG), no scripts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from trellis.core.stage_times import duration, stages_in_words

INK, DIM, LINE = "#30343b", "#616e7c", "#2563a8"
MOST_CURVES = 4  # pictures of a history beside one another
_SKIPPED = ("seconds", "evaluations")  # they only count up
_WIDTH, _HEIGHT = 150, 64

Point = tuple[float, float]


def text(x: float, y: float, words: object, *, anchor: str = "middle", colour: str = INK) -> str:
    """Words at a place of a picture."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="11" '
        f'font-family="sans-serif">{escape(str(words))}</text>'
    )


def polyline(points: Iterable[Point], colour: str = LINE, width: float = 1.5) -> str:
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>'


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """An inline picture; ``title`` is what a screen reader says."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'style="background:#ffffff"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def estimator_html(
    diagram: str,
    status: object,
    history: Mapping[str, Sequence[float]],
    seconds: Mapping[str, float] | None = None,
) -> str:
    """A diagram, why training stopped, what its stages took, and a curve for each thing that was measured on
    the way."""
    words = "" if status is None else f"<p>{escape(str(status))}</p>"
    if seconds:
        words += f"<p>fit took {duration(sum(seconds.values()))}: {escape(stages_in_words(seconds))}</p>"
    curves = [
        curve
        for name, values in history.items()
        if name not in _SKIPPED and (curve := history_curve(name, values))
    ]
    return f"<div>{diagram}{words}<div>{''.join(curves[:MOST_CURVES])}</div></div>"


def history_curve(name: str, values: Sequence[float]) -> str:
    """The numbers of each iteration as a line, with the first and the last; "" unless two are finite."""
    known = [(i, float(v)) for i, v in enumerate(values) if v is not None and math.isfinite(v)]
    if len(known) < 2:
        return ""
    largest = max(abs(v) for _, v in known) or 1.0  # by which numbers are divided first: a range may overflow
    shares = [v / largest for _, v in known]
    low, high = min(shares), max(shares)
    across, up = (_WIDTH - 12) / known[-1][0], 30 / ((high - low) or 1.0)
    line = polyline((6 + across * i, 48 - up * (v - low)) for (i, _), v in zip(known, shares, strict=True))
    first, last = (f"{v:.4g}" for v in (known[0][1], known[-1][1]))
    return picture(
        _WIDTH,
        _HEIGHT,
        f"{name}: from {first} to {last} in {len(values)} iterations",
        [
            text(6, 12, name, anchor="start"),
            line,
            text(6, 61, first, anchor="start", colour=DIM),
            text(_WIDTH - 6, 61, last, anchor="end", colour=DIM),
        ],
    )
