"""Figures of models: each takes what it shows and axes (or makes some), and returns the axes.

``ax=None`` makes a figure that belongs to no window: save it by ``ax.figure.savefig``. The pages of
:mod:`trellis.report.model_report` show the same figures, or the same numbers as tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.core.arguments import check_choice
from trellis.core.errors import DataError
from trellis.report.figures import DIM, FAINT, FIRST, GRID, INK, SECOND, THIRD, WRONG, new_figure
from trellis.report.label_statistics import Calibration, confusion

# what is measured in each iteration -> the entries of ``history_``, with their names in the legend
MEASURES = {
    "objective": {"objective": "objective", "primal": "primal", "dual": "dual"},
    "gap": {
        "relative_gap": "relative duality gap",
        "gap": "bound on the gap",
        "gradient_norm": "gradient norm",
    },
    "holdout": {"holdout_loss": "loss on the hold-out set"},
}


def shown_measures(history: dict[str, list[float]]) -> list[str]:
    """Which measures of :func:`plot_training` a history has finite numbers of."""
    return [measure for measure in MEASURES if _curves(history, measure)]


def plot_training(model: Any, ax: Any = None, *, measure: str = "objective") -> Any:
    """A curve over iterations: the "objective" with its dual, the "gap" (log scale) or the "holdout" loss."""
    check_choice("measure", measure, tuple(MEASURES))
    curves = _curves(model.history_, measure)
    if not curves:
        raise DataError(f"the history of this {type(model).__name__} has no {measure}; see model.history_")
    ax = make_axes(ax)
    for colour, (name, values) in zip((FIRST, SECOND, THIRD), curves.items(), strict=False):
        steps = np.arange(1, len(values) + 1)
        ax.plot(
            steps, values, color=colour, linewidth=1.8, label=name, marker="." if len(values) < 40 else ""
        )
    if measure == "gap" and min(min(values) for values in curves.values()) > 0:
        ax.set_yscale("log")
    ax.xaxis.get_major_locator().set_params(integer=True)
    finish(ax, "iteration", next(iter(curves)) if len(curves) == 1 else "")
    if len(curves) > 1:
        ax.legend(frameon=False, labelcolor=INK)
    return ax


def plot_confusion(gold: Any, predicted: Any, ax: Any = None, *, most: int = 20) -> Any:
    """Counts of (gold, predicted) labels, coloured by their share of the row."""
    found = confusion(gold, predicted)
    counts = found.counts[:most, :most]
    shares = counts / np.maximum(found.counts[:most].sum(axis=1, keepdims=True), 1)
    names = [str(label) for label in found.labels[:most]]
    ax = draw_heat(
        ax, shares, names, names, [[f"{n:,}" if n else "" for n in row] for row in counts.tolist()]
    )
    ax.set(xlabel="predicted", ylabel="gold")
    return ax


def plot_transitions(model: Any, ax: Any = None, *, most: int = 20) -> Any:
    """Scores of transitions from the label of the row to that of the column; forbidden ones are empty."""
    table = model.transition_table()[:most, :most]
    names = [str(name) for name in model.latent_.states.labels][:most]
    ax = draw_heat(ax, transition_shares(table), names, names, transition_texts(table))
    ax.set(xlabel="to", ylabel="from")
    return ax


def transition_shares(table: Any) -> Any:
    """Scores divided by the largest in absolute value; 0 where a transition is forbidden."""
    finite = np.where(np.isfinite(table), table, 0.0)
    return finite / max(float(np.abs(finite).max(initial=0.0)), 1e-300)


def transition_texts(table: Any) -> list[list[str]]:
    """Scores with one digit, 0 where they round to it, and a dot for what is forbidden."""
    return [[_score_text(x) for x in row] for row in table.tolist()]


def _score_text(score: float) -> str:
    if not np.isfinite(score):
        return "·"
    return f"{score:.1f}" if abs(score) >= 0.05 else "0"


def plot_calibration(
    found: Calibration, ax: Any = None, *, what: str = "probability of the predicted label"
) -> Any:
    """The share of right answers against the probability that the model gave them; the diagonal is ideal."""
    ax = make_axes(ax)
    ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, linestyle="--", zorder=1)
    some = found.counts > 0
    sizes = 12 + 160 * found.counts[some] / found.counts.max()
    ax.plot(found.confidence[some], found.accuracy[some], color=FIRST, linewidth=1.4, zorder=2)
    ax.scatter(found.confidence[some], found.accuracy[some], s=sizes, color=FIRST, zorder=3, clip_on=False)
    ax.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03))
    finish(ax, what, "share that is right")
    return ax


def _curves(history: dict[str, list[float]], measure: str) -> dict[str, list[float]]:
    found = {
        name: history[key]
        for key, name in MEASURES[measure].items()
        if len(history.get(key, ())) and np.isfinite(history[key]).all()
    }
    # the gap relative to the objective says the same as the gap itself, and more
    return dict(list(found.items())[:1]) if measure == "gap" else found


def make_axes(ax: Any, width: float = 5.6, height: float = 3.0) -> Any:
    return new_figure(width, height).add_subplot() if ax is None else ax


def finish(ax: Any, xlabel: str, ylabel: str) -> None:
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.grid(color=GRID, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(color=FAINT, labelcolor=DIM)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        ax.spines[side].set_color(FAINT)
    ax.xaxis.label.set_color(INK)
    ax.yaxis.label.set_color(INK)


def draw_heat(
    ax: Any, shares: Any, rows: Sequence[str], columns: Sequence[str], texts: Sequence[Sequence[str]]
) -> Any:
    """Cells from -1 (one colour) over 0 (none) to 1 (the other), with their texts."""
    ax = make_axes(ax, 1.6 + 0.5 * len(columns), 1.2 + 0.34 * len(rows))
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("trellis", [WRONG, "white", FIRST])
    ax.imshow(shares, cmap=colours, vmin=-1.4, vmax=1.4, aspect="auto")
    ax.set_xticks(range(len(columns)), columns, rotation=45 if max(map(len, columns), default=0) > 3 else 0)
    ax.set_yticks(range(len(rows)), rows)
    for i, row in enumerate(texts):
        for j, text in enumerate(row):
            ax.text(j, i, text, ha="center", va="center", fontsize=8, color=INK)
    ax.tick_params(length=0, labelcolor=DIM)
    for spine in ax.spines.values():
        spine.set_visible(False)
    return ax
