"""A fit on shards is the fit in one piece: for deterministic solvers to rounding, whatever the backend is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import trellis
from trellis import MEMM, SequenceLabeler
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.features import Template
from trellis.solvers import CuttingPlane
from trellis.structures.chain.labeler.shards import file_data
from trellis.structures.chain.labeler.shards.shard_problems import sharded_problem

N = 36


class Piece:
    """Stands for a shard of a file."""

    def __init__(self, X: Any, y: Any, name: str, *, broken: bool = False) -> None:
        self.X, self.y, self.name, self.broken = X, y, name, broken

    def read(self) -> tuple[Any, Any]:
        if self.broken:
            raise DataError(f"{self.name}: the file ends in the middle of a line")
        return self.X, self.y


class Pieces:
    """Stands for ``trellis.ShardFiles``: data cut at ``cuts``."""

    def __init__(self, X: Any, y: Any, cuts: tuple[int, ...] = (), broken: int = -1) -> None:
        bounds = [0, *cuts, len(X)]
        self._shards = [
            Piece(X[a:b], y[a:b], f"part {i}", broken=i == broken)
            for i, (a, b) in enumerate(pairwise(bounds))
        ]

    def shards(self) -> list[Piece]:
        return self._shards


def words(n: int = N, seed: int = 0, partial: bool = False) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(seed)
    X = [[f"w{rng.integers(12)}" for _ in range(rng.integers(1, 7))] for _ in range(n)]
    y: list[Any] = [["ABC"[int(w[1:]) % 3] if rng.random() < 0.8 else "D" for w in x] for x in X]
    if partial:
        y = [[None if rng.random() < 0.2 else label for label in one] for one in y]
    return X, y


X, Y = words()
CUTS = (5, 5, 17, 30)  # one shard is empty
BACKENDS: list[Any] = [
    None,
    LocalBackend(1),
    LocalBackend(3),
    LocalBackend(2, max_memory=1),  # every state on disk
]
DETERMINISTIC = [
    ("log", "lbfgs", {}),
    ("log", "owlqn", {"l1": 0.3}),
    ("softmax_margin", "lbfgs", {}),
    ("risk", "lbfgs", {}),
    ("margin", "cutting_plane", {}),
    ("squared_margin", "cutting_plane", {}),
    ("slack", "cutting_plane", {}),
]
ONLINE = [
    ("perceptron", "perceptron"),
    ("margin", "subgradient"),
    ("log", "sgd"),
    ("log", "adagrad"),
    ("log", "adam"),
    ("margin", "minibatch"),
    ("margin", "passive_aggressive"),
    ("direct", "fine_tuning"),
    ("ramp", "sgd"),
]


def labeler(objective: str = "log", solver: Any = "auto", **options: Any) -> SequenceLabeler:
    return SequenceLabeler(objective, solver=solver, random_state=1, verbose=False, **options)


@pytest.mark.parametrize(("objective", "solver", "options"), DETERMINISTIC)
def test_deterministic_solvers_give_the_fit_in_one_piece(objective: str, solver: str, options: Any) -> None:
    whole = labeler(objective, solver, **options).fit(X, Y)
    found = [
        labeler(objective, solver, backend=one, **options).fit(Pieces(X, Y, CUTS), None) for one in BACKENDS
    ]
    for model in found:
        np.testing.assert_array_equal(model.weights_, found[0].weights_)
    assert found[0].encoder_.feature_names() == whole.encoder_.feature_names()
    np.testing.assert_array_equal(found[0].layout_.mask, whole.layout_.mask)
    memory = labeler(objective, solver, backend="threads", n_jobs=2, **options).fit(X, Y)
    for model in (found[0], memory):
        first, history = np.array(whole.history_["objective"]), np.array(model.history_["objective"])
        np.testing.assert_allclose(history[:10], first[:10], rtol=1e-9)
        np.testing.assert_allclose(history[-1], first[-1], rtol=1e-9 if solver == "lbfgs" else 2e-3)
        assert model.status_.converged == whole.status_.converged


@pytest.mark.parametrize(
    "options", [{}, {"l1": 0.3}, {"constraints": [(a, b) for a in "ABCD" for b in "ABCD"]}, {"min_count": 3}]
)
def test_memm_on_shards_is_the_memm_in_one_piece(options: Any) -> None:
    whole = MEMM(verbose=False, **options).fit(X, Y)
    pieces = Pieces(X, Y, CUTS)
    found = [MEMM(verbose=False, backend=one, **options).fit(pieces) for one in BACKENDS]
    for model in found:
        np.testing.assert_array_equal(model.weights_, found[0].weights_)
    assert found[0].encoder_.feature_names() == whole.encoder_.feature_names()
    memory = MEMM(verbose=False, backend="threads", n_jobs=2, **options).fit(X, Y)
    for model in (found[0], memory):
        first, history = np.array(whole.history_["objective"]), np.array(model.history_["objective"])
        np.testing.assert_allclose(history[:10], first[:10], rtol=1e-9)
        np.testing.assert_allclose(history[-1], first[-1], rtol=2e-3 if options.get("l1") else 1e-9)
        assert model.predict(X) == whole.predict(X)


def test_memm_on_shards_names_the_shard_of_a_label_that_is_not_known() -> None:
    y = [list(one) for one in Y]
    y[20][0] = None
    with pytest.raises(UnsupportedError, match="part 3: the label of step 0 of sequence 3 is not known"):
        MEMM(verbose=False).fit(Pieces(X, y, CUTS))
    with pytest.raises(UnsupportedError, match="y does not go with files"):
        MEMM(verbose=False).fit(Pieces(X, Y, CUTS), Y)


@pytest.mark.parametrize("template", [None, "U00:%x[0,0]\nU01:%x[-1,0]/%x[0,0]"])
def test_a_sketch_of_rare_features_changes_nothing(template: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_data, "SKETCHED", 0)
    options = {"min_count": 3, "max_iter": 5, "template": template and Template.parse(template)}
    rows = [[(w,) for w in x] for x in X] if template else X
    whole = labeler(**options).fit(rows, Y)
    found = labeler(**options).fit(Pieces(rows, Y, CUTS), None)
    assert found.encoder_.feature_names() == whole.encoder_.feature_names()
    np.testing.assert_allclose(found.history_["objective"], whole.history_["objective"], rtol=1e-9)


@pytest.mark.parametrize(("objective", "solver"), ONLINE)
def test_online_solvers_mix_and_give_the_same_bits_everywhere(objective: str, solver: str) -> None:
    options: dict[str, Any] = {"max_iter": 4, "holdout": 0.25 if objective == "direct" else None}
    models = [
        labeler(objective, solver, backend=one, **options).fit(Pieces(X, Y, CUTS), None) for one in BACKENDS
    ]
    for model in models:
        np.testing.assert_array_equal(model.weights_, models[0].weights_)
    assert "by mixing 4 shards" in str(models[0].status_)
    assert models[0].score(X, Y) > (0.35 if solver == "adam" else 0.45)  # the most frequent label has 0.33
    one_shard = labeler(objective, solver, **options).fit(Pieces(X, Y), None)
    assert "mixing" not in str(one_shard.status_)


def test_one_shard_is_the_solver_itself() -> None:
    """Mixing one shard changes nothing but the order of visits: the same on data of one sequence."""
    x, y = [["a", "b", "a"]], [["A", "B", "A"]]
    for objective, solver in (("log", "sgd"), ("log", "adagrad"), ("log", "adam"), ("margin", "subgradient")):
        whole = labeler(objective, solver, max_iter=5).fit(x, y)
        shard = labeler(objective, solver, max_iter=5).fit(Pieces(x, y), None)
        np.testing.assert_array_equal(whole.weights_, shard.weights_)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(1, 8), st.lists(st.integers(0, 8), max_size=5), st.booleans(), st.integers(0, 99))
def test_any_cut(n: int, cuts: list[int], partial: bool, seed: int) -> None:
    """One sequence, empty shards, shards that lack labels, unknown labels: the CRF of all data."""
    x, y = words(n, seed, partial)
    if not any(label for one in y for label in one):
        return
    options = {"max_iter": 5, "constraints": None, "min_count": 1 + seed % 2}
    whole = labeler(**options).fit(x, y)
    at = tuple(sorted(min(c, n) for c in cuts))
    shards = labeler(**options).fit(Pieces(x, y, at), None)
    assert shards.labels_.labels == whole.labels_.labels
    np.testing.assert_allclose(
        shards.history_["objective"], whole.history_["objective"], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize(
    "options",
    [
        {"transitions": "observed"},
        {"transitions": [(a, b) for a in "ABCD" for b in "ABCD"]},
        {"constraints": [(a, b) for a in "ABCD" for b in "ABCD"]},
        {"weights": "all"},
        {"boundaries": False, "transition_features": True},
        {"class_weight": "balanced"},
        {"objective": "margin", "class_weight": "balanced", "solver": "cutting_plane", "max_iter": 9},
        {"objective": "margin", "loss": "zero_one", "solver": "cutting_plane", "max_iter": 9},
        {"latent_states": 2, "max_iter": 9},
        {"holdout": 0.25, "max_iter": 9},
        {"holdout": words(9, 5), "max_iter": 9},
    ],
)
def test_options_mean_what_they_mean_in_one_piece(options: Any) -> None:
    options = dict(options)
    objective, solver = options.pop("objective", "log"), options.pop("solver", "lbfgs")
    whole = labeler(objective, solver, **options).fit(X, Y)
    for model in (
        labeler(objective, solver, **options).fit(Pieces(X, Y, CUTS), None),
        labeler(objective, solver, backend=LocalBackend(2), **options).fit(X, Y),
    ):
        np.testing.assert_allclose(
            model.history_["objective"][:8], whole.history_["objective"][:8], rtol=1e-8
        )
        if "holdout" in options:
            np.testing.assert_allclose(model.history_["holdout_loss"], whole.history_["holdout_loss"])
        np.testing.assert_array_equal(model.layout_.mask, whole.layout_.mask)


def test_sample_weight_and_warm_start() -> None:
    weight = np.random.default_rng(0).uniform(0.0, 2.0, N)
    whole = labeler().fit(X, Y, sample_weight=weight)
    model = labeler(backend="threads").fit(X, Y, sample_weight=weight)
    np.testing.assert_allclose(model.history_["objective"][-1], whole.history_["objective"][-1], rtol=1e-9)
    again = labeler(warm_start=True, backend="threads", max_iter=3).fit(X, Y, sample_weight=weight)
    again.fit(Pieces(X, Y, CUTS), None)
    assert again.history_["objective"][0] < model.history_["objective"][0]
    with pytest.raises(UnsupportedError, match="sample_weight does not go with files"):
        labeler().fit(Pieces(X, Y), None, sample_weight=weight)


def test_hidden_labels_by_cccp() -> None:
    x, y = words(20, 3, partial=True)
    whole = labeler("margin", "cccp", max_iter=3).fit(x, y)
    model = labeler("margin", "cccp", max_iter=3).fit(Pieces(x, y, (7, 12)), None)
    np.testing.assert_allclose(model.history_["objective"], whole.history_["objective"], rtol=1e-6)


def test_losses_that_do_not_decompose() -> None:
    y = [[label if label == "D" else f"B-{label}" for label in one] for one in Y]
    y = [["O" if label == "D" else label for label in one] for one in y]
    model = labeler("margin", loss="span_f1", max_iter=4).fit(Pieces(X, y, CUTS), None)
    assert model.solver_ == "minibatch"
    assert "by mixing 4 shards" in str(model.status_)


@pytest.mark.parametrize(
    ("objective", "solver", "other"),
    [
        ("margin", "frank_wolfe", "cutting_plane"),
        ("margin", CuttingPlane(variant="n_slack"), "cutting_plane"),
        ("log", "sag", "lbfgs"),
    ],
)
def test_solvers_of_single_examples_are_refused(objective: str, solver: Any, other: str) -> None:
    with pytest.raises(UnsupportedError, match=f"data in shards do not give; use solver='{other}'"):
        labeler(objective, solver).fit(Pieces(X, Y, CUTS), None)
    assert labeler("margin", max_iter=2).fit(Pieces(X, Y, CUTS), None).solver_ == "cutting_plane"


def test_the_recipe_of_direct_loss() -> None:
    models = [
        labeler("direct", holdout=0.3, backend=one).fit(Pieces(X, Y, (20,)), None) for one in BACKENDS[2:]
    ]
    whole = labeler("direct", holdout=0.3).fit(X, Y)
    for model in models:
        np.testing.assert_array_equal(model.weights_, models[0].weights_)
    np.testing.assert_allclose(models[0].epsilon_, whole.epsilon_, rtol=1e-4)
    assert abs(models[0].score(X, Y) - whole.score(X, Y)) < 0.05


def test_messages_name_the_shard() -> None:
    y = [list(one) for one in Y]
    with pytest.raises(DataError, match="part 3: the file ends"):
        labeler().fit(Pieces(X, y, CUTS, broken=3), None)
    wrong = Pieces([["a", "b"]] * 3, [["A", "B"], ["A", "B"], ["B", "A"]], (1, 2))
    with pytest.raises(DataError, match=r"part 2: .*may not follow"):
        labeler(constraints=[("A", "B")]).fit(wrong, None)
    with pytest.raises(DataError, match="no labels to learn from"):
        labeler().fit(_Unlabelled(), None)
    mixed = Pieces([*X[:5], np.ones((2, 3))], [*y[:5], ["A", "B"]], (5,))
    with pytest.raises(DataError, match="different kinds"):
        labeler().fit(mixed, None)
    with pytest.raises(InfeasibleError, match="part 1: sequence 0 has no allowed labelling"):
        labeler(constraints=[("A", "B")]).fit(
            Pieces([["a", "b"], ["a", "b", "a"]], [["A", "B"], [None, None, None]], (1,)), None
        )


class _Unlabelled:
    def shards(self) -> list[Piece]:
        return [Piece(X, None, "raw")]


def test_the_context_names_the_backend() -> None:
    with trellis.config_context(backend="threads"):
        model = labeler("log", "sgd", max_iter=2).fit(X, Y)
    assert "by mixing" in str(model.status_)
    assert "mixing" not in str(labeler("log", "sgd", max_iter=2).fit(X, Y).status_)


def test_states_hold_neither_the_layout_nor_scratch(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is put on disk for a shard does not grow with the weights."""
    sizes = []

    def measured(*arguments: Any) -> Any:
        problem = sharded_problem(*arguments)
        folder: Any = problem.shards._folder  # type: ignore[attr-defined]
        sizes.append((folder / "0").stat().st_size)
        return problem

    monkeypatch.setattr(file_data, "sharded_problem", measured)
    for rare in (2, 20_000):
        x = [["w1", "w2"]] * 40 + [[f"r{i}" for i in range(rare)]]
        y = [["A", "B"]] * 40 + [["A", "B"] * (rare // 2)]
        backend = LocalBackend(1, max_memory=1, folder=tmp_path)
        labeler(backend=backend, max_iter=1).fit(Pieces(x, y, (40,)), None)
    assert sizes[1] < 2 * sizes[0]
    assert not list(tmp_path.iterdir())
