"""The worst errors of a labeller in their sequences: the probabilities in place, and the best labellings.

Shown are the sequences with the most confident errors (``worst_sequences``) and, so that each frequent
confusion can be looked at, two with each of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.report.label_statistics import Confusion, Labels, label_probabilities, worst_sequences
from trellis.report.pages.page_parts import details, escaped, table
from trellis.report.pages.step_words import step_words
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor

_WORST, _CONFUSIONS, _OF_EACH, _K_BEST, _TOP = 10, 12, 2, 4, 3
_DOUBTFUL = 0.8  # below it the probabilities of a right label are shown as well


def errors_section(
    model: ChainPredictor,
    X: Any,
    gold: Labels,
    predicted: Labels,
    marginals: Sequence[FloatArray],
    sure: Sequence[FloatArray],
    pairs: Confusion,
) -> str:
    classes = list(model.classes_)
    truth = label_probabilities(gold, marginals, classes)
    ranked = worst_sequences(gold, predicted, sure, truth, len(gold))
    if not ranked:
        return "<p>Every label is right.</p>"
    wrong = {i: {(a, b) for a, b in zip(gold[i], predicted[i], strict=True) if a != b} for i in ranked}
    frequent = pairs.most_frequent(_CONFUSIONS)
    chosen = dict.fromkeys(ranked[:_WORST])
    for a, b, _ in frequent:
        chosen |= dict.fromkeys([i for i in ranked if (a, b) in wrong[i]][:_OF_EACH])
    words = step_words(X, [len(row) for row in gold])
    best = _best_labellings(model, X, chosen)
    articles = []
    for rank, i in enumerate(chosen):
        kinds = [str(k) for k, (a, b, _) in enumerate(frequent) if (a, b) in wrong[i]]
        steps = [
            _step(words[i][t], gold[i][t], predicted[i][t], marginals[i][t], classes)
            for t in range(len(gold[i]))
        ]
        n_wrong = sum(a != b for a, b in zip(gold[i], predicted[i], strict=True))
        articles.append(
            f'<article data-kinds="{" ".join(kinds)}"{" hidden" if rank >= _WORST else ""}>'
            f"<h3>Sequence {i + 1:,}: {n_wrong} of {len(gold[i])} wrong</h3>"
            f'<ol class="steps">{"".join(steps)}</ol>{_ranking(best.get(i), gold[i])}</article>'
        )
    options = "".join(
        f'<option value="{k}">{escaped(a)} read as {escaped(b)} ({n:,})</option>'
        for k, (a, b, n) in enumerate(frequent)
    )
    return (
        f'<div class="bar"><label>Show <select id="kind"><option value="">the most confident errors</option>'
        f"{options}</select></label></div>"
        '<p class="dim">Below a word is its gold label; where the answer is wrong or in doubt, the most '
        f'probable labels.</p><p id="shown" role="status"></p>{"".join(articles)}'
    )


def _step(word: str, gold: Any, predicted: Any, shares: FloatArray, classes: Sequence[Any]) -> str:
    right = gold == predicted
    top = np.argsort(-shares, kind="stable")[:_TOP]
    bars = ""
    if not right or shares[top[0]] < _DOUBTFUL:
        bars = "".join(
            f'<span class="share{" chosen" if classes[k] == predicted else ""}" '
            f'style="--share:{shares[k]:.3f}">{escaped(classes[k])} <b>{shares[k]:.2f}</b></span>'
            for k in top.tolist()
        )
    name = "right" if right else "wrong"
    instead = "" if right else f" <em>read as {escaped(predicted)}</em>"
    return (
        f'<li class="{name}"><b class="word">{escaped(word)}</b>'
        f'<span class="gold">{escaped(gold)}{instead}</span>{bars}</li>'
    )


def _best_labellings(
    model: ChainPredictor, X: Any, chosen: dict[int, None]
) -> dict[int, list[tuple[list[Any], float]]]:
    """The k best labellings of the chosen sequences with their probabilities; none with latent states."""
    if not model.latent_.plain:
        return {}
    ranked, first = model.predict_k_best(X, _K_BEST), model.predict_log_proba(X)
    return {
        i: [(labels, math.exp(score - ranked[i][0][1] + first[i])) for labels, score in ranked[i]]
        for i in chosen
    }


def _ranking(found: list[tuple[list[Any], float]] | None, gold: Sequence[Any]) -> str:
    if not found:
        return ""
    rows = []
    for rank, (labels, share) in enumerate(found, 1):
        apart = [(t, a, b) for t, (a, b) in enumerate(zip(gold, labels, strict=True), 1) if a != b]
        said = ", ".join(f"{t}: {a} read as {b}" for t, a, b in apart) or "all labels right"
        rows.append((rank, f"{share:.4f}", len(apart), said))
    header = ["rank", "probability", "wrong", "steps that differ from gold"]
    return details(f"The {len(found)} best labellings", table("By their score", header, rows, words=[3]))
