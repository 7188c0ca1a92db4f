"""``LabelledGraphs``: graphs and labels as the user gave them, checked and encoded, with costs of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from trellis.core.arguments import check_sample_weight
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.data.labels import EncodedLabels, FlatLabels, LabelSet
from trellis.data.sequences import offsets_from_lengths
from trellis.data.user_input import as_arrays
from trellis.losses.labelings import Loss
from trellis.structures.graph.problem.graph_example import GraphExample
from trellis.structures.graph.scores.graph_features import Graph


@dataclass(frozen=True, eq=False)
class LabelledGraphs:
    """What ``fit`` learns from. ``weight``: c_g of each graph; ``examples``: graphs with labels and costs."""

    graphs: list[Graph]
    names: LabelSet
    labels: EncodedLabels
    examples: list[GraphExample]
    weight: FloatArray

    @classmethod
    def read(cls, graphs: Any, labels: Any, sample_weight: Any, loss: Loss) -> Self:
        graphs = checked_graphs(graphs)
        flat = flat_labels(graphs, labels)
        names = LabelSet.of(flat)
        encoded = names.encode(flat)
        examples = graph_examples(graphs, flat, names, loss)
        weight = check_sample_weight(sample_weight, len(graphs), "graph")
        if not weight.any():
            raise DataError("sample_weight is 0 for every graph; give at least one positive weight")
        return cls(graphs, names, encoded, examples, weight)

    def identity(self) -> dict[str, Any]:
        """What a checkpoint knows these data by."""
        parts = [(one.nodes, one.edges, one.edge_features, one.edge_types) for one in self.graphs]
        return {"graphs": parts, "labels": self.labels, "sample_weight": self.weight}


def checked_graphs(graphs: Any) -> list[Graph]:
    if isinstance(graphs, Graph):
        raise DataError("one Graph was given; give a list of them")
    if not isinstance(graphs, Iterable):
        raise DataError(f"graphs are of type {type(graphs).__name__}; give a list of trellis.Graph")
    found = list(graphs)
    for i, graph in enumerate(found):
        if not isinstance(graph, Graph):
            raise DataError(
                f"graph {i} is of type {type(graph).__name__}; give objects of trellis.Graph, for an image "
                "trellis.Graph.grid(image)"
            )
    if not found:
        raise DataError("no graphs were given")
    return found


def flat_labels(graphs: Sequence[Graph], labels: Any) -> FlatLabels:
    """The labels of all graphs end to end; those of an image may have its shape."""
    if not isinstance(labels, Iterable) or (isinstance(labels, np.ndarray) and labels.ndim == 0):
        raise DataError(f"labels are of type {type(labels).__name__}; give those of each graph in a list")
    given = list(labels)
    if len(given) != len(graphs):
        raise DataError(f"there are {len(graphs)} graphs, but labels for {len(given)}")
    flat: list[Any] = []
    for i, (graph, one) in enumerate(zip(graphs, given, strict=True)):
        values = _node_labels(one, graph, i)
        if len(values) != graph.n_nodes:
            raise DataError(f"graph {i} has {graph.n_nodes} nodes, but {len(values)} labels")
        flat += values
    return FlatLabels(flat, offsets_from_lengths([graph.n_nodes for graph in graphs]))


def _node_labels(given: Any, graph: Graph, index: int) -> list[Any]:
    """The labels of one graph as a list; those of an image may come in rows, as an array or as lists."""
    labels = as_arrays(given)
    shape = (graph.n_nodes,) if graph.shape is None else graph.shape
    if isinstance(labels, np.ndarray):
        if labels.ndim > 1 and labels.shape != shape:
            raise DataError(f"the labels of graph {index} have shape {labels.shape}, and its nodes {shape}")
        return list(labels.ravel().tolist())
    if not isinstance(labels, Iterable) or isinstance(labels, Mapping | Set | bytes):
        raise DataError(
            f"the labels of graph {index} are of type {type(labels).__name__}; give one label for each node"
        )
    values = list(labels)
    if (
        graph.shape is not None
        and values
        and all(_is_row(row, len(values) < graph.n_nodes) for row in values)
    ):
        lengths = [len(row) for row in values]
        if lengths != [graph.shape[1]] * graph.shape[0]:
            raise DataError(
                f"the labels of graph {index} come in rows of {lengths} labels, and its image has the shape "
                f"{graph.shape}"
            )
        return [label for row in values for label in (row.tolist() if isinstance(row, np.ndarray) else row)]
    if any(isinstance(label, list | np.ndarray) for label in values):
        raise DataError(
            f"the labels of graph {index} hold lists; give one label for each of its {graph.n_nodes} nodes, "
            "or for an image one row of labels for each row of pixels"
        )
    return values


def _is_row(labels: Any, tuples: bool) -> bool:
    """Whether these are the labels of a row of pixels; ``tuples``: whether a tuple is no label."""
    if isinstance(labels, np.ndarray):
        return labels.ndim == 1
    return isinstance(labels, list) or (tuples and isinstance(labels, tuple))


def graph_examples(
    graphs: Sequence[Graph], flat: FlatLabels, names: LabelSet, loss: Loss
) -> list[GraphExample]:
    """Graphs with their labels and the costs of the loss. A label that is not among ``names`` (held-out
    graphs may have some) is no label that a node can have, and where the loss is a sum over nodes, each label
    is wrong there."""
    k = len(names)
    every = names.extended(flat) if loss.kind == "costs" else names
    encoded = every.encode(flat)
    codes = np.where(encoded.codes < k, encoded.codes, -1).astype(np.int32)
    allowed = None if encoded.allowed is None else encoded.allowed[:, :k]
    cost = np.ascontiguousarray(loss.costs(encoded, every)[:, :k]) if loss.kind == "costs" else None
    examples = []
    for i, graph in enumerate(graphs):
        own = slice(encoded.offsets[i], encoded.offsets[i + 1])
        sets = None if allowed is None else allowed[own]
        costs = None if cost is None else cost[own]
        examples.append(GraphExample(graph, codes[own], k, sets, costs, f"graph {i}"))
    return examples
