"""The worst errors, an article each, with a menu that chooses a confusion.

Shown are the examples with the most confident errors (``worst_sequences``) and, so that each frequent
confusion can be looked at, two with each of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.report.label_statistics import Confusion, Labels, worst_sequences
from trellis.report.pages.page_parts import escaped

_WORST, _CONFUSIONS, _OF_EACH, _TOP = 10, 12, 2, 3
_DOUBTFUL = 0.8  # below it the probabilities of a right label are shown as well


def error_articles(
    unit: str,
    gold: Labels,
    predicted: Labels,
    sure: Sequence[FloatArray],
    truth: Sequence[FloatArray],
    pairs: Confusion,
    bodies: Callable[[Sequence[int]], Mapping[int, str]],
    note: str = "",
) -> str:
    """``bodies`` gives the HTML of the chosen examples; ``unit`` is what one is called. ``note``: HTML."""
    ranked = worst_sequences(gold, predicted, sure, truth, len(gold))
    if not ranked:
        return "<p>Every label is right.</p>"
    wrong = {i: {(a, b) for a, b in zip(gold[i], predicted[i], strict=True) if a != b} for i in ranked}
    frequent = pairs.most_frequent(_CONFUSIONS)
    chosen = dict.fromkeys(ranked[:_WORST])
    for a, b, _ in frequent:
        chosen |= dict.fromkeys([i for i in ranked if (a, b) in wrong[i]][:_OF_EACH])
    content = bodies(list(chosen))
    articles = []
    for rank, i in enumerate(chosen):
        kinds = [str(k) for k, (a, b, _) in enumerate(frequent) if (a, b) in wrong[i]]
        n_wrong = sum(a != b for a, b in zip(gold[i], predicted[i], strict=True))
        articles.append(
            f'<article data-kinds="{" ".join(kinds)}"{" hidden" if rank >= _WORST else ""}>'
            f"<h3>{unit.capitalize()} {i + 1:,}: {n_wrong:,} of {len(gold[i]):,} wrong</h3>"
            f"{content[i]}</article>"
        )
    options = "".join(
        f'<option value="{k}">{escaped(a)} read as {escaped(b)} ({n:,})</option>'
        for k, (a, b, n) in enumerate(frequent)
    )
    return (
        f'<div class="bar"><label>Show <select id="kind" data-unit="{unit}">'
        f'<option value="">the most confident errors</option>{options}</select></label></div>'
        f'{note}<p id="shown" role="status"></p>{"".join(articles)}'
    )


def labelled_item(
    name: str, gold: Any, predicted: Any, shares: FloatArray, classes: Sequence[Any], about: str = ""
) -> str:
    """A word or a node with its gold label, and the most probable labels where it is wrong or in doubt."""
    right = gold == predicted
    bars = ""
    if not right or shares.max() < _DOUBTFUL:
        bars = "".join(
            f'<span class="share{" chosen" if classes[k] == predicted else ""}" '
            f'style="--share:{shares[k]:.3f}">{escaped(classes[k])} <b>{shares[k]:.2f}</b></span>'
            for k in np.argsort(-shares, kind="stable")[:_TOP].tolist()
        )
    instead = "" if right else f" <em>read as {escaped(predicted)}</em>"
    return (
        f'<li class="{"right" if right else "wrong"}"><b class="word">{escaped(name)}</b>'
        f'<span class="gold">{escaped(gold)}{instead}</span>{bars}'
        + (f'<small class="dim">{escaped(about)}</small></li>' if about else "</li>")
    )
