"""The worst errors of a labeller in their sequences: the probabilities in place, and the best labellings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from trellis.core.arrays import FloatArray
from trellis.report.label_statistics import Confusion, Labels, label_probabilities
from trellis.report.pages.page_parts import details, isolated, table
from trellis.report.pages.sections.chosen_sequences import chosen_sequences
from trellis.report.pages.sections.error_articles import (
    error_articles,
    gap_item,
    labelled_item,
    near_errors,
)
from trellis.report.pages.sections.step_words import step_words
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor

_K_BEST = 4
_DIFFERENCES = 12  # of a labelling that are told


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

    def bodies(chosen: Sequence[int]) -> dict[int, str]:
        words, best = step_words(X, [len(row) for row in gold]), _best_labellings(model, X, chosen)
        shown = {}
        for i in chosen:
            rows = list(zip(words[i], gold[i], predicted[i], marginals[i], strict=True))
            items = {t: labelled_item(*rows[t], classes) for t in near_errors(gold[i], predicted[i], pairs)}
            steps = _with_gaps(items, [a != b for a, b in zip(gold[i], predicted[i], strict=True)])
            shown[i] = f'<ol class="steps">{steps}</ol>{_ranking(best.get(i), gold[i])}'
        return shown

    note = (
        '<p class="dim">Below a word is its gold label; where the answer is wrong or in doubt, the most '
        "probable labels.</p>"
    )
    truth = label_probabilities(gold, marginals, classes)
    return error_articles("sequence", gold, predicted, sure, truth, pairs, bodies, note)


def _with_gaps(items: Mapping[int, str], wrong: Sequence[bool]) -> str:
    """The steps that are shown, in their order, and between them what is left out."""
    found, at = [], 0
    for t, item in [*items.items(), (len(wrong), "")]:
        if t > at:
            found.append(gap_item(at + 1, t, sum(wrong[at:t])))
        found.append(item)
        at = t + 1
    return "".join(found)


def _best_labellings(
    model: ChainPredictor, X: Any, chosen: Sequence[int]
) -> dict[int, list[tuple[list[Any], float]]]:
    """The k best labellings of the chosen sequences with their probabilities; none with latent states."""
    if not model.latent_.plain:
        return {}
    few = chosen_sequences(X, chosen)
    ranked, shares = model.predict_k_best(few, _K_BEST), model.predict_log_proba(few)
    return {
        i: [(labels, math.exp(score - found[0][1] + first)) for labels, score in found]
        for i, found, first in zip(chosen, ranked, shares.tolist(), strict=True)
    }


def _ranking(found: list[tuple[list[Any], float]] | None, gold: Sequence[Any]) -> str:
    if not found:
        return ""
    rows = []
    for rank, (labels, share) in enumerate(found, 1):
        apart = [(t, a, b) for t, (a, b) in enumerate(zip(gold, labels, strict=True), 1) if a != b]
        said = ", ".join(f"{t}: {isolated(a)} read as {isolated(b)}" for t, a, b in apart[:_DIFFERENCES])
        if (left := len(apart) - _DIFFERENCES) > 0:
            said += f", and {left:,} more"
        rows.append((rank, f"{share:.4f}", len(apart), said or "all labels right"))
    header = ["rank", "probability", "wrong", "steps that differ from gold"]
    return details(f"The {len(found)} best labellings", table("By their score", header, rows, words=[3]))
