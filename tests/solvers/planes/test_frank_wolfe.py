"""Frank-Wolfe against an enumerated QP, scikit-learn's multiclass SVM, cutting planes, and its own
certificate."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from sklearn.svm import LinearSVC

from small_chains import gold_of, labellings, loss_of_path, phi, primal, run, small_problem
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.solvers.planes.cutting_plane import CuttingPlane
from trellis.solvers.planes.frank_wolfe import FrankWolfe
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.plane_kernels import (
    dot_difference,
    list_difference,
    room_for_difference,
)
from trellis.structures.chain.scores.linear_chain_kernels import Penalties

VARIANTS = [
    {},
    {"observed": True, "boundaries": False},
    {"edges": True},
    {"constrained": True, "weighted": True},
    {"loss": "zero_one"},
    {"binary": True, "observed": True, "edges": True, "constrained": True},
    {"compiled": False},
    {"compiled": False, "constrained": True, "weighted": True},
]


def enumerated_optimum(problem: LinearChainProblem) -> float:
    """The optimum of the primal as a smooth QP with one constraint per labelling, by SLSQP."""
    d, n = problem.dimension, problem.n_examples
    rows, offsets, owner = [], [], []
    for i in range(n):
        gold = phi(problem, i, gold_of(problem, i))
        for y in labellings(problem, i):
            loss = loss_of_path(problem, i, y)
            rows.append(
                loss * (phi(problem, i, y) - gold)
                if problem.objective.name == "slack"
                else phi(problem, i, y) - gold
            )
            offsets.append(0.0 if problem.objective.name == "perceptron" else loss)
            owner.append(i)
    G, b, owner = np.array(rows), np.array(offsets), np.array(owner)

    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        w, xi = x[:d], x[d:]
        gradient = np.concatenate([problem.l2 * w, problem.task.weight])
        return float(problem.task.weight @ xi) + 0.5 * problem.l2 * float(w @ w), gradient

    A = np.zeros((len(b), d + n))
    A[:, :d], A[np.arange(len(b)), d + owner] = -G, 1.0
    done = scipy_minimize(
        value,
        np.zeros(d + n),
        jac=True,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda x: A @ x - b, "jac": lambda x: A},
        options={"maxiter": 500, "ftol": 1e-12},
    )
    assert done.success
    return float(done.fun)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_margin_reaches_the_enumerated_optimum(options: dict) -> None:
    problem = small_problem("margin", 1, lengths=(2, 1, 3, 2), **options)
    solution = run(FrankWolfe(tol=1e-7), problem, 2000)
    optimum = enumerated_optimum(problem)
    assert solution.status.converged
    assert primal(problem, solution.weights) == pytest.approx(optimum, rel=1e-5)
    assert solution.history["objective"][-1] == pytest.approx(primal(problem, solution.weights), rel=1e-10)
    assert np.max(solution.history["dual"]) <= optimum * (1 + 1e-6)
    assert np.min(solution.history["objective"]) >= optimum * (1 - 1e-6)


def test_slack_reaches_the_enumerated_optimum() -> None:
    problem = small_problem("slack", 2, lengths=(2, 1, 3, 2))
    solution = run(FrankWolfe(tol=1e-6), problem, 2000)
    # The hull oracle may leave an excess, which the certificate counts: the bounds hold all the same.
    optimum = enumerated_optimum(problem)
    assert solution.history["dual"][-1] <= optimum * (1 + 1e-6)
    assert solution.history["objective"][-1] >= optimum * (1 - 1e-6)
    assert solution.history["objective"][-1] - solution.history["oracle_excess"][-1] <= optimum * (1 + 1e-3)


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=6).filter(lambda x: sum(x) > 0),
    n_labels=st.integers(1, 4),
    l2=st.sampled_from([0.01, 1.0, 30.0]),
    cache=st.sampled_from([2, 12]),
    average=st.booleans(),
    constrained=st.booleans(),
    compiled=st.booleans(),
)
def test_bounds_hold_and_meet(
    seed: int,
    lengths: list[int],
    n_labels: int,
    l2: float,
    cache: int,
    average: bool,
    constrained: bool,
    compiled: bool,
) -> None:
    problem = small_problem(
        "margin", seed, lengths=tuple(lengths), n_labels=n_labels, l2=l2, observed=seed % 2 == 0,
        constrained=constrained and n_labels == 3, weighted=True, compiled=compiled,
    )  # fmt: skip
    solution = run(FrankWolfe(tol=1e-3, cache=cache, average=average), problem, 500)
    objective, dual = np.array(solution.history["objective"]), np.array(solution.history["dual"])
    assert np.all(dual <= objective[-1] + 1e-9 * (1 + abs(objective[-1])))
    assert np.all(np.diff(objective) <= 0)
    assert np.all(np.diff(dual) >= 0)
    assert solution.status.converged
    assert primal(problem, solution.weights) == pytest.approx(objective[-1], rel=1e-9, abs=1e-12)
    if len(problem.layout.mask):
        assert not solution.weights[problem.layout.mask == 0].any()


def test_agrees_with_cutting_planes_with_a_small_cache_and_many_planes() -> None:
    problem = small_problem("margin", 5, lengths=(6, 5, 4, 6, 3, 5, 4), n_labels=4, n_features=12, l2=0.05)
    tight = run(FrankWolfe(tol=1e-4, cache=2), problem, 3000)
    other = run(CuttingPlane(tol=1e-4), problem, 3000)
    assert tight.status.converged
    assert other.status.converged
    assert primal(problem, tight.weights) == pytest.approx(primal(problem, other.weights), rel=2e-4)


def test_chains_of_length_one_are_crammer_and_singers_svm() -> None:
    problem = small_problem(
        "margin", 3, lengths=(1,) * 60, n_labels=3, n_features=5, l2=2.0, boundaries=False
    )
    solution = run(FrankWolfe(tol=1e-7), problem, 3000)
    X = np.zeros((60, 5))
    for t in range(60):
        at = slice(problem.design.indptr[t], problem.design.indptr[t + 1])
        X[t, problem.design.indices[at]] = problem.design.values[at]
    svm = LinearSVC(
        multi_class="crammer_singer", C=1 / problem.l2, fit_intercept=False, tol=1e-10, max_iter=1_000_000
    ).fit(X, problem.task.gold)
    np.testing.assert_allclose(problem.layout.views(solution.weights).hot.T, svm.coef_, atol=2e-3)


def test_the_same_seed_gives_the_same_run() -> None:
    problem = small_problem("margin", 4, lengths=(3,) * 12)
    a, b, c = (run(FrankWolfe(tol=0.0), problem, 6, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.weights, b.weights)
    assert a.history["dual"] == b.history["dual"]
    assert a.history["dual"] != c.history["dual"]
    assert not a.status.converged


def test_given_weights_are_a_first_upper_bound() -> None:
    problem = small_problem("margin", 4)
    optimum = run(FrankWolfe(tol=1e-8), problem, 3000).weights
    started = FrankWolfe(tol=0.5).start(problem, optimum.copy(), np.random.default_rng(0))
    first = started.step()
    assert first["objective"] == pytest.approx(primal(problem, optimum), rel=1e-9)
    np.testing.assert_array_equal(started.weights, optimum)


def test_what_it_cannot_do_is_said() -> None:
    rng = np.random.default_rng(0)
    for problem, words in [
        (small_problem("margin", l2=0.0), "l2 > 0"),
        (small_problem("margin").with_(l1=1.0), "L1 norm"),
        (small_problem("margin", ambiguous=True), "unknown; use solver='subgradient'"),
        (small_problem("log"), "made of planes; 'log' is not piecewise linear; use solver='lbfgs'"),
        (small_problem("ramp"), "'ramp' is not piecewise linear; use solver='sgd'"),
    ]:
        with pytest.raises(UnsupportedError, match=words):
            FrankWolfe().start(problem, np.zeros(problem.dimension), rng)
    with pytest.raises(UnsupportedError, match=r"example_plane.*object does not offer"):
        FrankWolfe().start(object(), np.zeros(1), rng)
    for bad in ({"tol": -1.0}, {"cache": 1}, {"cached_passes": -1}):
        with pytest.raises(DataError):
            FrankWolfe(**bad)


def test_a_forbidden_gold_labelling_is_named() -> None:
    problem = small_problem("margin", 0)
    end_ok = np.ones(3, bool)
    end_ok[gold_of(problem, 2)[-1]] = False
    problem = problem.with_(penalties=Penalties.where_not(np.ones(3, bool), np.ones((3, 3), bool), end_ok))
    with pytest.raises(InfeasibleError, match="sequence"):
        run(FrankWolfe(), problem, 3)


@pytest.mark.parametrize("options", VARIANTS[:4], ids=str)
def test_differences_of_labellings_against_the_definition(options: dict) -> None:
    problem = small_problem("margin", 7, **options)
    rng = np.random.default_rng(0)
    mask, room = problem.layout.mask, room_for_difference(problem.design)
    w = rng.normal(size=problem.dimension) * (mask if len(mask) else 1.0)
    views = problem.layout.views(w)
    position, value = np.empty(room, np.int64), np.empty(room)
    for i in range(problem.n_examples):
        n = int(np.diff(problem.design.offsets)[i])
        up, down = (rng.integers(0, 3, n).astype(np.int32) for _ in range(2))
        expected = phi(problem, i, up) - phi(problem, i, down)
        size = list_difference(problem.design, problem.layout.rows, views, mask, i, up, down, position, value)
        found = np.zeros(problem.dimension)
        np.add.at(found, position[:size], value[:size])
        np.testing.assert_allclose(found, expected, atol=1e-12)
        product = dot_difference(problem.design, problem.layout.rows, views, i, up, down)
        assert product == pytest.approx(float(w @ expected), abs=1e-12)
