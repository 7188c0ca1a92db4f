"""L-BFGS and OWL-QN against closed forms, scipy and scikit-learn; their certificate against the optimum."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from l1_regression import l1_regression
from trellis.core.errors import DataError, UnsupportedError
from trellis.solvers.quasi_newton.inverse_hessian import FEW, InverseHessian
from trellis.solvers.quasi_newton.lbfgs import LBFGS
from trellis.solvers.quasi_newton.line_search import Trial, strong_wolfe
from trellis.solvers.quasi_newton.owlqn import OWLQN
from trellis.solvers.run import Solution
from trellis.training.driver import minimise


class Smooth:
    """A problem from a function of the weights; the gradient buffer is reused, as a thrifty problem may."""

    convex = True
    n_examples = 1

    def __init__(
        self, function: Callable[[np.ndarray], tuple[float, np.ndarray]], dimension: int, l1: float, l2: float
    ) -> None:
        self.function, self.dimension, self.l1, self.l2 = function, dimension, l1, l2
        self.calls = 0
        self._buffer = np.empty(dimension)

    def value_and_gradient(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        self.calls += 1
        value, gradient = self.function(weights)
        self._buffer[:] = gradient
        return value, self._buffer

    def objective(self, weights: np.ndarray) -> float:
        value, _ = self.function(weights)
        return value + self.l2 / 2 * weights @ weights + self.l1 * np.abs(weights).sum()

    def smooth(self, weights: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = self.function(weights)
        return value + self.l2 / 2 * weights @ weights, gradient + self.l2 * weights


def quadratic(seed: int, n: int, condition: float) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.normal(size=(n, n)))
    return basis * np.geomspace(1.0, condition, n) @ basis.T, rng.normal(size=n)


def logistic(X: np.ndarray, y: np.ndarray, n_classes: int, l1: float, l2: float) -> Smooth:
    rows = np.arange(len(X))

    def function(weights: np.ndarray) -> tuple[float, np.ndarray]:
        scores = X @ weights.reshape(n_classes, -1).T
        shift = scores.max(axis=1, keepdims=True)
        log_z = np.log(np.exp(scores - shift).sum(axis=1, keepdims=True)) + shift
        residual = np.exp(scores - log_z)
        residual[rows, y] -= 1
        return float(log_z.sum() - scores[rows, y].sum()), (residual.T @ X).ravel()

    return Smooth(function, n_classes * X.shape[1], l1, l2)


def digits(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16.0, y[:n]


def solve(solver: LBFGS | OWLQN, problem: Smooth, max_iter: int = 3000) -> Solution:
    return minimise(
        solver, problem, np.zeros(problem.dimension), max_iter=max_iter, rng=np.random.default_rng(0)
    )


@given(
    st.integers(0, 10**6),
    st.integers(1, 30),
    st.floats(0, 4),
    st.sampled_from([0.0, 0.1, 3.0]),
    st.integers(3, 12),
)
def test_quadratic_with_known_optimum(
    seed: int, n: int, log_condition: float, l2: float, memory: int
) -> None:
    A, b = quadratic(seed, n, 10**log_condition)
    problem = Smooth(lambda w: (0.5 * w @ A @ w - b @ w, A @ w - b), n, 0.0, l2)
    solution = solve(LBFGS(memory=memory, tol=1e-8), problem, max_iter=10_000)
    assert solution.status.converged, solution.status
    np.testing.assert_allclose(solution.weights, np.linalg.solve(A + l2 * np.eye(n), b), atol=1e-6)
    assert problem.calls == solution.history["evaluations"][-1]


def rounded(x: np.ndarray) -> np.ndarray:
    """As the pairs are stored."""
    return x.astype(np.float32).astype(np.float64)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 5))
def test_inverse_hessian_is_the_two_loop_recursion(seed: int, n: int, memory: int) -> None:
    rng = np.random.default_rng(seed)
    A = quadratic(seed, n, 10.0)[0]
    hessian = InverseHessian(memory, n)
    points = rng.normal(size=(memory + 3, n))
    pairs = []
    for new, old in zip(points[1:], points[:-1], strict=True):
        # negative curvature leaves no trace
        assert hessian.update(new, old, -A @ new, -A @ old) is None
        products = hessian.update(new, old, A @ new, A @ old)
        assert products is not None
        pairs.append((rounded(new - old), rounded(A @ new - A @ old)))
    v, out = rng.normal(size=n), np.empty(n)
    q, firsts = v.copy(), []
    for s, y in reversed(pairs[-memory:]):
        firsts.append(s @ q / (s @ y))
        q -= firsts[-1] * y
    q *= pairs[-1][0] @ pairs[-1][1] / (pairs[-1][1] @ pairs[-1][1])
    for (s, y), a in zip(pairs[-memory:], reversed(firsts), strict=True):
        q += (a - y @ q / (s @ y)) * s
    hessian.times(v, out)
    np.testing.assert_allclose(out, q, rtol=1e-6, atol=1e-9)
    hessian.times_within(np.arange(n), v, out)
    np.testing.assert_allclose(out, q, rtol=1e-6, atol=1e-9)
    expected, gradient = np.empty(n), A @ points[-1]
    hessian.times(gradient, expected)
    hessian.times(gradient, out, products)
    np.testing.assert_allclose(out, expected, rtol=1e-9, atol=1e-9)


def test_inverse_hessian_is_the_same_on_two_threads() -> None:
    rng = np.random.default_rng(0)
    n = 2 * FEW + 7
    one, two = InverseHessian(3, n, 1), InverseHessian(3, n, 2)
    curvature, points = rng.random(n) + 0.1, rng.normal(size=(6, n))
    for new, old in zip(points[1:], points[:-1], strict=True):
        for hessian in one, two:
            hessian.update(new, old, curvature * new, curvature * old)
    a, b = np.empty(n), np.empty(n)
    one.times(points[0], a)
    two.times(points[0], b)
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(1, 5))
def test_inverse_hessian_within_free_coordinates_is_that_of_the_smaller_problem(
    seed: int, n: int, memory: int
) -> None:
    rng = np.random.default_rng(seed)
    diagonal = rng.random(n) + 0.1  # positive curvature within any set of coordinates
    free = np.union1d(np.flatnonzero(rng.random(n) < 0.5), [0])
    whole, part = InverseHessian(memory, n), InverseHessian(memory, len(free))
    points = rng.normal(size=(memory + 2, n))
    for new, old in zip(points[1:], points[:-1], strict=True):
        whole.update(new, old, diagonal * new, diagonal * old)
        part.update(new[free], old[free], (diagonal * new)[free], (diagonal * old)[free])
    v, out, expected = rng.normal(size=n), np.empty(n), np.empty(len(free))
    whole.times_within(free, v, out)
    part.times(v[free], expected)
    np.testing.assert_allclose(out[free], expected, rtol=1e-7, atol=1e-10)
    assert not np.delete(out, free).any()


def test_agrees_with_scipy_on_an_ill_conditioned_convex_function() -> None:
    A, b = quadratic(3, 60, 100.0)

    def function(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = A @ w - b
        return float(np.logaddexp(z, -z).sum()), A @ np.tanh(z)

    problem = Smooth(function, 60, 0.0, 1e-3)
    ours = solve(LBFGS(tol=1e-9), problem)
    theirs = scipy_minimize(
        problem.smooth,
        np.zeros(60),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 9999, "maxfun": 9999, "ftol": 1e-15, "gtol": 1e-8},
    )
    assert problem.objective(ours.weights) <= theirs.fun * (1 + 1e-9)


def test_nonconvex_function_is_brought_to_a_stationary_point() -> None:
    def rosenbrock(w: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = 1 - w[0], w[1] - w[0] ** 2
        return a * a + 100 * b * b, np.array([-2 * a - 400 * b * w[0], 200 * b])

    problem = Smooth(rosenbrock, 2, 0.0, 0.5)
    problem.l2, problem.convex = 0.0, False
    solution = minimise(LBFGS(tol=1e-10), problem, [-1.2, 1.0], max_iter=200, rng=np.random.default_rng(0))
    np.testing.assert_allclose(solution.weights, 1.0, atol=1e-8)
    assert solution.status.converged
    assert "gap" not in solution.history


@pytest.mark.parametrize("l2", [10.0, 0.1])
def test_logistic_regression_equals_sklearn(l2: float) -> None:
    X, y = digits()
    problem = logistic(X, y, 10, 0.0, l2)
    ours = solve(LBFGS(tol=1e-8), problem)
    theirs = LogisticRegression(C=1 / l2, fit_intercept=False, tol=1e-9, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(ours.weights.reshape(10, -1), theirs.coef_, atol=1e-4)
    assert ours.status.converged
    assert problem.calls < 1.3 * ours.n_iter  # as a rule one evaluation per iteration
    # The certificate: at every iteration the gap bounds the distance to the optimum.
    optimum = ours.history["objective"][-1]
    excess = np.array(ours.history["objective"]) - optimum
    assert np.all(np.array(ours.history["gap"]) >= excess - 1e-9 * optimum)


@pytest.mark.parametrize("l1", [3.0, 0.3])
def test_l1_logistic_regression_equals_sklearn(l1: float) -> None:
    X, y = digits()
    y = (y > 4).astype(int)
    # Two classes with opposite weights: liblinear's binary model with w = w_1 - w_0 and the same L1 norm.
    signed = np.where(y == 1, 1.0, -1.0)[:, None] * X

    def function(w: np.ndarray) -> tuple[float, np.ndarray]:
        margin = signed @ w
        return float(np.logaddexp(0, -margin).sum()), -signed.T @ (1 / (1 + np.exp(margin)))

    problem = Smooth(function, X.shape[1], l1, 0.0)
    ours = solve(OWLQN(tol=1e-8), problem)
    theirs = l1_regression(C=1 / l1, solver="liblinear", fit_intercept=False, tol=1e-8, max_iter=10_000)
    theirs.fit(X, y)
    assert ours.status.converged, ours.status
    assert problem.objective(ours.weights) <= problem.objective(theirs.coef_.ravel()) * (1 + 1e-10)
    np.testing.assert_allclose(ours.weights, theirs.coef_.ravel(), atol=1e-3)
    np.testing.assert_array_equal(ours.weights == 0, theirs.coef_.ravel() == 0)
    assert 0 < np.count_nonzero(ours.weights) < X.shape[1]


@given(
    st.integers(0, 10**6), st.integers(1, 15), st.sampled_from([0.0, 0.2, 2.0]), st.sampled_from([0.0, 0.5])
)
def test_owlqn_satisfies_the_optimality_conditions(seed: int, n: int, l1: float, l2: float) -> None:
    A, b = quadratic(seed, n, 100.0)
    problem = Smooth(lambda w: (0.5 * w @ A @ w - b @ w, A @ w - b), n, l1, l2)
    solution = solve(OWLQN(tol=1e-9), problem)
    assert solution.status.converged, solution.status
    w = solution.weights
    gradient = problem.smooth(w)[1]
    np.testing.assert_allclose(gradient[w != 0], -l1 * np.sign(w[w != 0]), atol=1e-7)
    assert np.all(np.abs(gradient[w == 0]) <= l1 + 1e-7)
    if l2 > 0:
        excess = np.array(solution.history["objective"]) - problem.objective(w)
        assert np.all(np.array(solution.history["gap"]) >= excess - 1e-9)


def test_soft_threshold_is_exact() -> None:
    target = np.array([3.0, 0.5, -2.0, -0.1, 0.0])
    problem = Smooth(lambda w: (0.5 * (w - target) @ (w - target), w - target), 5, 1.0, 0.0)
    solution = solve(OWLQN(tol=1e-12), problem)
    np.testing.assert_allclose(solution.weights, [2.0, 0.0, -1.0, 0.0, 0.0], atol=1e-12)
    assert np.count_nonzero(solution.weights) == 2


@pytest.mark.parametrize("solver", [LBFGS(tol=0.0), OWLQN(tol=0.0)])
def test_the_rounding_floor_is_reported_and_not_called_convergence(solver: LBFGS | OWLQN) -> None:
    X, y = digits(150)
    solution = solve(solver, logistic(X, y, 10, 0.0, 0.5), max_iter=2000)
    assert not solution.status.converged
    assert "precision" in solution.status.reason
    assert solution.history["gap"][-1] < 1e-12
    assert solution.n_iter < 2000


def test_starting_at_the_optimum_costs_one_evaluation() -> None:
    problem = Smooth(lambda w: (0.5 * w @ w, w.copy()), 4, 0.0, 1.0)
    solution = solve(LBFGS(), problem)
    assert problem.calls == 1
    assert str(solution.status) == "converged after 1 iteration: gradient norm 0 (tolerance 1e-05)"


def test_delta_stops_like_crfsuite() -> None:
    X, y = digits()
    solution = solve(LBFGS(tol=0.0, delta=1e-3, period=5), logistic(X, y, 10, 0.0, 1.0))
    values = solution.history["objective"]
    assert solution.status.converged
    assert values[-6] - values[-1] < 1e-3 * values[-1]
    assert values[-7] - values[-2] >= 1e-3 * values[-2]


def test_max_iter_is_not_convergence() -> None:
    X, y = digits(100)
    solution = solve(LBFGS(), logistic(X, y, 10, 0.0, 1.0), max_iter=3)
    assert not solution.status.converged
    assert "max_iter=3" in solution.status.reason


def test_overflow_on_the_way_only_shortens_the_step() -> None:
    def function(w: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(over="ignore"):
            return float(np.exp(w[0] ** 2) - w[0]), np.array([2 * w[0] * np.exp(w[0] ** 2) - 1])

    problem = Smooth(function, 1, 0.0, 0.0)
    solution = minimise(LBFGS(tol=1e-9), problem, [15.0], max_iter=500, rng=np.random.default_rng(0))
    assert solution.status.converged
    assert abs(function(solution.weights)[1][0]) < 1e-8


def test_bad_options_and_problems() -> None:
    with pytest.raises(UnsupportedError, match="owlqn"):
        solve(LBFGS(), Smooth(lambda w: (0.0, w), 2, 1.0, 0.0))
    with pytest.raises(DataError, match="memory"):
        LBFGS(memory=0)
    with pytest.raises(DataError, match="tol"):
        OWLQN(tol=-1.0)
    with pytest.raises(DataError, match="starting weights"):
        solve(LBFGS(), Smooth(lambda w: (np.nan, w), 2, 0.0, 0.0))


@given(st.floats(0.01, 100), st.floats(-3, 3), st.floats(1e-6, 1e6))
def test_line_search_meets_strong_wolfe(curve: float, shift: float, first_step: float) -> None:
    """A wavy, non-convex slope: the accepted step satisfies both conditions."""

    def evaluate(t: float) -> Trial:
        return Trial(
            t,
            curve * t * t - t * (1 + curve) + 0.3 * np.sin(3 * t + shift),
            2 * curve * t - (1 + curve) + 0.9 * np.cos(3 * t + shift),
        )

    start = evaluate(0.0)
    if start.slope >= -1e-3:
        return
    found = strong_wolfe(evaluate, start, first_step, max_evaluations=60)
    assert found is not None
    assert abs(found.slope) <= 0.9 * abs(start.slope)
    assert found.value <= start.value + 1e-4 * found.step * start.slope + 1e-12 * abs(start.value)
