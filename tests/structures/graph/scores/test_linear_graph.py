"""Graphs as inputs, and linear scores of them: the formula term by term, and adjoints."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from trellis import Graph
from trellis.core.errors import DataError
from trellis.structures.graph.scores.graph_scores import GraphScores
from trellis.structures.graph.scores.linear_graph import GraphLayout


def random_graph(rng: np.random.Generator, n: int, n_edges: int, n_types: int = 1) -> Graph:
    """Loops and repeated edges included."""
    return Graph(
        rng.normal(size=(n, 2)),
        rng.integers(0, n, (n_edges, 2)),
        rng.normal(size=(n_edges, 3)),
        rng.integers(0, n_types, n_edges) if n_types > 1 else None,
    )


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(0, 6),
    st.integers(1, 3),
    st.lists(st.booleans(), min_size=1, max_size=3),
    st.booleans(),
)
def test_scores_are_the_formula_and_parts_their_adjoint(
    seed: int, n: int, n_edges: int, k: int, directed: list[bool], bias: bool
) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, n, n_edges, len(directed))
    layout = GraphLayout(k, 2, 3, tuple(directed), bias)
    w = rng.normal(size=layout.dimension)
    scores = layout.scores(graph, w)
    b, weights = layout.node_weights(w)
    v = layout.edge_weights(w)
    for i in range(n):
        np.testing.assert_allclose(scores.unary[i], b + graph.nodes[i] @ weights, atol=1e-12)
    for e in range(n_edges):
        table = sum(graph.edge_features[e, f] * v[graph.edge_types[e], f] for f in range(3))
        np.testing.assert_allclose(scores.pairwise[e], table, atol=1e-12)
    for t, is_directed in enumerate(directed):
        if not is_directed:
            np.testing.assert_array_equal(v[t], v[t].transpose(0, 2, 1))
    y = rng.integers(0, k, n)
    features = layout.of_labels(graph, y)
    assert features @ w == pytest.approx(scores.score(y), abs=1e-10)
    np.testing.assert_allclose(layout.of_parts(graph, scores.of_labels(y)), features, atol=1e-12)
    parts = scores.unflat(rng.normal(size=scores.unary.size + scores.pairwise.size))
    assert layout.of_parts(graph, parts) @ w == pytest.approx(parts.dot(scores), abs=1e-9)


def test_every_weight_has_a_place() -> None:
    """2 types, one of them symmetric: bias 3, W 2 x 3, V 1 x 9 and 1 x 6."""
    layout = GraphLayout(3, 2, 1, (True, False))
    assert layout.dimension == 3 + 6 + 9 + 6
    w = np.arange(layout.dimension, dtype=float)
    v = layout.edge_weights(w)
    np.testing.assert_array_equal(v[0, 0], np.arange(9, 18).reshape(3, 3))
    np.testing.assert_array_equal(v[1, 0], [[18, 19, 21], [19, 20, 22], [21, 22, 23]])


def test_a_grid_of_four_and_of_eight() -> None:
    image = np.arange(6.0).reshape(2, 3)
    four = Graph.grid(image)
    assert four.shape == (2, 3)
    assert {tuple(e) for e in four.edges.tolist()} == {(0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5)}
    eight = Graph.grid(image, 8, directions=True)
    assert {tuple(e) for e in eight.edges[eight.edge_types == 2].tolist()} == {(0, 4), (1, 5)}
    assert {tuple(e) for e in eight.edges[eight.edge_types == 3].tolist()} == {(1, 3), (2, 4)}
    np.testing.assert_array_equal(four.edge_features, np.ones((7, 1)))


def test_edge_features_of_a_grid() -> None:
    image = np.array([[[1.0, 2.0], [5.0, 1.0]]])
    np.testing.assert_array_equal(Graph.grid(image, edge_features="direction").edge_features, [[1.0, 0.0]])
    np.testing.assert_array_equal(
        Graph.grid(image, edge_features="difference").edge_features, [[1.0, 4.0, 1.0]]
    )
    np.testing.assert_array_equal(Graph.grid(image, edge_features="ends").edge_features, [[1, 1, 2, 5, 1]])


def test_grids_of_one_row_or_pixel() -> None:
    assert len(Graph.grid(np.zeros((1, 1)), 8).edges) == 0
    assert Graph.grid(np.zeros((1, 4)), 8).edges.tolist() == [[0, 1], [1, 2], [2, 3]]
    assert len(Graph.grid(np.zeros((0, 4))).edges) == 0


def test_trees_and_multilabel() -> None:
    tree = Graph.tree([-1, 0, 0, -1], np.zeros((4, 1)))
    assert tree.edges.tolist() == [[0, 1], [0, 2]]
    many = Graph.multilabel([2.0, 3.0], 3)
    np.testing.assert_array_equal(many.nodes[1], [0, 0, 2, 3, 0, 0])
    assert many.edges.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert many.edge_types.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Graph([1.0, 2.0]), "node features have shape"),
        (lambda: Graph([[1.0], [np.nan]]), "node features contain nan in row 1, column 0"),
        (lambda: Graph([[1.0]], [[0, 1]]), "edge 0 joins nodes"),
        (lambda: Graph([[1.0]], [[0, 0]], np.ones((2, 1))), "1 edges, but 2 rows"),
        (lambda: Graph([[1.0]], [[0, 0]], None, [-1]), "edge types"),
        (lambda: Graph([[1.0]], shape=(2, 2)), "does not have 1 pixels"),
        (lambda: Graph.grid(np.zeros(3)), "an image has shape"),
        (lambda: Graph.grid(np.zeros((2, 2)), 6), "4 or 8"),
        (lambda: Graph.grid(np.zeros((2, 2)), edge_features="colour"), "edge_features='colour'"),
        (lambda: Graph.tree([1, 0], np.zeros((2, 1))), "cycle"),
        (lambda: Graph.tree([2], np.zeros((1, 1))), "node 0 has the parent 2"),
        (lambda: Graph.tree([-1, 0], np.zeros((3, 1))), "3 nodes, but 2 parents"),
        (lambda: Graph([["a"]]), "node features are not an array of numbers"),
        (lambda: Graph(csr_array(np.eye(2))), "node features are not an array of numbers"),
        (lambda: Graph([[1.0], [2.0]], [(0, 1), (1,)]), "edges differ in length"),
        (lambda: Graph.grid([["a"]]), "images are not an array of numbers"),
        (lambda: Graph.multilabel([1.0], 2.5), "n_labels is 2.5"),
        (lambda: Graph.multilabel(np.zeros((2, 2)), 2), "give a vector"),
    ],
)
def test_errors_say_what_and_where(make: object, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make()  # type: ignore[operator]


def test_graphs_of_other_features_are_refused() -> None:
    layout = GraphLayout(2, 1, 1)
    with pytest.raises(DataError, match="graph 4 has 2 node features, and the model has 1"):
        layout.check(Graph(np.zeros((1, 2))), "graph 4")
    with pytest.raises(DataError, match="3 edge features"):
        layout.check(Graph([[0.0]], [[0, 0]], np.ones((1, 3))), "graph 4")
    with pytest.raises(DataError, match="edges of type 1, and the model has types 0 to 0"):
        layout.check(Graph([[0.0]], [[0, 0]], None, [1]), "graph 4")
    layout.check(Graph([[0.0]]), "a graph without edges has no edge features")


def test_scores_that_add_up_beyond_all_numbers_are_refused() -> None:
    big = [[1e308, 0.0], [1e308, 0.0]]
    for scores in ((big, [(0, 1)], np.eye(2)), (big,), (np.zeros((2, 2)), [(0, 1)] * 3, -np.eye(2) * 1e308)):
        with pytest.raises(DataError, match="add up to more than"):
            GraphScores.of(*scores)
    assert GraphScores.of([[1e307, -np.inf]] * 3).score([0, 0, 0]) == pytest.approx(3e307)
