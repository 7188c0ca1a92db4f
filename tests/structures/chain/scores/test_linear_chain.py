"""The linear scorer and its problem: exact scores and adjoints, and optima that other libraries find too."""

from __future__ import annotations

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from codec_copy import through_codec
from scored_chains import value_and_gradient
from trellis.core.errors import InfeasibleError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import offsets_from_lengths
from trellis.features.encoded import Encoded, Features
from trellis.features.indexer import FeatureIndexer
from trellis.losses.labelings import Hamming, Loss, WeightedHamming, ZeroOne
from trellis.objectives import OBJECTIVES, Direct, Objective, get_objective
from trellis.solvers.planes.cutting_plane import CuttingPlane
from trellis.solvers.quasi_newton.lbfgs import LBFGS
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.chain_task import loss_table, new_task
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties, pull_back
from trellis.training.driver import minimise

ALL = [*(get_objective(name) for name in OBJECTIVES), Direct(sign="worse"), Direct(sign="central")]


def features_of(matrix: np.ndarray, offsets: np.ndarray) -> Features:
    """CSR with the convention of encoders: values ``[1.0]`` where every one is one."""
    sparse = csr_array(matrix)
    values = sparse.data if len(sparse.data) and (sparse.data != 1).any() else np.ones(1)
    return Features(
        sparse.indptr.astype(np.int64), sparse.indices.astype(np.uint32), values, matrix.shape[1], offsets
    )


