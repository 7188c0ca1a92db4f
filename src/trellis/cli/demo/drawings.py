"""Pictures of the demonstration's page as SVG text. Colours are classes of the page, for light and dark."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np

WIDTH = 760.0
_LEFT = 210.0  # the column of names


class Row(NamedTuple):
    """A bar with its interval."""

    name: str
    value: float
    low: float
    high: float
    marked: bool = False


def _svg(height: float, content: Sequence[str], label: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH:g} {height:g}" role="img" aria-label="{escape(label)}">'
        + "".join(content)
        + "</svg>"
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" class="{kind}"/>'
    )


def _dot(x: float, y: float, kind: str, radius: float = 2.5) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" class="{kind}"/>'


def bars(groups: Sequence[tuple[str, Sequence[Row]]], label: str, *, percent: bool = False) -> str:
    """Groups of horizontal bars with intervals."""
    most = max(row.high for _, rows in groups for row in rows)
    scale = (WIDTH - _LEFT - 70.0) / most
    out, y = [], 8.0
    for name, rows in groups:
        out.append(_text(0.0, y + 14.0, name, "head"))
        y += 22.0
        for row in rows:
            kind = "good" if row.marked else "plain"
            out.append(_text(_LEFT - 10.0, y + 14.0, row.name, "", "end"))
            out.append(_box(_LEFT, y + 2.0, row.value * scale, 15.0, kind))
            if row.high > row.low:
                out.append(_line(_LEFT + row.low * scale, y + 9.5, _LEFT + row.high * scale, y + 9.5, "ink"))
            shown = f"{100 * row.value:.1f} %" if percent else f"{row.value:.1f}"
            out.append(_text(_LEFT + row.high * scale + 8.0, y + 14.0, shown, "dim"))
            y += 22.0
        y += 10.0
    return _svg(y, out, label)


def beat_strip(readings: np.ndarray, strips: dict[str, list[str]], marked: str) -> str:
    """Two readings as dots over a row of cells for every labelling."""
    n = len(readings)
    step = (WIDTH - _LEFT) / n
    low, high, top = -3.0, 4.0, 120.0
    out = [_box(_LEFT, 4.0, WIDTH - _LEFT, top, "frame"), _text(_LEFT - 10.0, 66.0, "readings", "", "end")]
    for t, pair in enumerate(np.clip(readings, low, high)):
        for kind, value in zip(("first", "second"), pair, strict=True):
            y = 4.0 + top * (high - float(value)) / (high - low)
            out.append(_dot(_LEFT + (t + 0.5) * step, y, kind, 3.0))
    return _svg(*_cells(out, strips, top + 14.0, step, {marked: "bad"}), "one recording")


def _cells(
    out: list[str], strips: dict[str, list[str]], y: float, step: float, kinds: dict[str, str]
) -> tuple[float, list[str]]:
    for name, labels in strips.items():
        out.append(_text(_LEFT - 10.0, y + 13.0, name, "", "end"))
        for t, label in enumerate(labels):
            out.append(_box(_LEFT + t * step, y, step * 0.96, 17.0, kinds.get(label, "frame")))
        y += 23.0
    return y, out


def state_strip(signal: np.ndarray, strips: dict[str, list[str]], kinds: dict[str, str]) -> str:
    """A signal as a line, broken where values are missing, over a row of cells for every labelling."""
    n = len(signal)
    step, top = (WIDTH - _LEFT) / n, 110.0
    low, high = float(np.nanmin(signal)), float(np.nanmax(signal))
    out = [_box(_LEFT, 4.0, WIDTH - _LEFT, top, "frame"), _text(_LEFT - 10.0, 62.0, "heart rate", "", "end")]
    path, pen = [], "M"
    for t, value in enumerate(signal):
        if np.isnan(value):
            pen = "M"
            continue
        y = 8.0 + (top - 8.0) * (high - float(value)) / (high - low)
        path.append(f"{pen}{_LEFT + (t + 0.5) * step:.1f} {y:.1f}")
        pen = "L"
    out.append(f'<path d="{"".join(path)}" class="wave"/>')
    return _svg(*_cells(out, strips, top + 14.0, step, kinds), "one night")


def certificates(primal: Sequence[float], dual: Sequence[float], smallest: float = 1e-6) -> str:
    """How far both certificates are above the last value, in powers of ten."""
    limit = primal[-1]
    above = [(float(i), p - limit, "first") for i, p in enumerate(primal[:-1])]
    above += [(i + 0.5, d - limit, "second") for i, d in enumerate(dual)]
    floor = smallest * max(value for _, value, _ in above)
    shown = [(x, math.log10(value), kind) for x, value, kind in above if value > floor]
    last = max(x for x, _, _ in shown) or 1.0
    top, low = max(v for _, v, _ in shown), math.log10(floor)
    height = 200.0
    out = [_box(_LEFT, 4.0, WIDTH - _LEFT, height, "frame")]
    for power in range(math.ceil(low), math.floor(top) + 1, max(1, int((top - low) // 4))):
        y = 10.0 + (height - 14.0) * (top - power) / (top - low)
        out += [
            _line(_LEFT, y, WIDTH, y, "grid"),
            _text(_LEFT - 10.0, y + 4.0, f"{10.0**power:g}", "dim", "end"),
        ]
    for x, value, kind in shown:
        y = 10.0 + (height - 14.0) * (top - value) / (top - low)
        out.append(_dot(_LEFT + 10.0 + (WIDTH - _LEFT - 20.0) * x / last, y, kind))
    out += [
        _text(0.0, 20.0, "above the limit", "head"),
        _dot(6.0, 42.0, "first", 3.5),
        _text(16.0, 46.0, "primal", ""),
        _dot(6.0, 62.0, "second", 3.5),
        _text(16.0, 66.0, "dual", ""),
        _text(WIDTH, height + 20.0, f"iteration {math.ceil(last)}", "dim", "end"),
        _text(_LEFT, height + 20.0, "0", "dim"),
    ]
    return _svg(height + 26.0, out, "certificates of EM")


def network(
    places: dict[str, tuple[float, float]], edges: Sequence[tuple[str, str]], marked: set[str]
) -> str:
    """Names in boxes at (column, row), arrows between them; ``marked`` are observed."""
    wide, high = 118.0, 30.0
    centre = {name: (90.0 + 145.0 * x, 26.0 + 72.0 * y) for name, (x, y) in places.items()}
    out = [
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        'orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
    ]
    for a, b in edges:
        (x1, y1), (x2, y2) = centre[a], centre[b]
        out.append(
            f'<line x1="{x1:.1f}" y1="{y1 + high / 2:.1f}" x2="{x2:.1f}" y2="{y2 - high / 2 - 1:.1f}" '
            'class="ink" marker-end="url(#tip)"/>'
        )
    for name, (x, y) in centre.items():
        kind = "good" if name in marked else "frame"
        out.append(_box(x - wide / 2, y - high / 2, wide, high, f"{kind} node"))
        out.append(_text(x, y + 5.0, name, "on" if name in marked else "", "middle"))
    return _svg(max(y for _, y in centre.values()) + 26.0, out, "the network")


def waveform(samples: np.ndarray, duration: float, found: Any, true: Any) -> str:
    """The sound, the phones that were found above it, and the true ones below."""
    columns, scale = 600, (WIDTH - 60.0) / duration
    pieces = np.array_split(samples, columns)
    loud = float(np.abs(samples).max()) or 1.0
    path = []
    for i, piece in enumerate(pieces):
        x = 60.0 + (WIDTH - 60.0) * i / columns
        path.append(
            f"M{x:.1f} {85 - 45 * float(piece.max()) / loud:.1f}V{85 - 45 * float(piece.min()) / loud:.1f}"
        )
    out = [
        f'<path d="{"".join(path)}" class="wave"/>',
        _text(0.0, 24.0, "found", ""),
        _text(0.0, 156.0, "true", ""),
    ]
    for phones, top, kind in ((found, 10.0, "second"), (true, 140.0, "first")):
        for phone in phones:
            x = 60.0 + phone.start * scale
            out.append(
                _line(x, top if top < 85 else 85.0, x, 85.0 if top < 85 else top + 20.0, f"edge {kind}")
            )
            middle = 60.0 + (phone.start + phone.end) / 2 * scale
            if (phone.end - phone.start) * scale > 14.0:
                out.append(_text(middle, top + 14.0, phone.label, "small", "middle"))
    return _svg(166.0, out, "the recording and its phones")
