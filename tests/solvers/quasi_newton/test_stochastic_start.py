"""The stochastic start of L-BFGS: its passes against the update written out; it does not move the optimum."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize as scipy_minimize

from small_chains import primal, run, small_problem
from trellis.core.errors import DataError
from trellis.solvers import LBFGS, get_solver
from trellis.solvers.problem import compiled_run
from trellis.solvers.quasi_newton import stochastic_start as module
from trellis.solvers.quasi_newton.inverse_hessian import InverseHessian
from trellis.solvers.quasi_newton.stochastic_start import StochasticStart, stochastic_start
from trellis.structures.chain import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem

FAMILY: list[dict[str, Any]] = [
    {},
    {"weighted": True},
    {"observed": True, "binary": True},
    {"observed": True, "boundaries": False, "n_features": 12},
    {"constrained": True},
    {"lengths": (0, 2, 0, 1, 5)},
    {"n_labels": 5, "l2": 3.0},
]


def weight_rows(problem: LinearChainProblem, i: int, gold: np.ndarray, by_label: np.ndarray) -> np.ndarray:
    """sum_t x_tf^2 by_label[t, k] at the weight of (f, k), from the definition."""
    design, rows = problem.design, problem.layout.rows
    sums = np.zeros(problem.dimension)
    for s, t in enumerate(range(design.offsets[i], design.offsets[i + 1])):
        for p in range(design.indptr[t], design.indptr[t + 1]):
            x, f = 1.0 if len(design.values) == 1 else design.values[p], int(design.indices[p])
            for q in range(rows.pointer[f], rows.pointer[f + 1]):
                sums[q] += x * x * by_label[s, rows.label[q] & 0x7FFF]
    return sums


def squares_of(problem: LinearChainProblem, i: int, weights: np.ndarray) -> np.ndarray:
    lo, hi = problem.design.offsets[i], problem.design.offsets[i + 1]
    if hi == lo:
        return np.zeros(problem.dimension)
    gold, one = problem.task.gold[lo:hi], problem.run(i, i + 1)
    marginals = Chain().marginals(one.scores(weights), per_step=False)
    residual = marginals.unary.copy()
    residual[np.arange(hi - lo), gold] -= 1.0
    sums = weight_rows(problem, i, gold, residual**2)
    views = problem.layout.views(sums)
    views.start[:], views.end[:] = residual[0] ** 2, residual[-1] ** 2
    _, gradient = one.value_and_gradient(weights)
    pairs = problem.layout.views(gradient).transitions / problem.task.weight[i]
    views.transitions[:] = pairs**2
    return problem.layout.masked(sums * problem.task.weight[i])


@pytest.mark.parametrize("options", FAMILY)
@pytest.mark.parametrize("seed", range(3))
def test_a_pass_is_the_update_written_out(options: dict[str, Any], seed: int) -> None:
    problem = small_problem("log", seed, **options)
    rng = np.random.default_rng(seed)
    order, rate, decay = rng.permutation(problem.n_examples), 0.3, 0.4
    expected = problem.layout.masked(rng.normal(size=problem.dimension))
    weights, squares = expected.copy(), np.zeros(problem.dimension)
    total, sums = 0.0, np.zeros(problem.dimension)
    for t, i in enumerate(order, start=8):
        value, gradient = problem.example_plane(int(i), expected)
        sums += squares_of(problem, int(i), expected)
        eta = rate / (1.0 + rate * decay * t)
        expected = (1.0 - eta * decay) * expected - eta * gradient
        total += value
    with compiled_run(problem, StochasticStart(), weights, rng) as descent:
        again = weights.copy()
        assert descent.visit(weights, order, rate, decay, 7, squares) == pytest.approx(total)
        assert descent.visit(again, order, rate, decay, 7) == pytest.approx(total)
    np.testing.assert_allclose(weights, expected, atol=1e-12)
    np.testing.assert_array_equal(again, weights)
    np.testing.assert_allclose(squares, sums, atol=1e-10)


@pytest.mark.parametrize("options", FAMILY)
def test_the_optimum_stays_where_it_is(options: dict[str, Any]) -> None:
    problem = small_problem("log", **options)

    def smooth(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = problem.value_and_gradient(w)
        return value + 0.5 * problem.l2 * w @ w, gradient + problem.l2 * w

    start = np.zeros(problem.dimension)
    optimum = scipy_minimize(
        smooth, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-10}
    ).fun
    solution = run(LBFGS(tol=1e-8, start_passes=3), problem, 500)
    assert solution.status.converged
    assert primal(problem, solution.weights) == pytest.approx(optimum, abs=1e-9)
    for objective, gap in zip(solution.history["objective"], solution.history["gap"], strict=True):
        assert -1e-9 <= objective - optimum <= gap + 1e-9


def test_a_seed_gives_the_same_weights_on_any_number_of_threads() -> None:
    problem = small_problem("log", lengths=(3, 4, 2, 5) * 20)

    def found(n_jobs: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
        start = np.zeros(problem.dimension)
        result = stochastic_start(problem.with_(n_jobs=n_jobs), start, np.random.default_rng(seed), 2)
        assert result is not None
        assert not start.any()  # the weights given are left alone
        return result

    one, again, two, other = found(1), found(1), found(2), found(1, seed=2)
    for a, b, c in zip(one, again, two, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)
    assert not np.array_equal(one[0], other[0])


def test_the_start_is_made_where_it_pays_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(passes: int | None = 2, weight: float = 0.0, **options: Any) -> object:
        problem = small_problem(options.pop("objective", "log"), **options)
        weights = np.full(problem.dimension, weight)
        return stochastic_start(problem, weights, np.random.default_rng(0), passes)

    assert start() is not None
    assert start(passes=0) is None
    assert start(passes=None) is None  # few data
    assert start(weight=0.1) is None  # a start already
    assert start(l2=0.0) is None
    assert start(ambiguous=True) is None  # not convex
    assert start(edges=True) is None
    assert start(compiled=False) is None
    assert start(objective="softmax_margin") is None
    monkeypatch.setattr(module, "MANY_STEPS", 10)
    assert start(passes=None) is not None
    problem = small_problem("log")
    assert (
        run(LBFGS(), problem).history["objective"][0]
        < run(LBFGS(start_passes=0), problem).history["objective"][0]
    )


@pytest.mark.parametrize("factor", [1.0, 1e3, 1e-3, 1e150])
def test_features_of_any_size_find_their_rate_or_start_from_zero(factor: float) -> None:
    problem = small_problem("log", lengths=(3, 4, 2) * 10)
    design = problem.design._replace(values=problem.design.values * factor)
    problem = problem.with_(design=design)
    found = stochastic_start(problem, np.zeros(problem.dimension), np.random.default_rng(0), 4)
    if found is not None:
        assert all(np.isfinite(part).all() for part in found)
        assert primal(problem, found[0]) < primal(problem, np.zeros(problem.dimension))
    assert found is not None or factor not in (1.0, 1e3)  # features of 1e-3 tell nothing in four passes


def test_a_pass_that_runs_away_is_dropped() -> None:
    class Runaway:
        def __init__(self) -> None:
            self.passes = 0

        def visit(
            self, weights: np.ndarray, order: Any, rate: float, decay: float, visits: int, *_: Any
        ) -> float:
            if len(order) < 500:
                return float(len(order))
            self.passes += 1
            return 200.0 * self.passes  # from pass to pass, until it is above that of w = 0

        def __enter__(self) -> Runaway:
            return self

        def __exit__(self, *error: object) -> None: ...

    class Problem:
        l2, convex, n_examples, squared_features = 1.0, True, 500, (10.0, 10)

        def compiled_run(self, *_: Any) -> Runaway:
            return Runaway()

    assert stochastic_start(Problem(), np.zeros(3), np.random.default_rng(0), 4) is None


def test_scaled_pairs_are_those_of_scaled_weights() -> None:
    rng = np.random.default_rng(0)
    dimension = 7
    root = rng.normal(size=(dimension, dimension))
    hessian, scale = root @ root.T + np.eye(dimension), np.exp(rng.normal(size=dimension)).astype(np.float32)
    scaled, plain = InverseHessian(3, dimension), InverseHessian(3, dimension)
    scaled.rescale(scale.astype(np.float64))
    points = rng.normal(size=(6, dimension))
    for old, new in pairwise(points):
        scaled.update(new, old, hessian @ new, hessian @ old)
        plain.update(new / scale, old / scale, scale * (hessian @ new), scale * (hessian @ old))
    vector, here, there = rng.normal(size=dimension), np.empty(dimension), np.empty(dimension)
    scaled.times(vector, here)
    plain.times(scale * vector, there)
    np.testing.assert_allclose(here, scale * there, rtol=1e-6)
    free = np.array([0, 2, 5])
    scaled.times_within(free, vector, here)
    plain.times_within(free, scale * vector, there)
    np.testing.assert_allclose(here, scale * there, rtol=1e-6)


def test_options() -> None:
    assert get_solver("lbfgs").start_passes is None  # type: ignore[attr-defined]
    with pytest.raises(DataError, match="start_passes"):
        LBFGS(start_passes=-1)
