"""The page of a hidden Markov model on observations: learning, states over time, durations and emissions."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.hmm import HMM
from trellis.report.pages.page_parts import details, escaped, facts_list, heat_table, page, scrolling, table
from trellis.report.pages.svg_figures import svg_figure
from trellis.report.plots import plot_training, shown_measures
from trellis.report.state_plots import STATE_COLOURS, draw_durations, plot_states, state_durations

_MOST_STATES, _SEQUENCES, _STEPS, _COLUMNS = 12, 3, 400, 30


def hmm_page(model: HMM, X: Any, *, title: str) -> str:
    """The text of the page; ``X`` is one array or a list of arrays."""
    sequences = list(X) if isinstance(X, list | tuple) else [X]
    n_states = len(model.parameters().transitions)
    lengths = state_durations(model.predict(sequences), n_states)
    n_steps = sum(int(runs.sum()) for runs in lengths)
    sections = [
        ("summary", "Summary", facts_list(_facts(model, sequences, n_steps))),
        ("states", "States over time", _states(model, sequences)),
        ("durations", "Durations", _durations(model, lengths, n_steps)),
        ("transitions", "Transitions", _transitions(model)),
        ("emissions", "Emissions", _emissions(model)),
        ("learning", "Learning", _learning(model)),
    ]
    facts = (
        f"<b>HMM</b> · <b>{n_states}</b> states · <b>{len(sequences):,}</b> sequences · "
        f"<b>{n_steps:,}</b> steps"
    )
    return page(title, facts, sections)


def _facts(model: HMM, sequences: list[Any], n_steps: int) -> list[tuple[str, object]]:
    found = float(model.log_likelihood(sequences).sum())
    facts: list[tuple[str, object]] = [
        ("emission", type(model.parameters().emission).__name__),
        ("log-likelihood", f"{found:,.2f}, {found / max(n_steps, 1):.4f} per step"),
        ("free parameters", f"{model.n_parameters:,}"),
    ]
    if status := getattr(model, "status_", None):
        facts.append(("learning", status))
    return facts


def _states(model: HMM, sequences: list[Any]) -> str:
    figures = []
    for i, posteriors in enumerate(model.smooth(sequences[:_SEQUENCES])):
        some = posteriors[:_STEPS]
        few = f", its first {_STEPS} steps" if len(posteriors) > _STEPS else ""
        few += (
            f", its {len(STATE_COLOURS)} most frequent states" if some.shape[1] > len(STATE_COLOURS) else ""
        )
        if len(some):
            label = f"Probabilities of the states at each step of sequence {i + 1}{few}."
            draw = partial(plot_states, some)
            figure = svg_figure(f"states-{i}", draw, label, label, width=8.4, height=2.2)
            figures.append(scrolling(figure, f"Sequence {i + 1}"))
    return f'<div class="wide">{"".join(figures)}</div>'


def _durations(model: HMM, lengths: list[IntArray], n_steps: int) -> str:
    stay = np.diagonal(model.parameters().transitions)
    rows, figures = [], []
    for k, runs in enumerate(lengths):
        mean = f"{runs.mean():.2f}" if len(runs) else "–"
        expected = f"{1 / (1 - stay[k]):.2f}" if stay[k] < 1 else "never ends"
        share = 100 * int(runs.sum()) / max(n_steps, 1)
        rows.append((f"state {k}", f"{share:.1f}", f"{len(runs):,}", mean, expected))
        if len(runs) and k < _MOST_STATES:
            label = (
                f"Durations of state {k}: mean {mean} steps on the best paths, {expected} by its transitions."
            )
            draw = partial(draw_durations, runs, float(stay[k]))
            figures.append(svg_figure(f"duration-{k}", draw, label, f"State {k}", width=4.2, height=2.4))
    header = ["", "share of steps, %", "visits", "mean duration", "mean by transitions"]
    caption = "Visits of states on the best paths; the ends of sequences end them"
    return table(caption, header, rows) + f'<div class="figures">{"".join(figures)}</div>'


def _transitions(model: HMM) -> str:
    shares = model.parameters().transitions[:_COLUMNS, :_COLUMNS]
    names = [f"state {k}" for k in range(len(shares))]
    cells = [[(f"{x:.3f}" if x else "·", x) for x in row] for row in shares.tolist()]
    return heat_table("Probabilities of transitions from the row to the column", "from", names, names, cells)


def _emissions(model: HMM) -> str:
    """A table for each parameter with a row for each state."""
    emission: Any = model.parameters().emission
    n_states = emission.n_states
    if not dataclasses.is_dataclass(emission):
        return f"<p>{escaped(emission)}</p>"
    blocks = []
    for field in dataclasses.fields(emission):
        values = getattr(emission, field.name)
        if not isinstance(values, np.ndarray) or values.shape[:1] != (n_states,):
            continue
        rows = values.reshape(len(values), -1)[:, :_COLUMNS].astype(np.float64)
        names, columns = [f"state {k}" for k in range(len(rows))], [str(j) for j in range(rows.shape[1])]
        shades = rows / max(float(np.abs(rows).max(initial=0.0)), 1e-300)
        cells = [
            [(f"{x:.4g}", share) for x, share in zip(*both, strict=True)]
            for both in zip(rows.tolist(), shades.tolist(), strict=True)
        ]
        blocks.append(heat_table(field.name.replace("_", " "), "", names, columns, cells))
    return "".join(blocks)


def _learning(model: HMM) -> str:
    history = getattr(model, "history_", {})
    if "objective" not in shown_measures(history):
        return ""
    label = "Minus the objective (primal) and minus the lower bound (dual) of EM, by iteration."
    draw = partial(plot_training, model)
    rows = [(i, f"{x:.6g}") for i, x in enumerate(history.get("primal", []))]
    return svg_figure("learning", draw, label, label) + details(
        "The numbers", table(label, ["iteration", "primal"], rows)
    )
