"""GraphLabeler: what is learned, what is said about it, files, seeds and errors."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import uniform_filter
from sklearn.base import clone

import trellis
from trellis import Graph, GraphLabeler, SequenceLabeler
from trellis.core.errors import DataError, ModelFileError, TrellisError, UnsupportedError
from trellis.data.labels import EncodedLabels
from trellis.losses.labelings import Custom, WeightedHamming, get_loss
from trellis.objectives import Direct
from trellis.solvers import CuttingPlane, PassiveAggressive
from trellis.structures.graph.oracle.graph_oracle import GraphInference


def images(n: int, seed: int = 0, shape: tuple[int, int] = (5, 6)) -> tuple[list[Graph], list[np.ndarray]]:
    """Smooth shapes under noise."""
    rng = np.random.default_rng(seed)
    labels = [(uniform_filter(rng.normal(size=shape), 3) > 0).astype(int) for _ in range(n)]
    return [Graph.grid(y + rng.normal(0.0, 0.7, shape)) for y in labels], labels


@pytest.fixture(scope="module")
def data() -> tuple[list[Graph], list[np.ndarray]]:
    return images(24)


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        ("margin", {}),
        ("margin", {"inference": "lp", "tol": 0.2}),
        ("log", {}),
        ("log", {"inference": "tree_reweighted", "max_iter": 6}),
        ("log", {"inference": "loopy", "max_iter": 10}),
        ("pseudo_likelihood", {}),
        ("softmax_margin", {}),
        ("perceptron", {"max_iter": 10}),
        (Direct(epsilon=3.0), {"max_iter": 10}),
    ],
)
def test_every_objective_beats_the_nodes_by_themselves(
    objective: Any, options: dict[str, Any], data: tuple[list[Graph], list[np.ndarray]]
) -> None:
    graphs, labels = data
    model = GraphLabeler(objective, random_state=0, verbose=False, **options).fit(graphs[:16], labels[:16])
    alone = [Graph(graph.nodes, shape=graph.shape) for graph in graphs]
    plain = GraphLabeler("log", verbose=False).fit(alone[:16], labels[:16])
    assert model.score(graphs[16:], labels[16:]) > plain.score(alone[16:], labels[16:])
    found = model.predict(graphs[16:])
    assert found[0].shape == (5, 6)
    assert found[0].dtype == int
    right = np.mean([np.mean(a == b) for a, b in zip(found, labels[16:], strict=True)])
    assert right == pytest.approx(model.score(graphs[16:], labels[16:]))


def test_what_is_approximate_is_said(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data[0][:6], data[1][:6]

    def status(objective: str, **options: Any) -> str:
        model = GraphLabeler(objective, max_iter=3, verbose=False, random_state=0, **options)
        return str(model.fit(graphs, labels).status_)

    assert "approximate" not in status("log")
    assert "approximate" not in status("margin")
    assert "pseudo-likelihood stands for" in status("pseudo_likelihood")
    assert "tree-reweighted" in status("log", inference="tree_reweighted")
    assert "Bethe" in status("log", inference="loopy")
    assert "'icm' has no bound" in status("margin", inference="icm")
    assert "candidate labellings only" in status("margin", loss=lambda a, b: float(a != b))


def test_a_chain_has_the_objective_of_the_sequence_labeler() -> None:
    rng = np.random.default_rng(1)
    lengths = rng.integers(1, 6, 12)
    X = [rng.normal(size=(n, 3)) for n in lengths]
    y = [rng.integers(0, 3, n).tolist() for n in lengths]
    graphs = [Graph(x, np.stack([np.arange(len(x) - 1), np.arange(1, len(x))], axis=1)) for x in X]
    for objective in ("log", "margin"):
        options: dict[str, Any] = {"l2": 0.5, "verbose": False, "tol": 1e-6 if objective == "log" else 1e-4}
        solver = "lbfgs" if objective == "log" else "cutting_plane"
        chain = SequenceLabeler(objective, solver=solver, boundaries=False, **options).fit(X, y)
        graph = GraphLabeler(objective, solver=solver, bias=False, directed=True, **options).fit(graphs, y)
        assert graph.history_["objective"][-1] == pytest.approx(chain.history_["objective"][-1], rel=2e-4)
        transitions = graph.layout_.edge_weights(graph.weights_)[0, 0]
        np.testing.assert_allclose(transitions, chain.transition_table(), atol=0.05)


def test_the_margin_is_certified_and_solvers_agree(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data[0][:8], data[1][:8]
    found = {}
    for solver in ("cutting_plane", "frank_wolfe"):
        model = GraphLabeler("margin", solver=solver, l2=20.0, tol=5e-3, max_iter=300, verbose=False)
        model.set_params(random_state=0).fit(graphs, labels)
        assert model.status_.converged
        assert model.excess_ is not None
        assert model.excess_ < 1e-3
        found[solver] = model.history_["objective"][-1]
    assert found["cutting_plane"] == pytest.approx(found["frank_wolfe"], rel=1e-2)


def test_relaxed_predictions_carry_their_bounds(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data
    model = GraphLabeler("pseudo_likelihood", verbose=False).fit(graphs[:16], labels[:16])
    for method in ("lp", "message_passing", "junction_tree"):
        for one, graph in zip(model.predict_relaxed(graphs[16:18], method), graphs[16:18], strict=True):
            score = model.scores(graph).score(one.labels.ravel())
            assert one.value == pytest.approx(score)
            assert one.value <= one.bound + 1e-9
            assert one.gap == pytest.approx(max(one.bound - one.value, 0.0))
            assert one.method == method
            if one.integral:
                assert one.integral_share == 1.0


def test_marginals_are_exact_or_asked_for(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data
    model = GraphLabeler("log", verbose=False, max_iter=10).fit(graphs[:8], labels[:8])
    exact = model.marginals(graphs[:1])[0]
    assert exact.exact
    np.testing.assert_allclose(model.predict_marginals(graphs[:1])[0].sum(axis=1), 1.0)
    assert not model.marginals(graphs[:1], "tree_reweighted")[0].exact
    wide = Graph.grid(np.zeros((26, 26)))
    with pytest.raises(TrellisError):
        model.predict_marginals([wide])


def test_unknown_labels(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data
    rng = np.random.default_rng(3)
    some = [np.where(rng.random(y.shape) < 0.4, None, y) for y in labels[:16]]
    some[0] = some[0].ravel().tolist()
    some[0][0] = {0, 1}
    for objective in ("log", "margin", "perceptron"):
        model = GraphLabeler(objective, random_state=0, verbose=False, max_iter=10).fit(graphs[:16], some)
        assert model.score(graphs[16:], labels[16:]) > 0.7
    with pytest.raises(UnsupportedError, match="graph 0 has unknown ones"):
        GraphLabeler("pseudo_likelihood", verbose=False).fit(graphs[:16], some)


def test_several_labels_of_one_input() -> None:
    """Two labels that exclude each other, of which the features of one say nothing."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(60, 1))
    on = x[:, 0] > 0
    labels = np.stack([on, ~on], axis=1).astype(int)
    graphs = [Graph.multilabel(np.array([row[0]]), 2) for row in x]
    for graph in graphs:
        graph.nodes[1] = 0.0
    model = GraphLabeler("log", l2=0.1, directed=True, verbose=False).fit(graphs, labels)
    assert model.score(graphs, labels) > 0.95


