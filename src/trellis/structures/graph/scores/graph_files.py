"""Graphs with labels in ``.npz`` files: the arrays of all graphs end to end, and how much is whose.

    nodes (N, D), edges (E, 2), edge_features (E, F), edge_types (E,)   as those of ``Graph``
    node_counts (G,), edge_counts (G,)                                  of each graph; without them it is one
    shapes (G, 2)                                                       height and width of images, else 0
    labels (N,)                                                         whole numbers or text

Edges number the nodes of their own graph from 0. Only ``nodes`` must be there.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.core.output_files import Target, atomic_writer
from trellis.data.sequences import offsets_from_lengths
from trellis.data.shard_files.array_stores import open_store
from trellis.data.shard_files.file_paths import Paths, find_files
from trellis.structures.graph.scores.graph_features import Graph

_PER_NODE, _PER_EDGE, _PER_GRAPH = ("nodes", "labels"), ("edges", "edge_features", "edge_types"), ("shapes",)


def write_graphs(path: Target, graphs: Sequence[Graph], labels: Sequence[Any] | None = None) -> None:
    """Write graphs, and a known label for each of their nodes, to one ``.npz`` file.

    Examples
    --------
    >>> from trellis import Graph
    >>> from trellis.structures.graph import read_graphs, write_graphs
    >>> write_graphs("two.npz", [Graph([[1.0], [0.5]], [(0, 1)]), Graph([[2.0]])], [["a", "b"], ["a"]])
    >>> graphs, labels = read_graphs("two.npz")
    >>> graphs[0], labels[0].tolist()
    (Graph(2 nodes, 1 edges), ['a', 'b'])
    """
    if not graphs:
        raise DataError("there are no graphs to write; give at least one")
    arrays: dict[str, Any] = {
        "node_counts": [graph.n_nodes for graph in graphs],
        "edge_counts": [len(graph.edges) for graph in graphs],
        "nodes": np.concatenate([graph.nodes for graph in graphs]),
        "edges": np.concatenate([graph.edges for graph in graphs]),
        "edge_features": _joined([graph.edge_features for graph in graphs if len(graph.edges)]),
        "edge_types": np.concatenate([graph.edge_types for graph in graphs]),
        "shapes": [graph.shape or (0, 0) for graph in graphs],
    }
    if labels is not None:
        rows = [np.asarray(one).ravel() for one in labels]
        sizes = [len(row) for row in rows]
        arrays["labels"] = flat = np.concatenate(rows)
        if sizes != arrays["node_counts"] or flat.dtype.kind not in "biuU":
            raise DataError("labels must be whole numbers or text, one for each node of each graph")
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    with atomic_writer(path) as file:
        file.write(content.getvalue())


def read_graphs(paths: Paths) -> tuple[list[Graph], list[NDArray[Any]] | None]:
    """The graphs of a file, a folder, a pattern or a list of these, and the labels of their nodes, which
    have the shape of an image; None where a file has none.

    Examples
    --------
    >>> from trellis import Graph
    >>> from trellis.structures.graph import read_graphs, write_graphs
    >>> write_graphs("image.npz", [Graph.grid([[0.5, 2.0], [1.5, 0.0]])], [[[0, 1], [1, 0]]])
    >>> graphs, labels = read_graphs("image.npz")
    >>> graphs[0].shape, labels[0].tolist()
    ((2, 2), [[0, 1], [1, 0]])
    """
    graphs: list[Graph] = []
    labels: list[NDArray[Any]] = []
    for path in find_files(paths):
        arrays = _arrays(path)
        counts = arrays.get("node_counts", np.array([len(arrays["nodes"])]))
        edge_counts = arrays.get("edge_counts", np.array([len(arrays.get("edges", ()))]))
        parts = {name: _split(path, name, counts, arrays) for name in _PER_NODE}
        parts |= {name: _split(path, name, edge_counts, arrays) for name in _PER_EDGE}
        if len(edge_counts) != len(counts) or len(arrays.get("shapes", counts)) != len(counts):
            raise DataError(f"{path}: node_counts, edge_counts and shapes do not have a row for each graph")
        for i in range(len(counts)):
            one = {name: rows[i] for name, rows in parts.items() if rows is not None}
            shape = tuple(arrays["shapes"][i].tolist()) if "shapes" in arrays else (0, 0)
            known = one.pop("labels", None)
            try:
                graph = Graph(one.pop("nodes"), **one, shape=shape if any(shape) else None)
            except DataError as error:
                raise DataError(f"{path}: graph {i}: {error}") from error
            graphs.append(graph)
            if known is not None:
                labels.append(known if graph.shape is None else known.reshape(graph.shape))
    return graphs, labels if len(labels) == len(graphs) else None


def _arrays(path: str) -> dict[str, NDArray[Any]]:
    known = (*_PER_NODE, *_PER_EDGE, *_PER_GRAPH, "node_counts", "edge_counts")
    with open_store(path, "npz") as store:
        names = [name for name in store.names() if name in known]
        if "nodes" not in names:
            raise DataError(f"{path}: there is no array nodes; write graphs by write_graphs")
        return {name: store.rows(name, 0, (*store.shape(name), 0)[0]) for name in names}


def _split(
    path: str, name: str, counts: IntArray, arrays: dict[str, NDArray[Any]]
) -> list[NDArray[Any]] | None:
    """The rows of each graph."""
    if name not in arrays:
        return None
    try:
        offsets = offsets_from_lengths(counts)
    except DataError as error:
        raise DataError(f"{path}: {error}") from error
    if offsets[-1] != len(arrays[name]):
        raise DataError(
            f"{path}: the counts add up to {offsets[-1]}, but {name} has {len(arrays[name])} rows"
        )
    return np.split(arrays[name], offsets[1:-1])


def _joined(parts: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.ones((0, 1))
