"""Figures of an aligner on referenced recordings: how near its boundaries are, and which way they err."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.report.alignment_statistics import ClassErrors
from trellis.report.figures import DIM, FAINT, FIRST, SECOND
from trellis.report.plots import draw_heat, finish, make_axes
from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation

_WIDEST_MS = 60.0


def plot_tolerances(evaluation: AlignmentEvaluation, ax: Any = None) -> Any:
    """The share of boundaries within each tolerance, with its 95 % interval where there is one."""
    ax = make_axes(ax)
    tolerances = [0.0, *evaluation.within]
    shares = [0.0, *(100 * one.value for one in evaluation.within.values())]
    ax.plot(tolerances, shares, color=FIRST, linewidth=1.8, marker=".", zorder=3)
    for ms, one in evaluation.within.items():
        if one.has_interval:
            limits = [100 * one.low, 100 * one.high]
            ax.plot([ms, ms], limits, color=FIRST, linewidth=6, alpha=0.3, solid_capstyle="butt")
    ax.set(ylim=(0, 102), xlim=(0, None))
    finish(ax, "tolerance, ms", "boundaries within it, %")
    return ax


def plot_boundary_errors(evaluation: AlignmentEvaluation, ax: Any = None) -> Any:
    """How many boundaries are early (below 0) and late, by 5 ms; those beyond 60 ms are at the ends."""
    ax = make_axes(ax)
    errors = 1e3 * np.concatenate([one.seconds for one in evaluation.utterances])
    edges = np.arange(-_WIDEST_MS, _WIDEST_MS + 5.0, 5.0)
    counts, _ = np.histogram(np.clip(errors, edges[0], edges[-1]), edges)
    ax.bar(edges[:-1] + 2.5, counts, width=4.4, color=FIRST)
    ax.axvline(0.0, color=FAINT, linewidth=1)
    ax.axvline(evaluation.bias_ms.value, color=SECOND, linewidth=1.6, linestyle="--", label="mean")
    ax.legend(frameon=False, labelcolor=DIM)
    finish(ax, "predicted minus reference, ms", "boundaries")
    return ax


def plot_class_errors(found: ClassErrors, ax: Any = None) -> Any:
    """Mean absolute errors (ms) of boundaries from the class of the row to that of the column."""
    ax = draw_heat(ax, class_shares(found), found.classes, found.classes, class_texts(found))
    ax.set(xlabel="the phone that starts", ylabel="the phone that ends")
    return ax


def class_shares(found: ClassErrors) -> Any:
    """Errors divided by the largest, below 0: the colour of what is wrong; 0 where there are none."""
    errors = np.nan_to_num(found.mean_ms)
    return -errors / max(float(errors.max(initial=0.0)), 1e-300)


def class_texts(found: ClassErrors) -> list[list[str]]:
    return [["" if np.isnan(x) else f"{x:.0f}" for x in row] for row in found.mean_ms.tolist()]