def test_the_perceptron_separates_whatever_l2() -> None:
    """No regulariser: an l2 that would hold any other solver back changes nothing."""
    rng = np.random.default_rng(0)
    chains = [Graph(rng.normal(size=(6, 3)), [[i, i + 1] for i in range(5)]) for _ in range(30)]
    teacher = GraphLabeler("perceptron", verbose=False).fit(chains[:2], [[0, 1, 2, 0, 1, 2]] * 2)
    teacher.weights_ = 2.0 * rng.normal(size=len(teacher.weights_))
    labels = teacher.predict(chains)
    found = [
        GraphLabeler("perceptron", l2=l2, max_iter=500, random_state=0, verbose=False).fit(chains, labels)
        for l2 in (0.0, 100.0)
    ]
    for model in found:
        assert model.score(chains, labels) == 1.0
        assert model.solver_ == "perceptron"
        assert model.status_.converged
        assert "no output that scores above a gold one" in model.status_.reason
        assert model.history_["mistakes"][-1] == 0.0
    np.testing.assert_array_equal(found[0].weights_, found[1].weights_)


@pytest.mark.parametrize("solver", ["sgd", "adagrad", "adam", "sag"])
def test_smooth_objectives_by_solvers_that_visit_graphs_one_by_one(
    solver: str, data: tuple[list[Graph], list[np.ndarray]]
) -> None:
    graphs, labels = data[0][:6], data[1][:6]
    exact = GraphLabeler("pseudo_likelihood", verbose=False).fit(graphs, labels)
    found = GraphLabeler("pseudo_likelihood", solver=solver, max_iter=60, random_state=0, verbose=False).fit(
        graphs, labels
    )
    assert found.solver_ == solver
    assert found.score(graphs, labels) >= exact.score(graphs, labels) - 0.05