class Model:
    """Random sparse data and a linear layout, next to the same as dense arrays."""

    def __init__(
        self,
        seed: int,
        *,
        k: int = 3,
        lengths: tuple[int, ...] = (3, 0, 1, 4),
        n_features: int = 7,
        pairs: str = "observed",
        ones: bool = False,
        edges: bool = False,
        boundaries: bool = True,
        partial: bool = False,
        density: float = 0.4,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.rng, self.k = rng, k
        self.offsets = offsets_from_lengths(lengths)
        n = int(self.offsets[-1])

        def sparse(columns: int) -> np.ndarray:
            values = np.ones((n, columns)) if ones else rng.normal(size=(n, columns))
            return np.where(rng.random((n, columns)) < density, values, 0.0)

        self.x = sparse(n_features)
        self.z = sparse(2) if edges else None
        self.encoded = Encoded(
            features_of(self.x, self.offsets), None if self.z is None else features_of(self.z, self.offsets)
        )
        self.labels = LabelSet(range(k))
        y: list[list[object]] = [[int(c) for c in rng.integers(k, size=m)] for m in lengths]
        if partial:
            for row in y:
                for t in range(len(row)):
                    row[t] = [row[t], row[t], None, {0, k - 1}][rng.integers(4)]
        self.gold = self.labels.encode(y)
        if pairs == "observed":
            self.layout = LinearLayout.observed(
                self.encoded, self.gold.codes, self.gold.allowed, k, boundaries=boundaries
            )
        else:
            self.layout = LinearLayout.all_pairs(self.encoded, k, boundaries=boundaries)
        self.weights = rng.normal(size=self.layout.dimension)
        if len(self.layout.mask):
            self.weights *= self.layout.mask
        self.design = self.layout.design(self.encoded, sort=bool(rng.integers(2)))

    def problem(
        self,
        objective: Objective,
        loss: Loss,
        *,
        penalties: Penalties | None = None,
        weight: np.ndarray | None = None,
        **options: object,
    ) -> LinearChainProblem:
        kind, cost = loss_table(objective, loss, self.gold, self.labels)
        task = new_task(self.gold, self.k, weight, cost)
        penalties = penalties or Penalties.none(self.k)
        return LinearChainProblem(self.layout, self.design, penalties, task, objective, kind, **options)  # type: ignore[arg-type]

    def dense_scores(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Unaries and transitions by matrix products."""
        views = self.layout.views(weights)
        unary = self.x @ self.layout.feature_weights(weights)
        if self.z is None:
            return unary, views.transitions[None]
        return unary, views.transitions + np.einsum("tf,fjk->tjk", self.z, views.edge)

    def dense_gradient(
        self, d_unary: np.ndarray, d_trans: np.ndarray, d_start: np.ndarray, d_end: np.ndarray
    ) -> np.ndarray:
        """The chain rule by matrix products; the transition rows at the first steps must be zero."""
        edge = np.zeros((0,)) if self.z is None else np.einsum("tf,tjk->fjk", self.z, d_trans).ravel()
        rest = np.concatenate([edge, d_trans.sum(axis=0).ravel(), d_start, d_end])
        return self.layout.from_dense(self.x.T @ d_unary, rest)


@st.composite
def models(draw: st.DrawFn, **fixed: object) -> Model:
    options: dict[str, object] = {
        "k": draw(st.sampled_from([1, 2, 3, 9])),
        "lengths": tuple(draw(st.lists(st.integers(0, 6), min_size=1, max_size=4))),
        "n_features": draw(st.sampled_from([1, 7, 20])),
        "pairs": draw(st.sampled_from(["observed", "all"])),
        "ones": draw(st.booleans()),
        "edges": draw(st.booleans()),
        "boundaries": draw(st.booleans()),
        "partial": draw(st.booleans()),
        "density": draw(st.sampled_from([0.1, 0.5, 1.0])),
    } | fixed
    return Model(draw(st.integers(0, 2**32 - 1)), **options)  # type: ignore[arg-type]


@given(models())
def test_scores_are_matrix_products(model: Model) -> None:
    scores = model.problem(get_objective("log"), Hamming()).scores(model.weights)
    unary, transitions = model.dense_scores(model.weights)
    np.testing.assert_allclose(scores.unary, unary, atol=1e-12)
    inside = np.ones(len(transitions), dtype=bool)
    if model.z is not None:
        inside[model.offsets[:-1][np.diff(model.offsets) > 0]] = False  # the first steps have no transition
    np.testing.assert_allclose(scores.transitions[inside], transitions[inside], atol=1e-12)


@given(models())
def test_pull_back_is_the_adjoint(model: Model) -> None:
    """<scores(w), d> = <w, pull_back(d)> for any d."""
    n, k = len(model.x), model.k
    d_unary = model.rng.normal(size=(n, k))
    d_trans = model.rng.normal(size=(n, k, k))
    firsts = model.offsets[:-1][np.diff(model.offsets) > 0]
    lasts = model.offsets[1:][np.diff(model.offsets) > 0] - 1
    d_trans[firsts] = 0.0
    gradient = np.zeros(model.layout.dimension)
    for i in range(len(model.offsets) - 1):
        lo, hi = model.offsets[i : i + 2]
        steps = d_trans[lo:hi].copy()
        steps = steps.sum(axis=0, keepdims=True) if model.z is None else steps
        pull_back(
            model.design,
            model.layout.rows,
            model.layout.views(gradient),
            i,
            d_unary[lo:hi].copy(),
            steps,
            0.5,
        )
    unary, transitions = model.dense_scores(model.weights)
    views = model.layout.views(model.weights)
    forward = (
        np.sum(unary * d_unary)
        + np.sum(transitions * d_trans)
        + np.sum(d_unary[firsts] @ views.start)
        + np.sum(d_unary[lasts] @ views.end)
    )
    assert gradient @ model.weights == pytest.approx(0.5 * forward, abs=1e-9)


@pytest.mark.parametrize("objective", ALL, ids=lambda o: f"{o.name}_{getattr(o, 'sign', '')}")
@given(model=models(), loss=st.sampled_from([WeightedHamming(class_weight={0: 0.3}), ZeroOne()]))
def test_gradient_is_the_chain_rule(objective: Objective, model: Model, loss: Loss) -> None:
    """The fused kernel gives the score gradient (proved elsewhere) times the features, weighted, masked."""
    weight = model.rng.choice([0.0, 0.7, 1.0, 1.0, 2.0], size=len(model.offsets) - 1)
    problem = model.problem(objective, loss, weight=weight)
    values, gradient = problem.values_and_gradient(model.weights)
    scores = problem.scores(model.weights)
    expected = np.zeros(model.layout.dimension)
    for i, c in enumerate(weight):
        alone = Alone(model, i)
        value, parts = value_and_gradient(objective, alone.scores_of(scores), alone.gold, loss, model.labels)
        assert values[i] == pytest.approx(value[0], abs=1e-9)
        d_unary = np.zeros((len(model.x), model.k))
        d_unary[alone.steps] = parts.unary
        d_trans = parts.transitions
        if model.z is not None:
            d_trans = np.zeros((len(model.x), model.k, model.k))
            d_trans[alone.steps] = parts.transitions
        expected += c * model.dense_gradient(d_unary, d_trans, parts.start, parts.end)
    np.testing.assert_allclose(gradient, expected, atol=1e-9)


class Alone:
    """One sequence of a model's batch."""

    def __init__(self, model: Model, i: int) -> None:
        self.steps = slice(*model.offsets[i : i + 2])
        self.gold: EncodedLabels = model.gold.take(np.array([i]))

    def scores_of(self, scores: ChainScores) -> ChainScores:
        shared = len(scores.transitions) == 1
        transitions = scores.transitions if shared else scores.transitions[self.steps]
        return ChainScores(scores.unary[self.steps], transitions, scores.start, scores.end, self.gold.offsets)


@pytest.mark.parametrize("name", ["log", "softmax_margin", "risk"])
@pytest.mark.parametrize("edges", [False, True], ids=["shared", "edges"])
def test_finite_differences(name: str, edges: bool) -> None:
    model = Model(5, edges=edges, partial=True, k=9, n_features=20)
    problem = model.problem(get_objective(name), Hamming())
    _, gradient = problem.value_and_gradient(model.weights)
    for _ in range(5):
        by = model.rng.normal(size=len(gradient)) * (model.layout.mask if len(model.layout.mask) else 1)
        up, down = (problem.value_and_gradient(model.weights + s * by)[0] for s in (1e-5, -1e-5))
        assert gradient @ by == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("objective", ALL, ids=lambda o: f"{o.name}_{getattr(o, 'sign', '')}")
def test_threads_agree(objective: Objective) -> None:
    model = Model(7, lengths=(5, 2, 0, 7, 1, 3), partial=True, k=9, n_features=20, edges=True)
    one = model.problem(objective, Hamming()).values_and_gradient(model.weights)
    two = model.problem(objective, Hamming(), n_jobs=2).values_and_gradient(model.weights)
    np.testing.assert_array_equal(one[0], two[0])
    np.testing.assert_allclose(one[1], two[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["log", "margin"])
def test_runs_add_up(name: str) -> None:
    """Mini-batches sum to the whole; long enough to fill several blocks of steps."""
    lengths = (300, 0, 250, 600, 1, 40, 90)
    model = Model(3, lengths=lengths, k=9, n_features=30, density=0.1)
    problem = model.problem(
        get_objective(name), Hamming(), weight=np.linspace(0.5, 1.5, len(lengths)).round(1)
    )
    value, gradient = problem.value_and_gradient(model.weights)
    total, together = 0.0, np.zeros(problem.dimension)
    for first, last in ((0, 1), (1, 2), (2, 6), (6, 7)):
        part, slope = problem.run_value_and_gradient(model.weights, first, last)
        total += part
        together += slope
    assert total == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(together, gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["perceptron", "margin", "slack"])
@given(model=models(), loss=st.sampled_from([Hamming(), ZeroOne()]))
def test_planes_are_single_gradients(name: str, model: Model, loss: Loss) -> None:
    n = len(model.offsets) - 1
    weight = model.rng.uniform(0.5, 2.0, size=n)
    problem = model.problem(get_objective(name), loss, weight=weight)
    values, rows = problem.example_planes(model.weights)
    assert rows.shape == (n, model.layout.dimension)
    for i in range(n):
        alone = model.problem(get_objective(name), loss, weight=np.where(np.arange(n) == i, weight, 0.0))
        value, gradient = alone.value_and_gradient(model.weights)
        assert values[i] == pytest.approx(value)
        np.testing.assert_allclose(rows[[i]].toarray()[0], gradient, atol=1e-12)


@given(models(pairs="observed"))
def test_observed_layout_counts_what_occurs(model: Model) -> None:
    """One weight for each (feature, label) and (label, label) that occurs, or may for partial labels."""
    k, allowed = model.k, model.gold.allowed
    if allowed is None:
        allowed = np.eye(k, dtype=bool)[model.gold.codes]
    pairs, transitions = set(), set()
    for i in range(len(model.offsets) - 1):
        for t in range(*model.offsets[i : i + 2]):
            here = np.flatnonzero(allowed[t])
            pairs |= {(int(f), int(c)) for f in np.flatnonzero(model.x[t]) for c in here}
            if t > model.offsets[i]:
                transitions |= {(int(j), int(c)) for j in np.flatnonzero(allowed[t - 1]) for c in here}
    n_edge = 0 if model.z is None else 2
    boundaries = 2 * k if model.layout.boundaries else 0
    assert model.layout.n_weights == len(pairs) + len(transitions) + n_edge * k * k + boundaries
    dense = model.layout.feature_weights(np.ones(model.layout.dimension) * model.layout.mask)
    assert {(int(f), int(c)) for f, c in np.argwhere(dense)} == pairs
    assert {
        (int(j), int(c)) for j, c in np.argwhere(model.layout.views(model.layout.mask * 1.0).transitions)
    } == transitions


@given(models())
def test_layout_round_trip(model: Model) -> None:
    again = through_codec(model.layout)
    assert again.dimension == model.layout.dimension
    assert again.n_weights == model.layout.n_weights
    design = again.design(model.encoded, sort=True)
    ours = model.problem(get_objective("log"), Hamming())
    theirs = LinearChainProblem(again, design, ours.penalties, ours.task, ours.objective, ours.loss_kind)
    np.testing.assert_allclose(
        ours.value_and_gradient(model.weights)[1], theirs.value_and_gradient(model.weights)[1], atol=1e-12
    )
    np.testing.assert_array_equal(
        model.layout.from_dense(*model.layout.to_dense(model.weights)), model.weights
    )


@pytest.mark.parametrize("value", [1.0, 2.5])
def test_a_single_nonzero(value: float) -> None:
    """One value alone means "all are one" to the kernels; one feature with another value must not."""
    encoded = Encoded(
        Features(np.array([0, 1, 1]), np.zeros(1, np.uint32), np.array([value]), 1, np.array([0, 2]))
    )
    layout = LinearLayout.all_pairs(encoded, 2, boundaries=True)
    weights = np.arange(1.0, layout.dimension + 1)
    labels = LabelSet("ab")
    gold = labels.encode([["a", "b"]])
    task = new_task(gold, 2)
    problem = LinearChainProblem(
        layout, layout.design(encoded, sort=True), Penalties.none(2), task, get_objective("log"), 0
    )
    np.testing.assert_array_equal(problem.scores(weights).unary, [[value, 2 * value], [0, 0]])


def test_forbidden_gold_is_named() -> None:
    model = Model(0, lengths=(1, 3))
    forbid = Penalties(np.zeros(3), np.full((3, 3), -np.inf), np.zeros(3))
    for name in ("log", "margin"):
        with pytest.raises(InfeasibleError, match="sequence 1 "):
            model.problem(get_objective(name), Hamming(), penalties=forbid).value_and_gradient(model.weights)


def multiclass(n: int = 90, d: int = 4, k: int = 3) -> tuple[Model, np.ndarray, np.ndarray]:
    """Chains of length 1: K classes, dense features, no start or end weights."""
    model = Model(11, lengths=(1,) * n, n_features=d, k=k, density=1.0, pairs="all", boundaries=False)
    truth = model.rng.normal(size=(d, k))
    codes = (model.x @ truth + model.rng.gumbel(size=(n, k))).argmax(axis=1).astype(np.int32)
    model.gold = EncodedLabels(codes, None, model.offsets)
    return model, model.x, codes


def test_length_one_is_logistic_regression() -> None:
    model, x, y = multiclass()
    l2 = 0.3
    problem = model.problem(get_objective("log"), Hamming(), l2=l2)
    solution = minimise(
        LBFGS(tol=1e-9), problem, np.zeros(problem.dimension), max_iter=500, rng=np.random.default_rng(0)
    )
    assert solution.status.converged
    theirs = LogisticRegression(C=1 / l2, fit_intercept=False, tol=1e-10, max_iter=5000).fit(x, y)
    np.testing.assert_allclose(model.layout.feature_weights(solution.weights), theirs.coef_.T, atol=1e-6)


def test_length_one_is_the_crammer_singer_svm() -> None:
    model, x, y = multiclass()
    l2 = 0.5
    problem = model.problem(get_objective("margin"), Hamming(), l2=l2)
    solution = minimise(
        CuttingPlane(tol=1e-7),
        problem,
        np.zeros(problem.dimension),
        max_iter=2000,
        rng=np.random.default_rng(0),
    )
    assert solution.status.converged
    theirs = LinearSVC(
        C=1 / l2, multi_class="crammer_singer", fit_intercept=False, tol=1e-8, max_iter=100_000
    ).fit(x, y)
    flat = model.layout.from_dense(theirs.coef_.T, np.zeros(problem.dimension - theirs.coef_.size))

    def objective(weights: np.ndarray) -> float:
        return problem.value_and_gradient(weights)[0] + 0.5 * l2 * float(weights @ weights)

    assert objective(solution.weights) == pytest.approx(objective(flat), rel=1e-6)
    np.testing.assert_allclose(model.layout.feature_weights(solution.weights), theirs.coef_.T, atol=1e-3)


@pytest.fixture(scope="module")
def crfsuite(tmp_path_factory: pytest.TempPathFactory) -> tuple[object, list[list[dict[str, bool]]]]:
    """A small CRFsuite model of noisy two-letter words, and new inputs."""
    rng = np.random.default_rng(2)
    path = str(tmp_path_factory.mktemp("crfsuite") / "model")
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c2": 0.1, "feature.possible_transitions": True, "feature.possible_states": True})

    def sentence(n: int) -> tuple[list[dict[str, bool]], list[str]]:
        states = rng.integers(4, size=n)
        states[1:] = np.where(rng.random(n - 1) < 0.6, (states[:-1] + 1) % 4, states[1:])
        seen = np.where(rng.random(n) < 0.7, states, rng.integers(4, size=n))
        x = [{f"letter={s}": True, f"noise={rng.integers(3)}": True} for s in seen]
        return x, [f"L{s}" for s in states]

    for _ in range(60):
        x, y = sentence(int(rng.integers(2, 9)))
        trainer.append([list(step) for step in x], y)
    trainer.train(path)
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    return tagger, [sentence(n)[0] for n in (1, 2, 5, 9)]


def test_crfsuite_weights_give_crfsuite_answers(crfsuite: tuple[object, list[list[dict[str, bool]]]]) -> None:
    tagger, x = crfsuite
    info = tagger.info()  # type: ignore[attr-defined]
    labels = LabelSet(sorted(info.labels, key=lambda name: int(info.labels[name])))
    k, codes = len(labels), {label: code for code, label in enumerate(labels.labels)}
    encoder = FeatureIndexer()
    encoded = encoder.fit([[dict.fromkeys(info.attributes, True)], *x])
    layout = LinearLayout.all_pairs(encoded, k, boundaries=False)
    names = {name: f for f, name in enumerate(encoder.feature_names())}
    state, pair = np.zeros((len(names), k)), np.zeros((k, k))
    for (attribute, label), weight in info.state_features.items():
        state[names[attribute], codes[label]] = weight
    for (before, after), weight in info.transitions.items():
        pair[codes[before], codes[after]] = weight
    assert len(info.state_features) > 20
    flat = layout.from_dense(state, np.concatenate([pair.ravel(), np.zeros(2 * k)]))

    data = encoder.transform(x)
    gold = labels.encode([[labels.labels[0]] * len(s) for s in x])
    task = new_task(gold, k)
    problem = LinearChainProblem(
        layout, layout.design(data, sort=True), Penalties.none(k), task, get_objective("log"), 0
    )
    scores = problem.scores(flat)
    chain = Chain()
    best = chain.best(scores)
    log_z = chain.log_partition(scores)
    marginals = chain.marginals(scores).unary
    for i, (sentence, ours) in enumerate(zip(x, labels.decode(best.labels, gold.offsets), strict=True)):
        theirs = tagger.tag([list(step) for step in sentence])  # type: ignore[attr-defined]
        assert ours == theirs
        probability = tagger.probability(theirs)  # type: ignore[attr-defined]
        assert np.exp(best.scores[i] - log_z[i]) == pytest.approx(probability, rel=1e-6)
        for t in range(len(sentence)):
            expected = [tagger.marginal(label, t) for label in labels.labels]  # type: ignore[attr-defined]
            np.testing.assert_allclose(marginals[gold.offsets[i] + t], expected, rtol=1e-5, atol=1e-8)
