"""Graph labellers on shards of graphs: the fit in one piece, to rounding, on every backend."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis import Graph, GraphLabeler
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import UnsupportedError


def graphs(n: int = 24, seed: int = 0) -> tuple[list[Graph], list[Any]]:
    rng = np.random.default_rng(seed)
    found, labels = [], []
    for _ in range(n):
        size = int(rng.integers(2, 6))
        y = rng.integers(0, 3, size)
        nodes = np.eye(3)[y] + rng.normal(0.0, 0.7, (size, 3))
        found.append(Graph(nodes, [(i, i + 1) for i in range(size - 1)]))
        labels.append(y)
    return found, labels


GRAPHS, LABELS = graphs()


@pytest.mark.parametrize(
    ("objective", "solver"),
    [
        ("log", "lbfgs"),
        ("margin", "cutting_plane"),
        ("pseudo_likelihood", "lbfgs"),
        ("softmax_margin", "lbfgs"),
    ],
)
def test_deterministic_solvers_give_the_fit_in_one_piece(objective: str, solver: str) -> None:
    def fit(**options: Any) -> GraphLabeler:
        return GraphLabeler(
            objective, solver=solver, random_state=0, verbose=False, max_iter=15, **options
        ).fit(GRAPHS, LABELS)

    whole = fit()
    found = [fit(backend=LocalBackend(1)), fit(backend=LocalBackend(3)), fit(backend=LocalBackend(2, 1))]
    for model in found:
        np.testing.assert_array_equal(model.weights_, found[0].weights_)
    first, history = whole.history_["objective"], found[0].history_["objective"]
    np.testing.assert_allclose(history, first, rtol=1e-9)


@pytest.mark.parametrize(
    ("objective", "solver"), [("perceptron", "perceptron"), ("margin", "minibatch"), ("direct", "auto")]
)
def test_online_solvers_mix(objective: str, solver: str) -> None:
    models = [
        GraphLabeler(
            objective, solver=solver, backend=one, random_state=0, verbose=False, max_iter=4, holdout=0.25
        ).fit(GRAPHS, LABELS)
        for one in (LocalBackend(1), LocalBackend(3))
    ]
    np.testing.assert_array_equal(models[0].weights_, models[1].weights_)
    assert "by mixing" in str(models[0].status_)
    assert models[0].score(GRAPHS, LABELS) > 0.6


def test_separated_graphs_and_refusals() -> None:
    clean = [Graph(np.eye(3)[y] * 3.0, graph.edges) for graph, y in zip(GRAPHS, LABELS, strict=True)]
    model = GraphLabeler("perceptron", backend="threads", random_state=0, verbose=False).fit(clean, LABELS)
    assert model.status_.converged
    with pytest.raises(UnsupportedError, match="data in shards do not give; use solver='cutting_plane'"):
        GraphLabeler("margin", solver="frank_wolfe", backend="threads").fit(GRAPHS, LABELS)
