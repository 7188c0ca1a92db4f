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
from trellis.report.pages.page_parts import escaped, isolated

MOST_ITEMS = 60  # of an example that are shown
_WORST, _CONFUSIONS, _OF_EACH, _TOP, _AROUND = 10, 12, 2, 3, 2
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
        f'<option value="{k}">{escaped(isolated(a))} read as {escaped(isolated(b))} ({n:,})</option>'
        for k, (a, b, n) in enumerate(frequent)
    )
    return (
        f'<div class="bar"><label>Show <select id="kind" data-unit="{unit}">'
        f'<option value="">the most confident errors</option>{options}</select></label></div>'
        f'{note}<p id="shown" role="status"></p>{"".join(articles)}'
    )


def near_errors(gold: Sequence[Any], predicted: Sequence[Any], pairs: Confusion) -> list[int]:
    """Which steps of a long sequence are shown, in their order: those at most two steps from errors.

    The first error of each frequent confusion is always among them, so that who chooses it finds it. Others
    follow until there are ``MOST_ITEMS``.
    """
    if len(gold) <= MOST_ITEMS:
        return list(range(len(gold)))
    first, others = ordered_errors(gold, predicted, pairs)
    chosen: set[int] = set()
    for t in [*first, *others]:
        near = range(max(0, t - _AROUND), min(len(gold), t + _AROUND + 1))
        if t in first or len(chosen.union(near)) <= MOST_ITEMS:
            chosen.update(near)
    return sorted(chosen)


def ordered_errors(
    gold: Sequence[Any], predicted: Sequence[Any], pairs: Confusion
) -> tuple[list[int], list[int]]:
    """Where errors are: the first of each confusion that the menu offers, and all others."""
    sought = {(a, b) for a, b, _ in pairs.most_frequent(_CONFUSIONS)}
    first, others = [], []
    for t, pair in enumerate(zip(gold, predicted, strict=True)):
        if pair[0] == pair[1]:
            continue
        if pair in sought:
            first.append(t)
            sought.remove(pair)
        else:
            others.append(t)
    return first, others


def gap_item(first: int, last: int, n_wrong: int) -> str:
    """What stands for the steps that are left out, counted from 1."""
    place = f"step {first:,}" if first == last else f"steps {first:,} to {last:,}"
    return f'<li class="gap dim">{place}: {f"{n_wrong:,} wrong" if n_wrong else "right"}</li>'


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
    instead = "" if right else f" <em>read as {escaped(isolated(predicted))}</em>"
    return (
        f'<li class="{"right" if right else "wrong"}"><b class="word">{escaped(name)}</b>'
        f'<span class="gold">{escaped(isolated(gold))}{instead}</span>{bars}'
        + (f'<small class="dim">{escaped(about)}</small></li>' if about else "</li>")
    )
