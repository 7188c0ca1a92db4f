"""What pages say of predicted labels, of steps of sequences or of nodes of graphs: scores, confusions,
calibration."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.report.evaluation import Evaluation
from trellis.report.label_statistics import Calibration, Confusion
from trellis.report.pages.page_parts import details, heat_table, interval_tiles, table
from trellis.report.pages.svg_figures import svg_figure
from trellis.report.plots import plot_calibration

MOST_LABELS = 25


@dataclass(frozen=True)
class Units:
    """How the page calls what is labelled, and what it belongs to, both in the plural."""

    steps: str
    sequences: str


def label_counts_fact(evaluation: Evaluation, units: Units) -> str:
    wrong = round((1.0 - evaluation.tokens_right.value) * evaluation.n_tokens)
    return (
        f"{evaluation.n_sequences:,} {units.sequences}, {evaluation.n_tokens:,} {units.steps}, "
        f"{wrong:,} of them wrong"
    )


def shown_labels(names: Sequence[Any], frequent: Sequence[Any]) -> list[int]:
    """The places of at most ``MOST_LABELS`` names, in order: of more, those that ``frequent`` has first."""
    rank = {name: k for k, name in enumerate(frequent)}
    order = sorted(range(len(names)), key=lambda i: rank.get(names[i], len(rank)))
    return sorted(order[:MOST_LABELS])


def few_labels(n_shown: int, n_all: int) -> str:
    """What a caption adds where not all labels are shown."""
    return f", the {n_shown} most frequent of {n_all} labels" if n_shown < n_all else ""


def probability_notes(model: Any) -> list[str]:
    """What has to be said of the probabilities of a model that was not trained for them."""
    if getattr(model, "objective", "log") == "log":
        return []
    return [
        "The model was not trained for probabilities: these are those of a log-linear model with its scores."
    ]


def scores_section(evaluation: Evaluation, units: Units) -> str:
    """Each share with its interval, and the scores of each type."""
    figures = {
        "span F1": evaluation.span_f1,
        f"{units.steps} right": evaluation.tokens_right,
        f"{units.sequences} right": evaluation.sequences_right,
    }
    kind = "label" if evaluation.span_f1 is None else "type of span"
    by_type = sorted(evaluation.by_type.items(), key=lambda item: (-item[1].gold, item[0]))
    rows = [
        (
            name or "(no type)",
            *(f"{100 * value:.1f}" for value in (score.precision, score.recall, score.f1)),
            f"{score.gold:,}",
            f"{score.predicted:,}",
            f"{score.correct:,}",
        )
        for name, score in by_type
    ]
    header = [kind, "precision", "recall", "F1", "gold", "predicted", "correct"]
    return interval_tiles(
        (name, found.value, found.low, found.high) for name, found in figures.items() if found is not None
    ) + table(f"By {kind}, in percent, and counts", header, rows)


def confusion_section(found: Confusion, units: Units) -> str:
    shown = found.counts[:MOST_LABELS, :MOST_LABELS]
    sums = np.maximum(found.counts[:MOST_LABELS].sum(axis=1), 1)
    cells = []
    for i, row in enumerate(shown.tolist()):
        # what is right has one colour, what is wrong the other: the root makes rare confusions visible
        shares = [(n / sums[i]) ** 0.5 * (1 if i == j else -1) for j, n in enumerate(row)]
        cells.append([(f"{n:,}" if n else "", share) for n, share in zip(row, shares, strict=True)])
    names = found.labels[:MOST_LABELS]
    few = few_labels(len(names), len(found.labels))
    return heat_table(
        f"{units.steps.capitalize()} by gold label (row) and predicted label (column){few}",
        "gold",
        names,
        names,
        cells,
    )


def calibration_section(found: Calibration, what: str, units: str, notes: Iterable[str] = ()) -> str:
    """How often ``units`` are right, by ``what`` (the probability of the predicted label, say)."""
    rows = [
        (f"{low:.1f} to {high:.1f}", f"{n:,}", f"{sure:.3f}", f"{right:.3f}")
        for low, high, n, sure, right in zip(
            found.edges[:-1], found.edges[1:], found.counts, found.confidence, found.accuracy, strict=True
        )
        if n
    ]
    label = f"Calibration: the share of {units} that are right against the {what}; the table "
    return (
        f"<p>Expected calibration error <b>{found.error:.4f}</b>: how far, on average over {units}, the "
        f"{what} is from the share that is right. {' '.join(notes)}</p>"
        + svg_figure(
            "calibration",
            lambda ax: plot_calibration(found, ax, what=what),
            f"{label}below has the numbers.",
            f"Larger dots have more {units}.",
        )
        + details("The numbers", table("Calibration", ["probability", units, "mean", "right"], rows))
    )
