"""The page of an aligner on utterances with references: boundaries within tolerances, whether confidences
come true, the least sure and the worst boundaries, and errors by the classes on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.report.alignment_plots import class_shares, class_texts, plot_boundary_errors, plot_tolerances
from trellis.report.alignment_statistics import AlignedStarts, aligned_starts, class_errors
from trellis.report.pages.page_parts import (
    counted,
    facts_list,
    heat_table,
    interval_tiles,
    isolated,
    page,
    table,
)
from trellis.report.pages.sections.label_sections import calibration_section
from trellis.report.pages.sections.stage_sections import PageStages
from trellis.report.pages.sections.training_sections import training_facts, training_section
from trellis.report.pages.svg_figures import svg_figure
from trellis.speech.align.aligner import Aligner
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation, evaluate_alignments
from trellis.speech.evaluate.boundary_figures import Estimate
from trellis.speech.phones.folding import folding

_TILES_MS = (10.0, 20.0, 50.0)
_WORST, _RECORDINGS = 20, 10
_NO_INTERVAL = (
    '<p class="dim">– where no interval holds: nothing bounds how far a recording may go wrong, so mean and '
    "bias need 100 recordings, and the median about ten.</p>"
)


def aligner_page(
    model: Aligner, X: Any, y: None = None, *, title: str, stages: PageStages | None = None
) -> str:
    """The text of the page; ``X``: utterances, of which those with a reference are aligned to its phones."""
    if X is None or y is not None:
        raise DataError("the page of an Aligner needs utterances with references; give a corpus as X alone")
    stages = PageStages() if stages is None else stages
    given = list(X)
    if not all(isinstance(one, Utterance) for one in given):
        raise DataError(
            "an Aligner is reported on utterances; give a trellis.speech.Corpus, or a list of them"
        )
    chosen = [one for one in given if one.reference is not None]
    if not chosen:
        raise DataError("the corpus has no utterance with a reference to compare with")
    references = {one.id: one.reference for one in chosen if one.reference is not None}
    seconds = sum(float(one.duration or 0.0) for one in references.values())
    with stages.measure("reading and aligning", f"with confidences, {seconds:.1f} s of sound"):
        found = model.align_corpus(chosen, confidence=True)
    evaluation = evaluate_alignments(references, found)
    starts = aligned_starts(references, found)
    sections = [
        ("summary", "Summary", facts_list(_facts(model, evaluation, seconds))),
        ("scores", "Accuracy", _accuracy(evaluation)),
        ("calibration", "Confidence", _confidence(starts)),
        ("classes", "Errors by class", _classes(evaluation)),
        ("errors", "Worst boundaries", _worst(starts)),
        ("recordings", "Recordings", _recordings(evaluation)),
        ("training", "Training", training_section(model)),
        ("stages", "Cost of each stage", stages.section(model)),
    ]
    words = (
        f"<b>Aligner</b> · {counted(len(evaluation.utterances), 'recording')} · "
        f"{counted(evaluation.n_boundaries, 'boundary', 'boundaries')} · <b>{seconds:.1f}</b> s of sound"
    )
    return page(title, words, sections)


def _facts(model: Aligner, evaluation: AlignmentEvaluation, seconds: float) -> list[tuple[str, object]]:
    weights = ", ".join(
        f"{name} {weight:+.3g}" for name, weight in zip(model.feature_names_, model.weights_, strict=False)
    )
    data = f"{len(evaluation.utterances):,} recordings with references, {seconds:.1f} s"
    if evaluation.left_out:
        data += f"; {len(evaluation.left_out):,} left out"
    return [*training_facts(model), ("weights", weights), ("data", data)]


def _accuracy(evaluation: AlignmentEvaluation) -> str:
    tiles = interval_tiles(
        (f"within {ms:g} ms", *_limits(evaluation.within[ms])) for ms in _TILES_MS if ms in evaluation.within
    )
    shares = [
        (f"{ms:g} ms", *_percent(one), *_percent(evaluation.within_frames[ms]))
        for ms, one in evaluation.within.items()
    ]
    times = [
        (name, f"{one.value:{'+' if name == 'bias' else ''}.1f}", _interval(one, 1.0))
        for name in ("mean", "median", "bias")
        for one in [evaluation.estimates[name]]
    ]
    label = "The share of boundaries within each tolerance; the table has the numbers."
    signed = (
        f"How far boundaries are from the reference: mean {evaluation.mean_ms.value:.1f} ms, "
        f"bias {evaluation.bias_ms.value:+.1f} ms."
    )
    figures = svg_figure("tolerances", partial(plot_tolerances, evaluation), label, label, width=4.6)
    figures += svg_figure(
        "boundary-errors", partial(plot_boundary_errors, evaluation), signed, signed, width=4.6
    )
    head = ["tolerance", "true ms, %", "95 % interval", "10 ms frames, %", "95 % interval"]
    caption = "Boundaries within a tolerance, in true milliseconds and rounded to frames as papers count"
    why = "" if all(one.has_interval for one in evaluation.estimates.values()) else _NO_INTERVAL
    return (
        f'{tiles}<div class="figures">{figures}</div><div class="columns">'
        + table(caption, head, shares)
        + table("Distances in ms (bias: positive is late)", ["", "ms", "95 % interval"], times)
        + f"</div>{why}"
    )


def _limits(one: Estimate) -> tuple[float, float, float]:
    return one.value, *((one.low, one.high) if one.has_interval else (np.nan, np.nan))


def _percent(one: Estimate) -> tuple[str, str]:
    return f"{100 * one.value:.1f}", _interval(one, 100.0)


def _interval(one: Estimate, unit: float) -> str:
    return f"{unit * one.low:.1f} to {unit * one.high:.1f}" if one.has_interval else "–"


def _confidence(starts: AlignedStarts) -> str:
    if not len(starts.confidence):
        return ""
    note = (
        "A start is right if it is within 20 ms of the reference; its confidence is the probability of that."
    )
    return calibration_section(starts.calibration(), "confidence of a start", "starts", [note])


def _classes(evaluation: AlignmentEvaluation) -> str:
    labels = {label for one in evaluation.utterances for label in (*one.left, *one.right)}
    found = class_errors(evaluation, folding("broad", labels, unknown="other"))
    texts, shares = class_texts(found), class_shares(found).tolist()
    cells = [
        [(f"{text} ({n:.0f})" if text else "", share) for text, share, n in zip(*row, strict=True)]
        for row in zip(texts, shares, found.counts.tolist(), strict=True)
    ]
    caption = (
        "Mean absolute error in ms (and number) of boundaries, by the class of the phone that ends (row) and "
        "of the phone that starts (column)"
    )
    return heat_table(caption, "from", found.classes, found.classes, cells)


def _worst(starts: AlignedStarts) -> str:
    unsure = np.argsort(starts.confidence, kind="stable")[:_WORST]
    far = np.argsort(-np.abs(starts.errors_ms), kind="stable")[:_WORST]
    tables = _boundary_table("The starts that the aligner doubts most", starts, unsure)
    tables += _boundary_table("The starts that are farthest from the reference", starts, far)
    return f'<div class="columns">{tables}</div>'


def _boundary_table(caption: str, starts: AlignedStarts, chosen: IntArray) -> str:
    rows = [
        (
            starts.ids[i],
            f"{isolated(starts.left[i])} | {isolated(starts.right[i])}",
            f"{starts.errors_ms[i]:+.0f}",
            f"{starts.confidence[i]:.3f}",
            f"{starts.reference[i]:.3f}",
            f"{starts.predicted[i]:.3f}",
        )
        for i in chosen.tolist()
    ]
    head = ["recording", "between", "error, ms", "confidence", "reference, s", "predicted, s"]
    return table(caption, head, rows, words=[1])


def _recordings(evaluation: AlignmentEvaluation) -> str:
    """Those with the largest errors, and those that could not be compared."""
    some = [one for one in evaluation.utterances if len(one)]
    worst = sorted(some, key=lambda one: -float(np.abs(one.seconds).mean()))[:_RECORDINGS]
    rows = [
        (
            one.id,
            f"{len(one):,}",
            f"{1e3 * np.abs(one.seconds).mean():.1f}",
            f"{1e3 * np.abs(one.seconds).max():.0f}",
        )
        for one in worst
    ]
    parts = table("By their mean error", ["recording", "boundaries", "mean, ms", "largest, ms"], rows)
    left: Sequence[tuple[str, str]] = evaluation.left_out
    if left:
        parts += table("Left out, and why", ["recording", "reason"], left, words=[1])
    return parts
