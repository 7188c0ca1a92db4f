"""Figures of learning theory: a simulated gap with its bounds, a learning curve, a shattered set."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from trellis.core.errors import DataError, UnsupportedError
from trellis.core.storage import PathLike
from trellis.report.figures import DIM, FAINT, GRID, INK, WRONG, figure_file
from trellis.theory.shattering import Shattering
from trellis.theory.simulation import GapSample, LearningCurve

BLUE, AMBER, GREEN = "#2563a8", "#b7791f", "#2f855a"
BOUND_COLOURS = (AMBER, GREEN, "#6b46c1", DIM)
MOST_PANELS = 16


def draw_gap(path: PathLike, sample: GapSample) -> None:
    """The histogram of error_true - error_train, the simulated epsilon, and every bound: how loose is each?

    A bound of 1 or more is vacuous; it stands at the right edge with its value.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from trellis.report.theory_figures import draw_gap
    >>> from trellis.theory import GapSample
    >>> true = np.linspace(0.1, 0.2, 50)
    >>> draw_gap("gap.svg", GapSample(100, 1000, 0.05, 0.95, "zero_one", train=0.5 * true, true=true))
    >>> Path("gap.svg").exists()
    True
    """
    gap, epsilon, bounds, factors = sample.gap, sample.epsilon, sample.bounds(), sample.looseness()
    with figure_file(path, 8, 4) as figure:
        axes = _axes(figure)
        n_bins = min(40, max(8, int(2 * len(gap) ** (1 / 3))))
        axes.hist(gap, bins=n_bins, color=BLUE, alpha=0.55, label=f"{len(gap):,} repeats")
        axes.axvline(
            epsilon.value,
            color=WRONG,
            lw=1.8,
            label=f"simulated $\\epsilon$ = {epsilon.value:.3g} (interval shaded)",
        )
        useful = [float(b.epsilon) for b in bounds if not b.vacuous]
        right = 1.08 * max([*useful, float(gap.max()), epsilon.value])
        left = min(float(gap.min()), 0.0) - 0.02 * right
        shaded = max(epsilon.low, left), min(epsilon.high, right)  # of few repeats an end may be infinite
        axes.axvspan(*shaded, color=WRONG, alpha=0.15, lw=0)
        for bound, colour in zip(bounds, BOUND_COLOURS, strict=False):
            value = float(bound.epsilon)
            words = f"{bound.name}: {value:.3g}, {factors[bound.name]:.3g} times"
            style = ":" if bound.vacuous else "-"
            words += ", vacuous (off the scale)" if bound.vacuous else ""
            axes.axvline(min(value, 0.995 * right), color=colour, ls=style, lw=1.8, label=words)
        axes.set_xlim(left, right)
        axes.set_xlabel("error_true - error_train")
        axes.set_ylabel("repeats")
        axes.set_title(
            f"m = {sample.m:,}, $\\delta$ = {sample.delta:g}, loss: {sample.loss}", loc="left", fontsize=10
        )
        _legend_below(figure, axes)


def draw_learning_curve(path: PathLike, curve: LearningCurve, *, target: float | None = None) -> None:
    """Training and true error over m; ``target`` marks an error and the m from which on it is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from pathlib import Path
    >>> from trellis.report.theory_figures import draw_learning_curve
    >>> from trellis.theory import GapSample, LearningCurve
    >>> train = np.linspace(0.1, 0.2, 50)
    >>> def sample(m):
    ...     return GapSample(m, 1000, 0.05, 0.95, "zero_one", train=train, true=train + 1 / m)
    ...
    >>> draw_learning_curve("curve.svg", LearningCurve((sample(10), sample(100))))
    >>> Path("curve.svg").exists()
    True
    """
    samples = curve.samples
    m = np.array(curve.m)
    quantiles = [s.true_error for s in samples]
    values = np.array([q.value for q in quantiles])
    # an end that too few repeats leave open has no bar
    bars = np.array([[q.value - q.low, q.high - q.value] for q in quantiles]).T
    ends = np.where(np.isfinite(bars), bars, 0.0)
    with figure_file(path, 8, 4) as figure:
        axes = _axes(figure)
        middle = np.array([np.quantile(s.true, [0.1, 0.9]) for s in samples])
        axes.fill_between(
            m, middle[:, 0], middle[:, 1], color=BLUE, alpha=0.15, lw=0, label="true, 80% of repeats"
        )
        axes.plot(m, [s.true.mean() for s in samples], color=BLUE, marker="o", label="true error, mean")
        axes.plot(m, [s.train.mean() for s in samples], color=DIM, marker="o", label="training error, mean")
        axes.errorbar(
            m, values, yerr=ends, color=WRONG, marker="_", lw=1.2, ls="--", capsize=3,
            label=f"true error kept with probability {1 - samples[0].delta:g}",
        )  # fmt: skip
        if target is not None:
            axes.axhline(target, color=AMBER, lw=1.2)
            needed = curve.examples_needed(target)
            words = "not reached" if needed is None else f"from m = {needed:,} on"
            axes.annotate(
                f"{target:.3g}: {words}",
                (m[-1], target),
                (0, 4),
                textcoords="offset points",
                color=AMBER,
                ha="right",
            )
        axes.set_xscale("log")
        axes.set_xticks(m, [f"{x:,}" for x in m])
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("training examples m")
        axes.set_ylabel(f"error ({samples[0].loss})")
        _legend_below(figure, axes)


def draw_witness(path: PathLike, found: Shattering) -> None:
    """The shattered points with each of their labellings, and where the family can say, the hypothesis.

    Examples
    --------
    >>> from pathlib import Path
    >>> from trellis.report.theory_figures import draw_witness
    >>> from trellis.theory import HalfPlanes, vc_dimension
    >>> draw_witness("half-planes.svg", vc_dimension(HalfPlanes(), [[0, 0], [1, 0], [0, 2]]))
    >>> Path("half-planes.svg").exists()
    True
    """
    d, points = found.dimension, found.witness_points
    if not d:
        raise DataError(f"{found.family.name}: no point is shattered, so there is nothing to draw")
    if points.shape[1] > 2:
        raise UnsupportedError(
            f"points in {points.shape[1]} dimensions cannot be drawn; give points in the plane"
        )
    if 2**d > MOST_PANELS:
        raise UnsupportedError(f"{2**d} labellings are too many to draw; at most {MOST_PANELS}")
    columns = min(4, 2**d)
    rows = 2**d // columns
    height = (2.1 if points.shape[1] == 2 else 0.9) * rows + 0.5
    with figure_file(path, 2.1 * columns, height) as figure:
        for i, labels in enumerate(product((False, True), repeat=d)):
            axes = figure.add_subplot(rows, columns, i + 1)
            _draw_labelling(axes, found, np.array(labels))
        figure.subplots_adjust(left=0.02, right=0.98, bottom=0.03, top=1 - 0.42 / figure.get_figheight())
        figure.suptitle(f"{found.family.name}: {d} points in all {2**d} ways", fontsize=10)


def _draw_labelling(axes: Any, found: Shattering, labels: Any) -> None:
    points = found.witness_points
    flat = points.shape[1] == 1
    shown = np.column_stack([points, np.zeros(len(points))]) if flat else points
    low, high = shown.min(axis=0), shown.max(axis=0)
    reach = 0.8 * (float((high - low).max()) or 1.0)
    edges = [np.linspace(c - reach, c + reach, 241) for c in 0.5 * (low + high)]
    hypothesis = found.family.hypothesis(points, labels)
    if hypothesis is not None:
        x, y = np.meshgrid(*edges)
        grid = x.ravel()[:, None] if flat else np.column_stack([x.ravel(), y.ravel()])
        inside = hypothesis(grid).reshape(x.shape).astype(float)
        axes.contourf(x, y, inside, levels=[0.5, 1.5], colors=[BLUE], alpha=0.2)
    axes.scatter(*shown[labels].T, s=46, color=BLUE, zorder=3)
    axes.scatter(*shown[~labels].T, s=46, facecolor="white", edgecolor=INK, zorder=3)
    axes.set_xlim(edges[0][0], edges[0][-1])
    axes.set_ylim(edges[1][0], edges[1][-1])
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set_color(FAINT)


def _axes(figure: Any) -> Any:
    axes = figure.add_subplot()
    axes.grid(axis="y", color=GRID)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    return axes


def _legend_below(figure: Any, axes: Any) -> None:
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=2, frameon=False, fontsize=9)
    rows = -(-len(labels) // 2)
    figure.subplots_adjust(bottom=0.2 + 0.055 * rows, top=0.92, left=0.09, right=0.97)
