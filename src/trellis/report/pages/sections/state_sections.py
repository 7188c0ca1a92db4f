"""What pages say of hidden states: their probabilities over time, visits, and parameters with a row each."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.report.pages.page_parts import counted, details, escaped, heat_table, scrolling, table
from trellis.report.pages.svg_figures import svg_figure
from trellis.report.plots import plot_training, shown_measures
from trellis.report.state_plots import draw_durations, plot_states

SHOWN_SEQUENCES = 3
MOST_STEPS = 400
_MOST_STATES, _COLUMNS = 12, 30


def states_section(posteriors: Sequence[FloatArray]) -> str:
    """Probabilities of the states over time in the first sequences: a long one as a whole, then its start."""
    figures = []
    for i, shares in enumerate(posteriors[:SHOWN_SEQUENCES]):
        place, start, few = f"sequence {i + 1}", shares[:MOST_STEPS], ""
        if len(shares) > MOST_STEPS:
            means, every = block_means(shares, MOST_STEPS)
            few = f", its first {MOST_STEPS} steps"
            label = f"Probabilities of the states in all of {place}, means over {every} steps each."
            draw = partial(plot_states, means, every=every)
            figures.append(wide_figure(f"states-{i}-all", draw, label, f"All of {place}"))
        if len(start):
            label = f"Probabilities of the states at each step of {place}{few}."
            figures.append(wide_figure(f"states-{i}", partial(plot_states, start), label, place.capitalize()))
    return f'<div class="wide">{"".join(figures)}</div>'


def block_means(values: FloatArray, most: int) -> tuple[FloatArray, int]:
    """Means over blocks of as many rows as make at most ``most`` blocks, and how many these are."""
    every = -(-len(values) // most)
    starts = np.arange(0, len(values), every)
    sizes = np.diff(np.append(starts, len(values)))
    return np.add.reduceat(values, starts, axis=0) / sizes[:, None], every


def wide_figure(name: str, draw: Any, label: str, heading: str) -> str:
    """A figure over time, which scrolls by itself where the page is narrow."""
    return scrolling(svg_figure(name, draw, label, label, width=8.4, height=2.2), heading)


def durations_section(lengths: Sequence[IntArray], n_steps: int, stay: FloatArray | None) -> str:
    """Visits of each state, and where ``stay`` (K,) is the same at all steps, what it implies."""
    rows, figures = [], []
    for k, runs in enumerate(lengths):
        mean = f"{runs.mean():.2f}" if len(runs) else "–"
        share = 100 * int(runs.sum()) / max(n_steps, 1)
        row = [f"state {k}", f"{share:.1f}", f"{len(runs):,}", mean]
        if stay is not None:
            row.append(f"{1 / (1 - stay[k]):.2f}" if stay[k] < 1 else "never ends")
        rows.append(row)
        if len(runs) and k < _MOST_STATES:
            label = f"Durations of state {k}: mean {mean} steps on the best paths"
            label += "." if stay is None else f", {row[-1]} by its transitions."
            draw = partial(draw_durations, runs, None if stay is None else float(stay[k]))
            figures.append(svg_figure(f"duration-{k}", draw, label, f"State {k}", width=4.2, height=2.4))
    header = ["", "share of steps, %", "visits", "mean duration"]
    header += [] if stay is None else ["mean by transitions"]
    caption = "Visits of states on the best paths; the end of a sequence ends a visit"
    left = sum(len(runs) > 0 for runs in lengths) - len(figures)
    more = f'<p class="dim">{counted(left, "state")} more: see the table.</p>' if left else ""
    return table(caption, header, rows) + f'<div class="figures">{"".join(figures)}</div>{more}'


def transitions_table(caption: str, shares: FloatArray) -> str:
    """Probabilities (K, K) from the row to the column; a dot is zero."""
    some = shares[:_COLUMNS, :_COLUMNS]
    names = [f"state {k}" for k in range(len(some))]
    cells = [[(f"{x:.3f}" if x else "·", x) for x in row] for row in some.tolist()]
    return heat_table(caption + _first(len(some), len(shares), "states"), "from", names, names, cells)


def _first(n_shown: int, n_all: int, what: str) -> str:
    """What a caption adds where not all are shown."""
    return f", the first {n_shown} of {n_all:,} {what}" if n_shown < n_all else ""


def emission_tables(emission: Any, n_states: int) -> str:
    """A table for each parameter with a row for each state."""
    if not dataclasses.is_dataclass(emission):
        return f"<p>{escaped(emission)}</p>"
    blocks = []
    for field in dataclasses.fields(emission):
        values = getattr(emission, field.name)
        if isinstance(values, np.ndarray) and values.shape[:1] == (n_states,):
            rows = values.reshape(len(values), -1)
            names = [f"state {k}" for k in range(len(rows))]
            blocks.append(matrix_table(field.name.replace("_", " "), rows, names, _columns(values)))
    return f'<div class="columns">{"".join(blocks)}</div>'


def _columns(values: FloatArray) -> list[str]:
    """What names the columns of an array (states, ...): of matrices both indices."""
    return [", ".join(map(str, place)) for place in np.ndindex(*values.shape[1:])] or ["0"]


def matrix_table(
    caption: str, values: FloatArray, names: Sequence[object], columns: Sequence[str] | None = None
) -> str:
    """Numbers (rows, columns) with the colours of their sizes, the first columns of many."""
    rows = values[:, :_COLUMNS].astype(np.float64)
    shades = rows / max(float(np.abs(rows).max(initial=0.0)), 1e-300)
    cells = [
        [(f"{x:.4g}", share) for x, share in zip(*both, strict=True)]
        for both in zip(rows.tolist(), shades.tolist(), strict=True)
    ]
    heads = [str(j) for j in range(rows.shape[1])] if columns is None else columns[:_COLUMNS]
    return heat_table(caption + _first(rows.shape[1], values.shape[1], "columns"), "", names, heads, cells)


def em_section(model: Any) -> str:
    """The curve of EM, with its numbers; empty for a model that was given."""
    history = getattr(model, "history_", {})
    if "objective" not in shown_measures(history):
        return ""
    label = "Minus the objective (primal) and minus the lower bound (dual) of EM, by iteration."
    curves = [name for name in ("primal", "dual") if len(history.get(name, ()))]
    numbers = zip_longest(*(history[name] for name in curves), fillvalue=math.nan)
    rows = [(i, *(f"{x:.6g}" for x in row)) for i, row in enumerate(numbers, 1)]
    return svg_figure("learning", partial(plot_training, model), label, label) + details(
        "The numbers", table(label, ["iteration", *curves], rows)
    )


def likelihood_facts(model: Any, log_likelihood: float, n_steps: int) -> list[tuple[str, object]]:
    per_step = log_likelihood / max(n_steps, 1)
    facts: list[tuple[str, object]] = [("log-likelihood", f"{log_likelihood:,.2f}, {per_step:.4f} per step")]
    if (size := getattr(model, "n_parameters", None)) is not None:
        facts.append(("free parameters", f"{size:,}"))
    if status := getattr(model, "status_", None):
        facts.append(("learning", status))
    return facts
