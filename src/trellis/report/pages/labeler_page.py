"""The page of a labeller of sequences on labelled data: scores, training, confusions, weights and errors.

Every kind of labeller of chains has the page; those with linear scores also show transitions and features.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.data.labels import flatten_labels
from trellis.report.evaluation import Evaluation, evaluate_labels
from trellis.report.label_statistics import Confusion, calibration, confusion, label_probabilities
from trellis.report.pages.page_parts import counted, escaped, facts_list, heat_table, page
from trellis.report.pages.sections.label_sections import (
    Units,
    calibration_section,
    confusion_section,
    few_labels,
    label_counts_fact,
    probability_notes,
    scores_section,
    shown_labels,
)
from trellis.report.pages.sections.labeler_errors import errors_section
from trellis.report.pages.sections.stage_sections import PageStages
from trellis.report.pages.sections.training_sections import training_facts, training_section
from trellis.report.plots import transition_shares, transition_texts
from trellis.structures.chain.labeler.chain_labeler import ChainLabeler
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor

_FEATURES = 8
_UNITS = Units("steps", "sequences")


def labeler_page(
    model: ChainPredictor, X: Any, y: Any, *, title: str, stages: PageStages | None = None
) -> str:
    """The text of the page; ``y`` has every label."""
    if X is None or y is None:
        raise DataError(f"the page of a {type(model).__name__} needs labelled sequences; give X and y")
    stages = PageStages() if stages is None else stages
    flat = flatten_labels(y)
    gold = [flat.labels[a:b] for a, b in pairwise(flat.offsets.tolist())]
    with stages.measure("encoding and scoring", f"{len(gold):,} sequences"):
        model.scores(X)
    with stages.measure("predicting", "the same, and the best labelling of each"):
        predicted = model.predict(X)
    evaluation = evaluate_labels(gold, predicted)  # checks the lengths as well
    with stages.measure("marginals", "the same, and the probabilities of all labels"):
        marginals = model.predict_marginals(X)
    sure = label_probabilities(predicted, marginals, list(model.classes_))
    right = np.array(
        [a == b for g, p in zip(gold, predicted, strict=True) for a, b in zip(g, p, strict=True)]
    )
    pairs = confusion(gold, predicted)
    found = calibration(np.concatenate(sure), right)
    linear = model if isinstance(model, ChainLabeler) else None
    shown = [] if linear is None else _shown_states(linear, pairs)
    sections = [
        ("summary", "Summary", facts_list(_facts(model, evaluation))),
        ("scores", "Scores", scores_section(evaluation, _UNITS)),
        ("confusion", "Confusion", confusion_section(pairs, _UNITS)),
        (
            "calibration",
            "Calibration",
            calibration_section(
                found, "probability of the predicted label", "steps", probability_notes(model)
            ),
        ),
        ("training", "Training", training_section(model)),
        ("transitions", "Transitions", "" if linear is None else _transitions(linear, shown)),
        ("features", "Strongest features", "" if linear is None else _features(linear, shown)),
        ("errors", "Errors", errors_section(model, X, gold, predicted, marginals, sure, pairs)),
        ("stages", "Cost of each stage", stages.section(model)),
    ]
    facts = (
        f"<b>{escaped(type(model).__name__)}</b> · {counted(evaluation.n_sequences, 'sequence')} · "
        f"{counted(evaluation.n_tokens, 'step')} · {counted(len(model.classes_), 'label')}"
    )
    return page(title, facts, sections, styles=["labeler.css"], scripts=["labeler.js"])


def _facts(model: ChainPredictor, evaluation: Evaluation) -> list[tuple[str, object]]:
    facts = training_facts(model)
    if isinstance(model, ChainLabeler):
        size = f"{model.encoder_.n_features:,} features, {len(model.weights_):,} weights"
        facts.append(("size", size))
    return [*facts, ("data", label_counts_fact(evaluation, _UNITS))]


def _shown_states(model: ChainLabeler, pairs: Confusion) -> list[int]:
    """The states of the labels that are most frequent in the data, where there are too many for a table."""
    labels = set(model.classes_)
    return shown_labels([s if s in labels else s[0] for s in model.latent_.states.labels], pairs.labels)


def _transitions(model: ChainLabeler, shown: Sequence[int]) -> str:
    scores: FloatArray = model.transition_table()[np.ix_(shown, shown)]
    every = _state_names(model)
    names = [every[i] for i in shown]
    cells = [
        list(zip(texts, shares, strict=True))
        for texts, shares in zip(transition_texts(scores), transition_shares(scores).tolist(), strict=True)
    ]
    few = few_labels(len(names), len(every))
    return heat_table(
        f"Scores of transitions from the row to the column{few}; a dot is forbidden",
        "from",
        names,
        names,
        cells,
    )


def _features(model: ChainLabeler, shown: Sequence[int]) -> str:
    blocks: list[str] = []
    every, strongest = _state_names(model), list(model.strongest_weights(_FEATURES).values())
    for i in shown:
        name, top = every[i], strongest[i]
        if not top:
            continue
        largest = max(abs(weight) for _, weight in top) or 1.0
        items = "".join(
            f'<li style="--side:var({"--low" if weight < 0 else "--wave"});'
            f'--share:{abs(weight / largest):.3f}"><span>{escaped(feature)}</span><b>{weight:+.3f}</b></li>'
            for feature, weight in top
        )
        blocks.append(f"<div><h3>{escaped(name)}</h3><ol>{items}</ol></div>")
    few = few_labels(len(shown), len(every))
    note = f'<p class="dim">The strongest weights{few}.</p>' if few else ""
    return f'{note}<div class="features">{"".join(blocks)}</div>'


def _state_names(model: ChainLabeler) -> Sequence[str]:
    """A label by its name, one of its latent states as LABEL/NUMBER."""
    labels = set(model.classes_)
    return [str(s) if s in labels else f"{s[0]}/{s[1]}" for s in model.latent_.states.labels]