def test_a_model_trained_by_passive_aggressive_steps_can_be_saved(
    tmp_path: Path, data: tuple[list[Graph], list[np.ndarray]]
) -> None:
    model = GraphLabeler(
        solver=PassiveAggressive(C=0.5), inference="icm", max_iter=3, random_state=0, verbose=False
    ).fit(data[0][:4], data[1][:4])
    model.save(tmp_path / "graphs.trellis")
    again = trellis.load(tmp_path / "graphs.trellis")
    assert again.solver == PassiveAggressive(C=0.5)
    np.testing.assert_array_equal(again.weights_, model.weights_)


def test_intersection_over_union() -> None:
    """The loss of the rare class by a function: a model trained for it labels more of that class."""
    rng = np.random.default_rng(6)
    labels = [(rng.random(12) < 0.25).astype(int) for _ in range(30)]
    graphs = [Graph(y[:, None] + 0.8 * rng.normal(size=(12, 1))) for y in labels]

    def jaccard(gold: list[int], found: list[int]) -> float:
        both = sum(a == b == 1 for a, b in zip(gold, found, strict=True))
        either = sum(a == 1 or b == 1 for a, b in zip(gold, found, strict=True))
        return 1.0 - both / either if either else 0.0

    model = GraphLabeler(
        "direct",
        Custom(function=jaccard, candidates="samples", n_candidates=8),
        random_state=0,
        max_iter=6,
        verbose=False,
    ).fit(graphs, labels)
    hamming = GraphLabeler("log", verbose=False).fit(graphs, labels)
    mean = {
        one: np.mean(
            [jaccard(a.tolist(), b.tolist()) for a, b in zip(labels, one.predict(graphs), strict=True)]
        )
        for one in (model, hamming)
    }
    assert mean[model] < mean[hamming]
    again = clone(model).fit(graphs, labels)
    np.testing.assert_array_equal(again.weights_, model.weights_)


