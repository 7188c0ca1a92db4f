"""Part scores of one graph: nodes with labels, edges between them, and factors over more nodes.

A labelling y of N nodes with K labels scores

    score(y) = sum_i unary[i, y_i] + sum_e pairwise[e, y_a, y_b] + sum_f table_f[y of the nodes of f]

with edge e = (a, b). ``-inf`` forbids: a label of a node (so nodes may have fewer than K labels), a pair, or
an entry of a factor. The formula is taken at its word: isolated nodes, several components and no edges at
all are normal; edges that join the same nodes add up; an edge from a node to itself scores pairwise[e, y_a,
y_a], its diagonal. Indicators, marginals and gradients have the shapes of the scores they belong to, and are
:class:`GraphParts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arguments import to_floats
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError

Labels = NDArray[np.int32]


class HigherOrder(NamedTuple):
    """Scores over three or more nodes (or fewer): ``table`` has an axis of length K for each of ``nodes``.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.graph import GraphInference, GraphScores, HigherOrder
    >>> table = np.zeros((2, 2, 2))
    >>> table[1, 1, 1] = 5.0
    >>> factors = [HigherOrder((0, 1, 2), table)]
    >>> scores = GraphScores.of(np.zeros((3, 2)), [(0, 1)], np.zeros((2, 2)), factors=factors)
    >>> GraphInference().best(scores).labels.tolist()
    [1, 1, 1]
    """

    nodes: tuple[int, ...]
    table: FloatArray


@dataclass(frozen=True, eq=False)
class GraphScores:
    """``unary`` (N, K), ``edges`` (E, 2), ``pairwise`` (E, K, K), ``factors``; build it with :meth:`of`.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.graph import GraphScores
    >>> scores = GraphScores.of([[1.0, 0.0], [0.0, 0.5]], [(0, 1)], 2.0 * np.eye(2))
    >>> scores.unary.shape, scores.pairwise.shape
    ((2, 2), (1, 2, 2))
    """

    unary: FloatArray
    edges: IntArray
    pairwise: FloatArray
    factors: tuple[HigherOrder, ...] = ()

    @classmethod
    def of(
        cls,
        unary: ArrayLike,
        edges: ArrayLike = (),
        pairwise: ArrayLike | None = None,
        factors: Iterable[HigherOrder | tuple[Any, Any]] = (),
    ) -> GraphScores:
        """Check shapes and values; ``pairwise`` may be one table (K, K) for all edges."""
        u = _floats("unary scores", unary)
        if u.ndim != 2 or u.shape[1] == 0:
            raise DataError(f"unary scores have shape {u.shape}; they must have shape (nodes, labels)")
        n, k = u.shape
        e = checked_edges(edges, n)
        p = np.zeros((len(e), k, k)) if pairwise is None else _floats("pairwise scores", pairwise)
        if p.shape == (k, k):
            p = np.ascontiguousarray(np.broadcast_to(p, (len(e), k, k)))
        if p.shape != (len(e), k, k):
            raise DataError(
                f"pairwise scores have shape {p.shape}; for {len(e)} edges and {k} labels they must have "
                f"shape ({len(e)}, {k}, {k}) or ({k}, {k})"
            )
        scores = cls(u, e, p, tuple(_checked_factor(f, given, n, k) for f, given in enumerate(factors)))
        scores._check_sums()
        return scores

    @property
    def n_nodes(self) -> int:
        return int(self.unary.shape[0])

    @property
    def n_labels(self) -> int:
        return int(self.unary.shape[1])

    def score(self, labels: ArrayLike) -> float:
        """The score of a labelling (N,); ``-inf`` where it is forbidden."""
        y = self._checked(labels)
        a, b = self.edges.T
        total = self.unary[np.arange(len(y)), y].sum() + self.pairwise[np.arange(len(a)), y[a], y[b]].sum()
        return float(total + sum(f.table[tuple(y[list(f.nodes)])] for f in self.factors))

    def of_labels(self, labels: ArrayLike) -> GraphParts:
        """The indicators of a labelling: ``of_labels(y).dot(self) == score(y)``."""
        y = self._checked(labels)
        a, b = self.edges.T
        unary, pairwise = np.zeros_like(self.unary), np.zeros_like(self.pairwise)
        unary[np.arange(len(y)), y] = 1.0
        pairwise[np.arange(len(a)), y[a], y[b]] = 1.0
        tables = tuple(np.zeros_like(f.table) for f in self.factors)
        for f, table in zip(self.factors, tables, strict=True):
            table[tuple(y[list(f.nodes)])] = 1.0
        return GraphParts(unary, pairwise, tables)

    def unflat(self, flat: FloatArray) -> GraphParts:
        """Parts of these shapes from one vector: the inverse of :meth:`GraphParts.flat`."""
        shapes = [self.unary.shape, self.pairwise.shape, *(f.table.shape for f in self.factors)]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        unary, pairwise, *tables = (
            piece.reshape(shape) for piece, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)
        )
        return GraphParts(unary, pairwise, tuple(tables))

    def plus_cost(self, cost: ArrayLike, scale: float = 1.0) -> GraphScores:
        """With scale * cost (N, K) added to the unaries: a loss that adds up over nodes."""
        given = as_floats("costs", cost)
        if given.shape != self.unary.shape:
            raise DataError(f"costs have shape {given.shape}; the unary scores have {self.unary.shape}")
        if not np.isfinite(scale):
            raise DataError(f"the costs are to be multiplied by {scale}; give a finite number")
        return replace(self, unary=_floats("unary scores with costs", self.unary + scale * given))

    def restricted(self, allowed: NDArray[np.bool_]) -> GraphScores:
        """The same scores with every label outside ``allowed`` (N, K) forbidden."""
        if allowed.shape != self.unary.shape:
            raise DataError(f"allowed labels have shape {allowed.shape}; they must have {self.unary.shape}")
        return replace(self, unary=np.where(allowed, self.unary, -np.inf))

    def _check_sums(self) -> None:
        """That the score of every allowed labelling is a number."""
        largest = 0.0
        for part in (self.unary, self.pairwise, *(f.table[None] for f in self.factors)):
            sizes = np.where(part > -np.inf, np.abs(part), 0.0)
            with np.errstate(over="ignore"):
                largest += float(sizes.max(axis=tuple(range(1, part.ndim)), initial=0.0).sum())
        if not np.isfinite(largest):
            raise DataError("scores add up to more than 1.8e308, the largest number; divide all of them")

    def _checked(self, labels: ArrayLike) -> IntArray:
        y = np.asarray(labels)
        whole = y.size == 0 or np.issubdtype(y.dtype, np.integer)
        if not whole or y.shape != (self.n_nodes,) or (y.size and (y.min() < 0 or y.max() >= self.n_labels)):
            raise DataError(
                f"labels of shape {y.shape} and type {y.dtype} for {self.n_nodes} nodes; give each one of 0 "
                f"to {self.n_labels - 1}"
            )
        return y.astype(np.int64)


@dataclass(frozen=True, eq=False)
class GraphParts:
    """One number for each part of a graph: indicators, marginals, or a gradient."""

    unary: FloatArray
    pairwise: FloatArray
    factors: tuple[FloatArray, ...] = ()

    def dot(self, scores: GraphScores) -> float:
        """Inner product with the scores; a part of weight 0 adds 0 even where its score is ``-inf``."""
        tables = zip(self.factors, (f.table for f in scores.factors), strict=True)
        pairs = [(self.unary, scores.unary), (self.pairwise, scores.pairwise), *tables]
        return float(sum(np.sum(p * np.where(p == 0, 0.0, s)) for p, s in pairs))

    def flat(self) -> FloatArray:
        """All parts in one vector: unary, pairwise, factors."""
        return np.concatenate([self.unary.ravel(), self.pairwise.ravel(), *(t.ravel() for t in self.factors)])

    def __sub__(self, other: GraphParts) -> GraphParts:
        tables = tuple(a - b for a, b in zip(self.factors, other.factors, strict=True))
        return GraphParts(self.unary - other.unary, self.pairwise - other.pairwise, tables)


def checked_edges(edges: ArrayLike, n_nodes: int) -> IntArray:
    """Edges (E, 2) as whole numbers of nodes that exist."""
    try:
        given = np.asarray(edges)
    except ValueError as error:
        raise DataError("edges differ in length; give two nodes for each edge") from error
    if given.size == 0:
        return np.zeros((0, 2), dtype=np.int64)
    if given.ndim != 2 or given.shape[1] != 2 or not np.issubdtype(given.dtype, np.integer):
        raise DataError(
            f"edges have shape {given.shape} and type {given.dtype}; they must be whole numbers of shape "
            "(edges, 2)"
        )
    outside = np.flatnonzero(((given < 0) | (given >= n_nodes)).any(axis=1))
    if outside.size:
        pair = tuple(given[outside[0]].tolist())
        raise DataError(f"edge {outside[0]} joins nodes {pair}, and the nodes are 0 to {n_nodes - 1}")
    return np.ascontiguousarray(given, dtype=np.int64)


def _checked_factor(number: int, given: HigherOrder | tuple[Any, Any], n: int, k: int) -> HigherOrder:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise DataError(f"factor {number} is of type {type(given).__name__}; give a pair of nodes and scores")
    scope = np.asarray(given[0])
    nodes: tuple[int, ...] = tuple(scope.tolist()) if scope.ndim == 1 else ()
    table = _floats(f"scores of factor {number}", given[1])
    whole = np.issubdtype(scope.dtype, np.integer)
    if not nodes or not whole or len(set(nodes)) != len(nodes) or min(nodes) < 0 or max(nodes) >= n:
        raise DataError(f"factor {number} is over nodes {nodes}; give different nodes from 0 to {n - 1}")
    if table.shape != (k,) * len(nodes):
        raise DataError(f"factor {number} has shape {table.shape} and needs {(k,) * len(nodes)}")
    return HigherOrder(nodes, table)


def as_floats(name: str, values: Any) -> FloatArray:
    """An array of double precision, whatever numbers it is made from."""
    if np.ma.is_masked(values):
        raise DataError(f"{name} have masked entries; fill them, or leave them out")
    try:
        return np.ascontiguousarray(to_floats(values))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} are not an array of numbers ({error}); give one, real and dense") from error


def _floats(name: str, values: Any) -> FloatArray:
    array = as_floats(name, values)
    bad = ~(array < np.inf)  # NaN or +inf
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(f"{name} contain {array[where]} at {where}; they must be finite or -inf (forbidden)")
    return array
