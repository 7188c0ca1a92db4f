"""Evaluations of alignments as tables for the terminal and as rows for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from trellis.speech.evaluate.boundary_evaluation import AlignmentComparison, AlignmentEvaluation
    from trellis.speech.evaluate.boundary_figures import Estimate

_TIMES = ("mean", "median", "bias")
NO_INTERVAL = "-"


def tolerance_table(evaluation: AlignmentEvaluation) -> Table:
    """Each tolerance in true milliseconds and in whole frames, with intervals."""
    table = _table("tolerance", "true ms", "95% interval", "10 ms frames", "95% interval")
    for ms, share in evaluation.within.items():
        frames = evaluation.within_frames[ms]
        table.add_row(f"{ms:g} ms", *_percent(share), *_percent(frames))
    table.add_section()
    for name in _TIMES:
        table.add_row(name, *_milliseconds(evaluation.estimates[name], name == "bias"))
    return table


def class_table(parts: Mapping[str, AlignmentEvaluation], heading: str = "class") -> Table:
    """One row per class of boundary: how many, percentages within each tolerance (ms), and times in ms."""
    tolerances = next((part.tolerances_ms for part in parts.values()), ())
    table = _table(heading, "n", *(f"≤{ms:g}" for ms in tolerances), *_TIMES)
    for name, part in parts.items():
        shares = [f"{100 * e.value:.1f}" for e in part.within.values()]
        times = [f"{part.estimates[t].value:{'+' if t == 'bias' else ''}.1f}" for t in _TIMES]
        table.add_row(name, str(part.n_boundaries), *shares, *times)
    return table


def comparison_table(comparison: AlignmentComparison, a: str = "first", b: str = "second") -> Table:
    """Two systems side by side; a difference is marked * if its paired 95% interval excludes 0."""
    table = _table("tolerance", a, b, "difference", "95% interval", "")
    for ms, change in comparison.within.items():
        shares = (f"{100 * e.within[ms].value:.1f}" for e in (comparison.a, comparison.b))
        table.add_row(f"{ms:g} ms", *shares, *_percent(change, signed=True), _mark(change))
    table.add_section()
    for name in _TIMES:
        change = comparison.differences[name]
        times = (f"{e.estimates[name].value:.1f} ms" for e in (comparison.a, comparison.b))
        table.add_row(name, *times, *_milliseconds(change, signed=True), _mark(change))
    return table


def to_csv(parts: Mapping[str, AlignmentEvaluation], comparison: AlignmentComparison | None = None) -> str:
    """One row per part (``all``, then classes) and figure: part, n, figure, value, low, high (empty if none).

    With a comparison, the part ``difference`` has the figures of the first system minus those of the second.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["part", "boundaries", "figure", "value", "low", "high"])
    rows = [(name, part.n_boundaries, part.estimates) for name, part in parts.items()]
    if comparison is not None:
        rows.append(("difference", comparison.a.n_boundaries, comparison.differences))
    for name, n_boundaries, found in rows:
        for figure, e in found.items():
            kind, _, ms = figure.partition(" ")
            shown = f"{kind}_{ms}_ms" if ms else f"{kind}_ms"
            limits = (repr(e.low), repr(e.high)) if e.has_interval else ("", "")
            writer.writerow([name, n_boundaries, shown, repr(e.value), *limits])
    return out.getvalue()


def _table(first: str, *headings: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _percent(share: Estimate, signed: bool = False) -> tuple[str, str]:
    sign = "+" if signed else ""
    return f"{100 * share.value:{sign}.1f} %", _interval(share, 100.0, sign)


def _milliseconds(time: Estimate, signed: bool = False) -> tuple[str, str]:
    sign = "+" if signed else ""
    return f"{time.value:{sign}.1f} ms", _interval(time, 1.0, sign)


def _interval(estimate: Estimate, unit: float, sign: str) -> str:
    if not estimate.has_interval:
        return NO_INTERVAL
    return f"{unit * estimate.low:{sign}.1f} to {unit * estimate.high:{sign}.1f}"


def _mark(change: Estimate) -> str:
    return "*" if change.low > 0 or change.high < 0 else ""