def test_files(tmp_path: Path, data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs = data[0][:6]
    labels = [np.where(y > 0, "object", "ground") for y in data[1][:6]]
    model = GraphLabeler(
        "margin", inference=GraphInference("message_passing", max_iter=7), solver=CuttingPlane(tol=0.1),
        random_state=1, verbose=False,
    ).fit(graphs, labels)  # fmt: skip
    model.save(tmp_path / "model.trellis")
    loaded = trellis.load(tmp_path / "model.trellis")
    np.testing.assert_array_equal(loaded.weights_, model.weights_)
    assert loaded.get_params() == model.get_params()
    assert loaded.status_ == model.status_
    assert loaded.history_ == model.history_
    assert loaded.excess_ == model.excess_
    for a, b in zip(loaded.predict(graphs), model.predict(graphs), strict=True):
        np.testing.assert_array_equal(a, b)
    assert set(np.unique(loaded.predict(graphs)[0])) <= {"ground", "object"}
    meta, arrays = model.to_state()
    with pytest.raises(ModelFileError, match="should be float64 of shape"):
        GraphLabeler.from_state(meta, {"weights_": arrays["weights_"][1:]})
    with pytest.raises(ModelFileError, match="not finite"):
        GraphLabeler.from_state(meta, {"weights_": arrays["weights_"] * np.nan})
    labels = {**meta["fitted"]["labels_"], "labels": ["a", "b", "c"]}
    with pytest.raises(ModelFileError, match="do not fit its labels"):
        GraphLabeler.from_state({**meta, "fitted": {**meta["fitted"], "labels_": labels}}, arrays)


def test_seeds_and_threads(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data[0][:10], data[1][:10]
    for objective in ("log", "perceptron", "direct"):
        models = [
            GraphLabeler(objective, random_state=2, n_jobs=n, max_iter=3, verbose=False).fit(graphs, labels)
            for n in (1, 2)
        ]
        np.testing.assert_array_equal(models[0].weights_, models[1].weights_)


def test_a_warm_start_goes_on(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data[0][:8], data[1][:8]
    model = GraphLabeler("log", verbose=False).fit(graphs, labels)
    before = model.history_["objective"][-1]
    model.set_params(warm_start=True, max_iter=2).fit(graphs, labels)
    assert model.history_["objective"][0] <= before + 1e-6
    with pytest.raises(UnsupportedError, match="not those of the last fit"):
        model.fit(graphs, [y + 5 for y in labels])


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda g, y: GraphLabeler().fit(g[0], y), "give a list of them"),
        (lambda g, y: GraphLabeler().fit([], []), "no graphs were given"),
        (lambda g, y: GraphLabeler().fit([np.zeros((2, 2))], [[0, 0]]), "graph 0 is of type ndarray"),
        (lambda g, y: GraphLabeler().fit(g, y[:1]), "2 graphs, but labels for 1"),
        (lambda g, y: GraphLabeler().fit(g, [y[0], y[1][:2]]), "the labels of graph 1 have shape"),
        (lambda g, y: GraphLabeler().fit(g, [y[0], [0, 1]]), "graph 1 has 30 nodes, but 2 labels"),
        (lambda g, y: GraphLabeler().fit([g[0], Graph(np.zeros((1, 4)))], [y[0], [1]]), "graph 1 has 4 node"),
        (lambda g, y: GraphLabeler(objective="slack").fit(g, y), "not exact for graphs"),
        (lambda g, y: GraphLabeler(objective="nothing").fit(g, y), "objective='nothing'"),
        (lambda g, y: GraphLabeler(loss="zero_one").fit(g, y), "0-1 loss of graphs is not exact"),
        (lambda g, y: GraphLabeler(inference="magic").fit(g, y), "no inference method 'magic'"),
        (lambda g, y: GraphLabeler(inference=3).fit(g, y), "inference=3"),
        (lambda g, y: GraphLabeler(directed=(True, False)).fit(g, y), "each of the 1 edge types"),
        (lambda g, y: GraphLabeler(directed=None).fit(g, y), "directed=None"),
        (lambda g, y: GraphLabeler().fit(5, y), "graphs are of type int"),
        (lambda g, y: GraphLabeler().fit(g, 5), "labels are of type int"),
        (lambda g, y: GraphLabeler().fit(g, [y[0], 1]), "the labels of graph 1 are of type int"),
        (lambda g, y: GraphLabeler(l2=-1.0).fit(g, y), "l2 is -1.0"),
        (lambda g, y: GraphLabeler("log", inference="lp").fit(g, y), "has no marginals"),
        (lambda g, y: GraphLabeler(solver="perceptron").fit(g, y), "objective='perceptron'"),
        (lambda g, y: GraphLabeler(holdout=0.1).fit(g, y), "holdout=0.1 of 2 graphs"),
    ],
)
def test_errors_say_what_and_where(
    fit: Any, message: str, data: tuple[list[Graph], list[np.ndarray]]
) -> None:
    with pytest.raises((DataError, UnsupportedError), match=message):
        fit(data[0][:2], data[1][:2])


