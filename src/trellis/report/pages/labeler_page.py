"""The page of a labeller of sequences on labelled data: scores, training, confusions, weights and errors.

Every kind of labeller of chains has the page; those with linear scores also show transitions and features.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.report.evaluation import Evaluation, evaluate_labels
from trellis.report.label_statistics import (
    Calibration,
    Confusion,
    calibration,
    confusion,
    label_probabilities,
)
from trellis.report.pages.labeler_errors import errors_section
from trellis.report.pages.page_parts import details, escaped, facts_list, heat_table, page, table
from trellis.report.pages.svg_figures import svg_figure
from trellis.report.plots import (
    MEASURES,
    plot_calibration,
    plot_training,
    shown_measures,
    transition_shares,
    transition_texts,
)
from trellis.structures.chain.labeler.chain_labeler import ChainLabeler
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor

_MOST_LABELS = 25
_FEATURES = 8
_SILENT = ("n_jobs", "verbose", "checkpoint", "period")  # options that do not change what is learned
_CAPTIONS = {
    "objective": "What training minimised, by iteration.",
    "gap": "How far training was from the optimum, by iteration.",
    "holdout": "The task loss on sequences held out of training, by iteration.",
}


def labeler_page(model: ChainPredictor, X: Any, y: Any, *, title: str) -> str:
    """The text of the page; ``y`` has every label."""
    gold = [list(labels) for labels in y]
    predicted = model.predict(X)
    evaluation = evaluate_labels(gold, predicted)  # checks the lengths as well
    marginals = model.predict_marginals(X)
    sure = label_probabilities(predicted, marginals, list(model.classes_))
    right = np.array(
        [a == b for g, p in zip(gold, predicted, strict=True) for a, b in zip(g, p, strict=True)]
    )
    pairs = confusion(gold, predicted)
    linear = model if isinstance(model, ChainLabeler) else None
    sections = [
        ("summary", "Summary", facts_list(_facts(model, evaluation))),
        ("scores", "Scores", _scores(evaluation)),
        ("confusion", "Confusion", _confusion(pairs)),
        ("calibration", "Calibration", _calibration(calibration(np.concatenate(sure), right), model)),
        ("training", "Training", _training(model)),
        ("transitions", "Transitions", "" if linear is None else _transitions(linear)),
        ("features", "Strongest features", "" if linear is None else _features(linear)),
        ("errors", "Errors", errors_section(model, X, gold, predicted, marginals, sure, pairs)),
    ]
    facts = (
        f"<b>{escaped(type(model).__name__)}</b> · <b>{evaluation.n_sequences:,}</b> sequences · "
        f"<b>{evaluation.n_tokens:,}</b> steps · <b>{len(model.classes_)}</b> labels"
    )
    return page(title, facts, sections, styles=["labeler.css"], scripts=["labeler.js"])


def _facts(model: ChainPredictor, evaluation: Evaluation) -> list[tuple[str, object]]:
    seconds = model.history_.get("seconds", [])
    facts: list[tuple[str, object]] = [
        ("model", type(model).__name__),
        (
            "options",
            ", ".join(f"{name}={value}" for name, value in _options(model).items()) or "all by default",
        ),
        ("training", model.status_),
    ]
    if solver := getattr(model, "solver_", None):
        facts.append(("solver", solver))
    if len(seconds):
        facts.append(("time of training", _duration(float(seconds[-1]))))
    if isinstance(model, ChainLabeler):
        size = f"{model.encoder_.n_features:,} features, {len(model.weights_):,} weights"
        facts.append(("size", size))
    wrong = round((1.0 - evaluation.tokens_right.value) * evaluation.n_tokens)
    facts.append(
        (
            "data",
            f"{evaluation.n_sequences:,} sequences, {evaluation.n_tokens:,} steps, {wrong:,} of them wrong",
        )
    )
    return facts


def _options(model: ChainPredictor) -> dict[str, Any]:
    """The objective and the loss, and options that are not the default."""
    declared = inspect.signature(type(model)).parameters
    shown = {}
    for name, value in model.get_params(deep=False).items():
        default = declared[name].default if name in declared else inspect.Parameter.empty
        plain = isinstance(value, str | int | float | bool | None)
        if name in _SILENT:
            continue
        if name in ("objective", "loss", "l2") or (plain and value != default):
            shown[name] = value
    return shown


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 1 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} minutes"


def _scores(evaluation: Evaluation) -> str:
    figures = {
        "span F1": evaluation.span_f1,
        "steps right": evaluation.tokens_right,
        "sequences right": evaluation.sequences_right,
    }
    tiles = "".join(
        f"<div><dt>{name}</dt><dd><b>{100 * found.value:.2f} %</b>"
        f"95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}</dd></div>"
        for name, found in figures.items()
        if found is not None
    )
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
    return f'<dl class="tiles">{tiles}</dl>' + table(f"By {kind}, in percent, and counts", header, rows)


def _confusion(found: Confusion) -> str:
    shown = found.counts[:_MOST_LABELS, :_MOST_LABELS]
    sums = np.maximum(found.counts[:_MOST_LABELS].sum(axis=1), 1)
    cells = []
    for i, row in enumerate(shown.tolist()):
        # what is right has one colour, what is wrong the other: the root makes rare confusions visible
        shares = [(n / sums[i]) ** 0.5 * (1 if i == j else -1) for j, n in enumerate(row)]
        cells.append([(f"{n:,}" if n else "", share) for n, share in zip(row, shares, strict=True)])
    names = found.labels[:_MOST_LABELS]
    few = f", the {len(names)} most frequent labels" if len(found.labels) > len(names) else ""
    return heat_table(
        f"Steps by gold label (row) and predicted label (column){few}", "gold", names, names, cells
    )


def _calibration(found: Calibration, model: ChainPredictor) -> str:
    rows = [
        (f"{low:.1f} to {high:.1f}", f"{n:,}", f"{sure:.3f}", f"{right:.3f}")
        for low, high, n, sure, right in zip(
            found.edges[:-1], found.edges[1:], found.counts, found.confidence, found.accuracy, strict=True
        )
        if n
    ]
    label = (
        "Calibration: the share of right labels against their probability; the table below has the numbers."
    )
    note = ""
    if getattr(model, "objective", "log") != "log":
        note = (
            " The model was not trained for probabilities: these are of the log-linear model with its scores."
        )
    return (
        f"<p>Expected calibration error <b>{found.error:.4f}</b>: how far, on average over steps, the "
        f"probability of the predicted label is from the share of right labels.{note}</p>"
        + svg_figure(
            "calibration", lambda ax: plot_calibration(found, ax), label, "Larger dots have more steps."
        )
        + details("The numbers", table(label[:11], ["probability", "steps", "mean", "right"], rows))
    )


def _training(model: ChainPredictor) -> str:
    measures = shown_measures(model.history_)
    figures = "".join(
        svg_figure(
            f"training-{measure}",
            partial(plot_training, model, measure=measure),
            f"{_CAPTIONS[measure]} {_ends(model.history_, measure)}",
            _CAPTIONS[measure],
            width=4.2,
            height=2.6,
        )
        for measure in measures
    )
    return f'<p>Training {escaped(str(model.status_))}.</p><div class="figures">{figures}</div>'


def _ends(history: dict[str, list[float]], measure: str) -> str:
    said = [
        f"{name} from {history[key][0]:.4g} to {history[key][-1]:.4g}"
        for key, name in MEASURES[measure].items()
        if len(history.get(key, ()))
    ]
    return "; ".join(said)


def _transitions(model: ChainLabeler) -> str:
    scores: FloatArray = model.transition_table()[:_MOST_LABELS, :_MOST_LABELS]
    names = _state_names(model)[:_MOST_LABELS]
    cells = [
        list(zip(texts, shares, strict=True))
        for texts, shares in zip(transition_texts(scores), transition_shares(scores).tolist(), strict=True)
    ]
    few = f", the first {len(names)} labels" if len(model.latent_.states.labels) > len(names) else ""
    return heat_table(
        f"Scores of transitions from the row to the column{few}; a dot is forbidden",
        "from",
        names,
        names,
        cells,
    )


def _features(model: ChainLabeler) -> str:
    blocks: list[str] = []
    for name, top in zip(_state_names(model), model.strongest_weights(_FEATURES).values(), strict=True):
        if not top or len(blocks) == _MOST_LABELS:
            continue
        largest = max(abs(weight) for _, weight in top) or 1.0
        items = "".join(
            f'<li style="--side:var({"--low" if weight < 0 else "--wave"});'
            f'--share:{abs(weight / largest):.3f}"><span>{escaped(feature)}</span><b>{weight:+.3f}</b></li>'
            for feature, weight in top
        )
        blocks.append(f"<div><h3>{escaped(name)}</h3><ol>{items}</ol></div>")
    return f'<div class="features">{"".join(blocks)}</div>'


def _state_names(model: ChainLabeler) -> Sequence[str]:
    """A label by its name, one of its latent states as LABEL/NUMBER."""
    labels = set(model.classes_)
    return [str(s) if s in labels else f"{s[0]}/{s[1]}" for s in model.latent_.states.labels]
