"""The page of a labeller of graphs on labelled graphs: scores, confusions, training, weights, worst graphs.

Nodes without a known label have no part in scores. Marginals are exact where that is possible; else they are
those of the tree-reweighted bound, and the page says so.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import ApproximationWarning, DataError, UnsupportedError
from trellis.report.evaluation import evaluate_labels
from trellis.report.label_statistics import calibration, confusion, label_probabilities
from trellis.report.pages.page_parts import counted, facts_list, heat_table, page
from trellis.report.pages.sections.graph_errors import GraphAnswers, graph_errors
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
from trellis.report.pages.sections.stage_sections import PageStages
from trellis.report.pages.sections.state_sections import matrix_table
from trellis.report.pages.sections.training_sections import training_facts, training_section
from trellis.report.plots import transition_shares, transition_texts
from trellis.structures.graph.labeler.graph_labeler import GraphLabeler
from trellis.structures.graph.labeler.labelled_graphs import checked_graphs, flat_labels
from trellis.structures.graph.oracle.graph_answers import GraphMarginals
from trellis.structures.graph.scores.graph_features import Graph

_UNITS = Units("nodes", "graphs")
_MOST_TABLES = 8


def graph_page(model: GraphLabeler, X: Any, y: Any, *, title: str, stages: PageStages | None = None) -> str:
    """The text of the page; labels in ``y`` may be None where they are not known."""
    if X is None or y is None:
        raise DataError("the page of a GraphLabeler needs labelled graphs; give X and y")
    stages = PageStages() if stages is None else stages
    graphs = checked_graphs(X)
    flat = flat_labels(graphs, y)
    with stages.measure("predicting", f"the best labelling of {len(graphs):,} graphs"):
        found = model.predict(graphs)
    with stages.measure("marginals", "the probabilities of all labels"):
        marginals, notes = _marginals(model, graphs)
    shares = [one.parts.unary for one in marginals]
    answers = GraphAnswers(
        graphs,
        [flat.labels[a:b] for a, b in pairwise(flat.offsets.tolist())],
        [one.ravel().tolist() for one in found],
        shares,
        list(model.classes_),
    )
    gold, predicted = answers.of_known(answers.gold), answers.of_known(answers.predicted)
    if not any(gold):
        raise DataError("no node has a known label to compare with; give at least one")
    evaluation, pairs = evaluate_labels(gold, predicted), confusion(gold, predicted)
    known = [p[keep] for p, keep in zip(shares, answers.known, strict=True)]
    sure = label_probabilities(predicted, known, answers.classes)
    right = [a == b for g, p in zip(gold, predicted, strict=True) for a, b in zip(g, p, strict=True)]
    judged = calibration(np.concatenate(sure), np.array(right))
    notes += probability_notes(model)
    shown = shown_labels(list(model.classes_), pairs.labels)
    sections = [
        ("summary", "Summary", facts_list([*_facts(model), ("data", label_counts_fact(evaluation, _UNITS))])),
        ("scores", "Scores", scores_section(evaluation, _UNITS)),
        ("confusion", "Confusion", confusion_section(pairs, _UNITS)),
        (
            "calibration",
            "Calibration",
            calibration_section(judged, "probability of the predicted label", "nodes", notes),
        ),
        ("training", "Training", training_section(model)),
        ("edges", "Edges", _edge_weights(model, shown)),
        ("node-weights", "Nodes", _node_weights(model, shown)),
        ("errors", "Worst graphs", graph_errors(answers, sure, pairs)),
        ("stages", "Cost of each stage", stages.section(model)),
    ]
    words = (
        f"<b>GraphLabeler</b> · {counted(len(graphs), 'graph')} · {counted(evaluation.n_tokens, 'node')} · "
        f"{counted(sum(len(graph.edges) for graph in graphs), 'edge')} · "
        f"{counted(len(answers.classes), 'label')}"
    )
    return page(title, words, sections, styles=["labeler.css"], scripts=["labeler.js"])


def _marginals(model: GraphLabeler, graphs: list[Graph]) -> tuple[list[GraphMarginals], list[str]]:
    """Those of the nodes, and what the page has to say about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)  # the page says it
        try:
            found = model.marginals(graphs)
        except UnsupportedError:  # too wide for exact sums
            found = model.marginals(graphs, "tree_reweighted")
    notes = []
    rough = [one for one in found if not one.exact]
    if rough:
        notes.append(
            f"The probabilities of {len(rough):,} graphs are approximate, by {rough[0].method!r}: exact sums "
            "over their labellings take too much work, or were not asked for."
        )
    unsure = sum(not one.status.converged for one in found)
    if unsure:
        notes.append(f"Those of {unsure:,} graphs have not converged.")
    return found, notes


def _facts(model: GraphLabeler) -> list[tuple[str, object]]:
    layout = model.layout_
    facts = [*training_facts(model), ("inference", getattr(model.inference, "method", model.inference))]
    if model.excess_ is not None:
        said = "none: every answer was exact" if model.excess_ == 0 else f"at most {model.excess_:.3g}"
        facts.append(("error of inference in the objective", said))
    size = (
        f"{layout.n_features:,} node and {layout.n_edge_features:,} edge features, "
        f"{layout.n_types:,} edge types, {len(model.weights_):,} weights"
    )
    return [*facts, ("size", size)]


def _edge_weights(model: GraphLabeler, shown: Sequence[int]) -> str:
    """A table of V for each type and feature of edges."""
    weights = model.layout_.edge_weights(model.weights_)
    names = [model.classes_[i] for i in shown]
    few = few_labels(len(names), len(model.classes_))
    blocks, places = [], list(np.ndindex(*weights.shape[:2]))
    for kind, feature in places[:_MOST_TABLES]:
        table: FloatArray = weights[kind, feature][np.ix_(shown, shown)]
        cells = [
            list(zip(texts, shares, strict=True))
            for texts, shares in zip(transition_texts(table), transition_shares(table).tolist(), strict=True)
        ]
        of_type = f", edges of type {kind}" if len(weights) > 1 else ""
        caption = f"Scores of the labels of the two ends, edge feature {feature}{of_type}{few}"
        blocks.append(heat_table(caption, "first end", names, names, cells))
    left = len(places) - len(blocks)
    more = f'<p class="dim">{counted(left, "table")} more, of other edges or features.</p>' if left else ""
    return f'<div class="columns">{"".join(blocks)}</div>{more}'


def _node_weights(model: GraphLabeler, shown: Sequence[int]) -> str:
    """W with the bias as its first column."""
    bias, weights = model.layout_.node_weights(model.weights_)
    rows = np.column_stack([bias, weights.T]) if model.bias else weights.T
    columns = [*(["bias"] if model.bias else []), *map(str, range(len(weights)))]
    few = few_labels(len(shown), len(model.classes_))
    caption = f"Weights of node features (columns) for each label (rows){few}"
    return matrix_table(caption, rows[shown], [model.classes_[i] for i in shown], columns)