def test_graphs_and_labels_may_come_one_by_one(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    graphs, labels = data[0][:4], data[1][:4]
    whole = GraphLabeler("pseudo_likelihood", verbose=False).fit(graphs, labels)
    streamed = GraphLabeler("pseudo_likelihood", verbose=False).fit(iter(graphs), iter(labels))
    np.testing.assert_array_equal(streamed.weights_, whole.weights_)
    assert streamed.score(iter(graphs), iter(labels)) == whole.score(graphs, labels)


def test_new_graphs_with_other_labels_or_features(data: tuple[list[Graph], list[np.ndarray]]) -> None:
    model = GraphLabeler("pseudo_likelihood", verbose=False).fit(data[0][:4], data[1][:4])
    assert model.score(data[0][:1], [np.full((5, 6), 7)]) == 0.0  # never seen, so never right
    with pytest.raises(DataError, match="graph 0 has 3 node features"):
        model.predict([Graph(np.zeros((2, 3)))])


@pytest.mark.parametrize("loss", ["hamming", WeightedHamming({(0, 1): 5.0}, class_weight={1: 2.0})])
def test_decoding_by_expected_loss(loss: Any) -> None:
    """By enumeration: the expected cost of the answer is the smallest of all labellings."""
    graphs, labels = images(12, shape=(2, 3))
    model = GraphLabeler("log", loss, verbose=False).fit(graphs, labels)
    every = np.array(list(product(range(2), repeat=6)), dtype=np.int32)
    changed = 0
    for graph, found in zip(graphs, model.predict(graphs, decoding="minimum_risk"), strict=True):
        assert found.shape == (2, 3)
        scores = model.scores(graph)
        p = np.array([scores.score(y) for y in every])
        p = np.exp(p - np.logaddexp.reduce(p))
        table = get_loss(loss).costs(
            EncodedLabels(np.arange(2, dtype=np.int32), None, np.array([0, 2])), model.labels_
        )
        risks = np.array([(table[every, y].sum(axis=1)) @ p for y in every])
        mine = (every == found.ravel()).all(axis=1)
        np.testing.assert_allclose(risks[mine][0], risks.min(), atol=1e-9)
        changed += bool((found != model.predict([graph])[0]).any())
    assert loss == "hamming" or changed  # costs change what is best


def test_marginals_for_decoding_are_exact_or_named() -> None:
    """A grid that is too wide for exact sums is decoded by the approximation that the user names."""
    graphs, labels = images(3, shape=(4, 5))
    model = GraphLabeler("pseudo_likelihood", verbose=False).fit(graphs, labels)
    model.set_params(inference=GraphInference(memory_limit=1.0))
    with pytest.raises(UnsupportedError, match="'tree_reweighted' or 'loopy' for marginals"):
        model.predict(graphs, decoding="minimum_risk")
    found = model.predict(graphs, decoding="minimum_risk", inference="tree_reweighted")
    near = model.predict_marginals(graphs, "tree_reweighted")
    for labelling, marginals in zip(found, near, strict=True):
        np.testing.assert_array_equal(labelling.ravel(), marginals.argmax(axis=1))


def test_losses_of_whole_graphs_have_no_expected_cost_by_node() -> None:
    graphs, labels = images(12, shape=(2, 3))
    model = GraphLabeler("log", lambda gold, found: float(gold != found), verbose=False).fit(graphs, labels)
    with pytest.raises(UnsupportedError, match="needs a loss that adds up over nodes, and 'custom' does not"):
        model.predict(graphs, decoding="minimum_risk")
    with pytest.raises(DataError, match="decoding is 'worst'; give 'best' or 'minimum_risk'"):
        model.predict(graphs, decoding="worst")
