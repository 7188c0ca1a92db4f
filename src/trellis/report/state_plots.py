"""Figures of hidden Markov models: states over time, and how long they last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.core.arguments import is_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.report.figures import DIM, FAINT, FIRST, GRID, INK, SECOND, THIRD, WRONG
from trellis.report.plots import finish, make_axes

BANDS = 4  # components of a state that are drawn
BARS = 30  # of a figure of durations
STATE_COLOURS = (FIRST, SECOND, THIRD, WRONG, DIM, FAINT)


def state_durations(paths: Sequence[Any], n_states: int) -> list[IntArray]:
    """How many steps each visit of each state lasts, in order; sequences end visits."""
    found: list[list[int]] = [[] for _ in range(n_states)]
    for path in map(np.asarray, paths):
        if len(path):
            starts = np.concatenate([[0], np.flatnonzero(np.diff(path)) + 1, [len(path)]])
            for first, n in zip(starts[:-1], np.diff(starts), strict=True):
                found[int(path[first])].append(int(n))
    return [np.array(lengths, np.int64) for lengths in found]


def geometric_durations(stay: float, n: int) -> FloatArray:
    """P(d) = stay^(d - 1) (1 - stay) for d = 1 to n: what a state of a Markov chain lasts."""
    return np.asarray(np.float64(stay) ** np.arange(n) * (1.0 - stay), np.float64)


def plot_states(posteriors: FloatArray, ax: Any = None, *, every: int = 1) -> Any:
    """P(state | all observations) (length, K) at each step of a sequence, stacked: the six most frequent, and
    the others in grey. ``every``: how many steps a row stands for."""
    ax = make_axes(ax, 8.4, 2.2)
    shown = np.sort(np.argsort(-posteriors.sum(axis=0), kind="stable")[: len(STATE_COLOURS)])
    base = np.zeros(len(posteriors))
    steps = every * np.arange(len(posteriors) + 1) + 0.5
    parts = [(f"state {k}", posteriors[:, k]) for k in shown]
    if posteriors.shape[1] > len(shown):
        parts.append(("others", np.maximum(1.0 - posteriors[:, shown].sum(axis=1), 0.0)))
    for colour, (name, shares) in zip((*STATE_COLOURS, GRID), parts, strict=False):
        top = base + shares
        edges = {"step": "post", "color": colour, "linewidth": 0, "label": name}
        ax.fill_between(steps, np.append(base, base[-1]), np.append(top, top[-1]), **edges)
        base = top
    finish(ax, "step", "probability")
    ax.set(xlim=(steps[0], steps[-1]), ylim=(0, 1))
    ax.legend(
        frameon=False, labelcolor=INK, ncols=len(parts), loc="lower left", bbox_to_anchor=(0, 1), fontsize=9
    )
    return ax


def plot_durations(model: Any, X: Any, ax: Any = None, *, state: int = 0) -> Any:
    """How long a state lasts on the best paths, and the geometric law that its transitions imply."""
    transitions = model.parameters().transitions
    if not is_int(state, 0, len(transitions) - 1):
        raise DataError(f"state is {state!r}; states are numbered from 0 to {len(transitions) - 1}")
    paths = model.predict(X)
    several = isinstance(X, list | tuple)
    lengths = state_durations(paths if several else [paths], len(transitions))[state]
    return draw_durations(lengths, float(transitions[state, state]), ax)


def draw_durations(lengths: IntArray, stay: float | None, ax: Any = None) -> Any:
    """The shares of durations, beside the geometric law of a state that stays with probability ``stay``.

    Where there are many durations, each bar is the sum over some of them, and so is the law.
    """
    ax = make_axes(ax, 4.2, 2.6)
    longest = int(lengths.max(initial=1))
    wide = -(-longest // BARS)
    n = -(-longest // wide)
    middles = wide * np.arange(n) + 0.5 * (wide + 1)
    counts = np.bincount((lengths - 1) // wide, minlength=n)
    ax.bar(middles, counts / max(len(lengths), 1), color=FIRST, width=0.8 * wide, label="observed")
    if stay is not None:
        law = geometric_durations(stay, wide * n).reshape(n, wide).sum(axis=1)
        ax.plot(middles, law, color=WRONG, linewidth=1.6, marker="." if n < 5 else "", label="geometric")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.set_xlim(0.5, max(wide * n, 5) + 0.5)
    finish(ax, "steps in the state" + (f", by {wide}" if wide > 1 else ""), "share of visits")
    if stay is not None:
        ax.legend(frameon=False, labelcolor=INK)
    return ax


def plot_smoothed(
    means: FloatArray,
    variances: FloatArray,
    ax: Any = None,
    *,
    components: Sequence[int] | None = None,
    every: int = 1,
) -> Any:
    """Means (length, n) of a hidden state over time, with bands of 1.96 standard deviations.

    ``components``: which are drawn, the first four by default. Rows are ``every`` steps apart.
    """
    ax = make_axes(ax, 8.4, 2.2)
    steps = 1 + every * np.arange(len(means))
    chosen = range(min(means.shape[1], BANDS)) if components is None else components
    for k, colour in zip(chosen, STATE_COLOURS, strict=False):
        wide = 1.96 * np.sqrt(np.maximum(variances[:, k], 0.0))
        edges = {"color": colour, "alpha": 0.22, "linewidth": 0}
        ax.fill_between(steps, means[:, k] - wide, means[:, k] + wide, **edges)
        ax.plot(steps, means[:, k], color=colour, linewidth=1.4, label=f"component {k}")
    finish(ax, "step", "state")
    ax.legend(frameon=False, labelcolor=INK, ncols=BANDS, loc="lower left", bbox_to_anchor=(0, 1), fontsize=9)
    return ax
