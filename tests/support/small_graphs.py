"""Small graphs of every kind for hypothesis, and all their labellings."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
from hypothesis import strategies as st

from trellis.core.arrays import FloatArray
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores


@dataclass(frozen=True)
class AllLabellings:
    labels: np.ndarray
    scores: FloatArray

    @classmethod
    def of(cls, graph: GraphScores) -> AllLabellings:
        n, k = graph.unary.shape
        labels = np.array(list(product(range(k), repeat=n)), dtype=np.int32).reshape(-1, n)
        return cls(labels, np.array([_score(graph, y) for y in labels]))

    @property
    def feasible(self) -> bool:
        return bool(self.scores.max() > -np.inf)

    @property
    def best(self) -> float:
        return float(self.scores.max())

    @property
    def log_partition(self) -> float:
        return float(np.logaddexp.reduce(self.scores))

    def marginals(self, graph: GraphScores) -> GraphParts:
        shares = np.exp(self.scores - self.log_partition)
        flat = sum(p * graph.of_labels(y).flat() for p, y in zip(shares, self.labels, strict=True))
        return graph.unflat(np.asarray(flat))


def _score(graph: GraphScores, y: np.ndarray) -> float:
    """The definition, part by part: nothing of the library but its arrays."""
    total = sum(graph.unary[i, y[i]] for i in range(len(y)))
    total += sum(graph.pairwise[e, y[a], y[b]] for e, (a, b) in enumerate(graph.edges.tolist()))
    return float(total + sum(f.table[tuple(y[i] for i in f.nodes)] for f in graph.factors))


@st.composite
def graphs(
    draw: st.DrawFn, labels: tuple[int, int] = (1, 3), forest: bool = False, factors: bool = True
) -> GraphScores:
    """Any graph: no edges, isolated nodes, several components, repeated edges, loops, -inf and ties."""
    n, k = draw(st.integers(1, 5)), draw(st.integers(*labels))
    if forest:
        parents = [draw(st.integers(-1, i - 1)) for i in range(n)]
        names = draw(st.permutations(range(n)))
        edges = [(names[i], names[p]) for i, p in enumerate(parents) if p >= 0]
        edges += [edge[::-1] for edge in edges[:1]] + draw(st.sampled_from([[], [(0, 0)]]))
    else:
        edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    whole = draw(st.booleans())  # whole numbers tie often
    forbidden = draw(st.sampled_from([0.0, 0.0, 0.15]))

    def table(*shape: int) -> FloatArray:
        values = rng.integers(-1, 2, shape).astype(float) if whole else 2.0 * rng.standard_normal(shape)
        return np.where(rng.random(shape) < forbidden, -np.inf, values)

    wide = []
    if factors and n >= 3 and draw(st.booleans()):
        wide = [((2, 0, 1), table(k, k, k)), ((1,), table(k)), ((0, 1), table(k, k))]
    if forest:
        wide = [((0,), table(k))] if factors else []
    return GraphScores.of(table(n, k), edges, table(len(edges), k, k), wide)


def grid_edges(height: int, width: int) -> np.ndarray:
    place = np.arange(height * width).reshape(height, width)
    across = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()], axis=1)
    down = np.stack([place[:-1].ravel(), place[1:].ravel()], axis=1)
    return np.concatenate([across, down])


def grid(height: int, width: int, n_labels: int, strength: float, seed: int) -> GraphScores:
    rng = np.random.default_rng(seed)
    edges = grid_edges(height, width)
    pairwise = strength * rng.standard_normal((len(edges), n_labels, n_labels))
    return GraphScores.of(rng.standard_normal((height * width, n_labels)), edges, pairwise)
