"""``Graph``: what is known of one graph before its nodes are labelled, and shortcuts for common shapes.

Nodes have features X (N, D). Edges (E, 2) join nodes and may have features Z (E, F) (a constant 1 where none
are given) and types 0, 1, ..., each with weights of its own. An edge (a, b) has a first and a second end:
where weights are directed, the order counts.

* :meth:`Graph.grid`: an image; its labels have its shape.
* :meth:`Graph.tree`: a forest, from the parent of each node.
* :meth:`Graph.multilabel`: one input with several labels that are each on or off, every two of them joined.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from trellis.core.arguments import check_int, is_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.data.row_checks import LARGEST
from trellis.structures.graph.scores.graph_scores import as_floats, checked_edges

EdgeFeatures = Literal["none", "direction", "difference", "ends"]
STEPS = {4: ((0, 1), (1, 0)), 8: ((0, 1), (1, 0), (1, 1), (1, -1))}  # to the right, down, and both diagonals


class Graph:
    """Features of the nodes and edges of one graph.

    Parameters
    ----------
    nodes : (N, D) features of the nodes.
    edges : (E, 2) numbers of the nodes that each edge joins.
    edge_features : (E, F); default a constant 1.
    edge_types : (E,) whole numbers from 0; default all 0.
    shape : (height, width) of an image whose pixels are the nodes, row by row.

    Examples
    --------
    >>> from trellis import Graph
    >>> triangle = Graph([[1.0], [0.0], [0.5]], edges=[(0, 1), (1, 2), (0, 2)])
    >>> len(triangle.nodes), len(triangle.edges)
    (3, 3)
    """

    def __init__(
        self,
        nodes: ArrayLike,
        edges: ArrayLike = (),
        edge_features: ArrayLike | None = None,
        edge_types: ArrayLike | None = None,
        *,
        shape: tuple[int, int] | None = None,
    ) -> None:
        self.nodes = _features("node features", nodes)
        n = len(self.nodes)
        self.edges: IntArray = checked_edges(edges, n)
        n_edges = len(self.edges)
        self.edge_features = (
            np.ones((n_edges, 1)) if edge_features is None else _features("edge features", edge_features)
        )
        if len(self.edge_features) != n_edges:
            raise DataError(
                f"there are {n_edges} edges, but {len(self.edge_features)} rows of edge features; give one "
                "for each edge"
            )
        self.edge_types = _types(edge_types, n_edges)
        self.shape = None if shape is None else _image_shape(shape, n)

    @property
    def n_nodes(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"Graph({self.n_nodes} nodes, {len(self.edges)} edges)"

    def _repr_html_(self) -> str:
        from trellis.structures.graph.scores.notebook_graph import graph_html

        return graph_html(self)

    def edge_design(self, n_types: int) -> FloatArray | csr_array:
        """Z with a block of columns for each type: (E, n_types F), dense where there is one type."""
        if n_types == 1:
            return self.edge_features
        return self._typed if self._typed.shape[1] == n_types * self._width else self._spread(n_types)

    @property
    def _width(self) -> int:
        return int(self.edge_features.shape[1])

    @cached_property
    def _typed(self) -> csr_array:
        return self._spread(int(self.edge_types.max(initial=0)) + 1)

    def _spread(self, n_types: int) -> csr_array:
        n_edges, width = self.edge_features.shape
        columns = self.edge_types[:, None] * width + np.arange(width)
        return csr_array(
            (self.edge_features.ravel(), columns.ravel(), np.arange(n_edges + 1) * width),
            shape=(n_edges, n_types * width),
        )

    @classmethod
    def grid(
        cls,
        image: ArrayLike,
        neighbours: int = 4,
        edge_features: EdgeFeatures = "none",
        *,
        directions: bool = False,
    ) -> Graph:
        """The pixels of an image (height, width, D), or (height, width), each joined to 4 or 8 neighbours.

        ``edge_features``: "none" (a constant 1); "direction" (which of the 2 or 4 directions the edge has, as
        indicators); "difference" (a constant 1, and ``|x_a - x_b|`` of each feature); "ends" (a constant 1,
        x_a and x_b). ``directions``: edges of each direction are a type of their own.
        """
        pixels = as_floats("images", image)
        pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
        if pixels.ndim != 3:
            raise DataError(
                f"an image has shape {pixels.shape}; it must have shape (height, width) or (height, width, "
                "features)"
            )
        if isinstance(neighbours, bool) or neighbours not in tuple(STEPS):
            raise DataError(f"neighbours={neighbours!r}: a pixel of a grid has 4 or 8")
        height, width, n_features = pixels.shape
        nodes = pixels.reshape(height * width, n_features)
        place = np.arange(height * width).reshape(height, width)
        by_direction = [_joined(place, *step) for step in STEPS[neighbours]]
        edges = np.concatenate(by_direction)
        direction = np.repeat(np.arange(len(by_direction)), [len(pairs) for pairs in by_direction])
        features = _edge_features(edge_features, nodes, edges, direction, len(by_direction))
        return cls(nodes, edges, features, direction if directions else None, shape=(height, width))

    @classmethod
    def tree(cls, parents: ArrayLike, nodes: ArrayLike) -> Graph:
        """A forest: ``parents`` (N,) holds the parent of each node, -1 for roots. Edges go from parent to
        child."""
        parent = np.asarray(parents)
        parent = parent.astype(np.int64) if parent.size == 0 else parent
        if parent.ndim != 1 or not np.issubdtype(parent.dtype, np.integer):
            raise DataError(
                f"parents have shape {parent.shape} and type {parent.dtype}; give a whole number for each "
                "node"
            )
        n = len(parent)
        outside = np.flatnonzero((parent < -1) | (parent >= n))
        if outside.size:
            raise DataError(
                f"node {outside[0]} has the parent {parent[outside[0]]}; parents are 0 to {n - 1}, or -1 for "
                "a root"
            )
        child = np.flatnonzero(parent >= 0)
        edges = np.stack([parent[child], child], axis=1)
        joined = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(n, n))
        if n and len(edges) != n - connected_components(joined, directed=False, return_labels=False):
            raise DataError("the parents form a cycle; a tree needs a root with the parent -1")
        tree = cls(nodes, edges)
        if tree.n_nodes != n:
            raise DataError(f"there are {tree.n_nodes} nodes, but {n} parents; give one for each node")
        return tree

    @classmethod
    def multilabel(cls, x: ArrayLike, n_labels: int) -> Graph:
        """One input x (D,) with ``n_labels`` labels that are on or off: a node for each of them, an edge of
        its own type for every two.

        Node l has x in the columns of label l, so that each label has weights of its own: (L, L D).
        """
        features, n_labels = as_floats("x", x), check_int("n_labels", n_labels, 1)
        if features.ndim != 1:
            raise DataError(f"x has shape {features.shape}; give a vector")
        first, second = np.triu_indices(n_labels, 1)
        nodes = np.kron(np.eye(n_labels), features)
        return cls(nodes, np.stack([first, second], axis=1), None, np.arange(len(first)))


def _joined(place: IntArray, down: int, right: int) -> IntArray:
    """The pairs of pixels that a step leads from and to."""
    height, width = place.shape
    from_columns = slice(max(0, -right), width - max(0, right))
    to_columns = slice(max(0, right), width - max(0, -right))
    return np.stack([place[: height - down, from_columns].ravel(), place[down:, to_columns].ravel()], axis=1)


def _edge_features(
    kind: EdgeFeatures, nodes: FloatArray, edges: IntArray, direction: IntArray, n_directions: int
) -> FloatArray | None:
    constant = np.ones((len(edges), 1))
    if kind == "none":
        return None
    if kind == "direction":
        return np.eye(n_directions)[direction]
    if kind == "difference":
        return np.concatenate([constant, np.abs(nodes[edges[:, 0]] - nodes[edges[:, 1]])], axis=1)
    if kind == "ends":
        return np.concatenate([constant, nodes[edges[:, 0]], nodes[edges[:, 1]]], axis=1)
    raise DataError(f"edge_features={kind!r}: give 'none', 'direction', 'difference' or 'ends'")


def _image_shape(shape: Any, n: int) -> tuple[int, int]:
    if not isinstance(shape, tuple | list) or len(shape) != 2 or not all(is_int(side, 0) for side in shape):
        raise DataError(f"shape is {shape!r}; give the height and the width of the image")
    height, width = map(int, shape)
    if height * width != n:
        raise DataError(f"an image of shape {(height, width)} does not have {n} pixels")
    return height, width


def _features(name: str, given: Any) -> FloatArray:
    values = as_floats(name, given)
    if values.ndim != 2:
        raise DataError(f"{name} have shape {values.shape}; they must have two dimensions, a row for each")
    bad = np.argwhere(~(np.abs(values) <= LARGEST))
    if bad.size:
        row, column = bad[0]
        raise DataError(
            f"{name} contain {values[row, column]} in row {row}, column {column}; give finite numbers, of a "
            f"size of at most {LARGEST:g}"
        )
    return values


def _types(given: ArrayLike | None, n_edges: int) -> IntArray:
    if given is None:
        return np.zeros(n_edges, dtype=np.int64)
    types = np.asarray(given)
    whole = np.issubdtype(types.dtype, np.integer) or types.size == 0
    if types.shape != (n_edges,) or not whole or types.min(initial=0) < 0:
        raise DataError(
            f"edge types have shape {types.shape} and type {types.dtype}; give each of the {n_edges} edges a "
            "whole number from 0"
        )
    return np.ascontiguousarray(types, dtype=np.int64)
