"""The worst graphs of a labeller: images as pictures, other graphs node by node with their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.report.figures import INK, WRONG
from trellis.report.graph_plots import unit_shades
from trellis.report.label_statistics import Confusion, label_probabilities
from trellis.report.pages.grid_pictures import LARGEST_SIDE, label_picture, legend, shade_picture
from trellis.report.pages.page_parts import details
from trellis.report.pages.sections.error_articles import (
    MOST_ITEMS,
    error_articles,
    labelled_item,
    ordered_errors,
)
from trellis.structures.graph.scores.graph_features import Graph

_NEIGHBOURS = 8
_AT_ONCE = 12  # nodes of a graph that are shown at once; the others are folded


@dataclass(frozen=True)
class GraphAnswers:
    """Graphs with the gold and the predicted labels of their nodes, and the marginals (nodes, labels)."""

    graphs: Sequence[Graph]
    gold: Sequence[list[Any]]
    predicted: Sequence[list[Any]]
    marginals: Sequence[FloatArray]
    classes: list[Any]

    @cached_property
    def known(self) -> list[NDArray[np.bool_]]:
        """Whether the label of a node is known: neither None nor one of several."""
        return [
            np.array([a is not None and not isinstance(a, set | frozenset) for a in labels], np.bool_)
            for labels in self.gold
        ]

    def of_known(self, labels: Sequence[list[Any]]) -> list[list[Any]]:
        return [
            [label for label, keep in zip(row, known, strict=True) if keep]
            for row, known in zip(labels, self.known, strict=True)
        ]


def graph_errors(answers: GraphAnswers, sure: Sequence[FloatArray], pairs: Confusion) -> str:
    gold, predicted = answers.of_known(answers.gold), answers.of_known(answers.predicted)
    known = [p[keep] for p, keep in zip(answers.marginals, answers.known, strict=True)]
    truth = label_probabilities(gold, known, answers.classes)

    def bodies(chosen: Sequence[int]) -> dict[int, str]:
        return {
            i: _image(answers, i) if _is_image(answers.graphs[i]) else _nodes(answers, i, pairs)
            for i in chosen
        }

    note = (
        legend(answers.classes)
        if any(map(_is_image, answers.graphs))
        else '<p class="dim">Below a node is its gold label; where the answer is wrong or in doubt, the most '
        "probable labels.</p>"
    )
    return error_articles("graph", gold, predicted, sure, truth, pairs, bodies, note)


def _is_image(graph: Graph) -> bool:
    return graph.shape is not None and min(graph.shape) > 1


def _image(answers: GraphAnswers, i: int) -> str:
    graph = answers.graphs[i]
    shape = graph.shape or (0, 0)
    codes = {label: k for k, label in enumerate(answers.classes)}
    gold, predicted, known = answers.gold[i], answers.predicted[i], answers.known[i]
    (truth,) = label_probabilities(
        [[a if keep else b for a, b, keep in zip(gold, predicted, known, strict=True)]],
        [answers.marginals[i]],
        answers.classes,
    )
    wrong = [keep and a != b for a, b, keep in zip(gold, predicted, known, strict=True)]
    size = f"{shape[0]} by {shape[1]} pixels"
    if max(shape) > LARGEST_SIDE:
        size += f", of which the upper left corner of {LARGEST_SIDE} is drawn"
    labels = {"Gold": gold, "Predicted": predicted}
    pictures = [
        shade_picture(
            unit_shades(graph.nodes[:, 0]).reshape(shape),
            INK,
            f"The first feature of the nodes, {size}; stronger means larger.",
            "First feature",
        )
    ]
    for name, row in labels.items():
        numbers = np.array([codes.get(label, -1) if _hashable(label) else -1 for label in row]).reshape(shape)
        pictures.append(label_picture(numbers, f"{name} labels, {size}. {_shares(row)}", name))
    doubt = np.where(known, 1.0 - truth, 0.0).reshape(shape)
    of_wrong = _mean(doubt.ravel(), wrong)
    said = f"Doubt, 1 - P(gold label), {size}; mean {doubt.mean():.3f}, over wrong nodes {of_wrong}."
    pictures.append(shade_picture(doubt, WRONG, said, f"1 - P(gold); mean {doubt.mean():.3f}"))
    return f'<div class="grids">{"".join(pictures)}</div>'


def _nodes(answers: GraphAnswers, i: int, pairs: Confusion) -> str:
    """Some nodes in their order: those that are wrong, with their neighbours, first; others unfold."""
    graph, known = answers.graphs[i], answers.known[i]
    truth = [
        a if keep else b for a, b, keep in zip(answers.gold[i], answers.predicted[i], known, strict=True)
    ]
    around: list[list[int]] = [[] for _ in range(graph.n_nodes)]
    for a, b in graph.edges.tolist():
        around[a].append(b)
        around[b].append(a)
    first, others = ordered_errors(truth, answers.predicted[i], pairs)
    wrong = [*first, *others]
    order = dict.fromkeys([*wrong, *(n for t in wrong for n in around[t]), *range(graph.n_nodes)])
    ranked = list(order)
    shown, folded, left = ranked[:_AT_ONCE], ranked[_AT_ONCE:MOST_ITEMS], ranked[MOST_ITEMS:]

    def items(nodes: Sequence[int]) -> str:
        rows = [_node_item(answers, i, t, truth[t], around[t]) for t in sorted(nodes)]
        return f'<ol class="steps">{"".join(rows)}</ol>'

    text = items(shown)
    if folded:
        text += details(_more(folded, wrong), items(folded))
    return text + (f'<p class="dim">Not shown: {_more(left, wrong)}.</p>' if left else "")


def _node_item(answers: GraphAnswers, i: int, t: int, truth: Any, neighbours: Sequence[int]) -> str:
    near = sorted(set(neighbours))
    few = ", …" if len(near) > _NEIGHBOURS else ""
    about = f"joined to {', '.join(map(str, near[:_NEIGHBOURS]))}{few}" if near else ""
    predicted, shares = answers.predicted[i][t], answers.marginals[i][t]
    return labelled_item(f"node {t}", truth, predicted, shares, answers.classes, about)


def _more(nodes: Sequence[int], wrong: Sequence[int]) -> str:
    n_wrong = len(set(wrong).intersection(nodes))
    noun = "node" if len(nodes) == 1 else "nodes"
    return f"{len(nodes):,} more {noun}, {f'{n_wrong:,} of them wrong' if n_wrong else 'right'}"


def _shares(labels: Sequence[Any]) -> str:
    names = [str(label) for label in labels]
    found = {name: names.count(name) / max(len(names), 1) for name in dict.fromkeys(names)}
    return ", ".join(f"{name}: {100 * share:.0f} %" for name, share in list(found.items())[:8])


def _mean(values: FloatArray, chosen: Sequence[bool]) -> str:
    some = values[np.array(chosen, np.bool_)]
    return f"{some.mean():.3f}" if len(some) else "none"


def _hashable(label: Any) -> bool:
    return not isinstance(label, set)
