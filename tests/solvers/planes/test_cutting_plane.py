"""Cutting planes against direct QPs, scikit-learn and each other; their bounds at each step."""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from scipy.sparse import csc_matrix, csr_array
from sklearn.svm import LinearSVC

from trellis.core.errors import DataError, UnsupportedError
from trellis.solvers.planes.cutting_plane import CuttingPlane
from trellis.solvers.planes.quadratic import solve_simplex_qp
from trellis.solvers.run import Solution
from trellis.training.driver import minimise


class Hinge:
    """sum_i c_i max_j (loss_ij + phi_ij . w) over listed candidates; number 0 is gold: all zero."""

    convex = True
    l1 = 0.0

    def __init__(
        self, features: np.ndarray, losses: np.ndarray, l2: float, weights: np.ndarray | None = None
    ) -> None:
        self.features, self.losses, self.l2 = (
            features,
            losses,
            l2,
        )  # (n, candidates, dimension), (n, candidates)
        self.n_examples, _, self.dimension = features.shape
        self.c = np.ones(self.n_examples) if weights is None else weights

    def worst(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        scores = self.losses + self.features @ w
        best = scores.argmax(axis=1)
        rows = np.arange(self.n_examples)
        return self.c * scores[rows, best], self.c[:, None] * self.features[rows, best]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        values, rows = self.worst(w)
        return float(values.sum()), rows.sum(axis=0)

    def example_planes(self, w: np.ndarray) -> tuple[np.ndarray, csr_array]:
        values, rows = self.worst(w)
        return values, csr_array(rows)

    def objective(self, w: np.ndarray) -> float:
        return self.value_and_gradient(w)[0] + self.l2 / 2 * float(w @ w)

    def optimum(self) -> float:
        """The primal QP over (w, xi) with every candidate as a constraint, by an interior-point method."""
        n, k, d = self.features.shape
        P = np.diag(np.r_[np.full(d, self.l2), np.zeros(n)])
        q = np.r_[np.zeros(d), self.c]
        rows = np.concatenate([self.features.reshape(n * k, d), -np.repeat(np.eye(n), k, axis=0)], axis=1)
        options = clarabel.DefaultSettings()
        options.verbose = False
        options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-10
        cones = [clarabel.NonnegativeConeT(n * k)]
        solver = clarabel.DefaultSolver(
            csc_matrix(P), q, csc_matrix(rows), -self.losses.ravel(), cones, options
        )
        return float(solver.solve().obj_val)


def random_hinge(seed: int, n: int, k: int, d: int, l2: float, scale: float = 1.0) -> Hinge:
    rng = np.random.default_rng(seed)
    features = scale * rng.normal(size=(n, k, d)) * (rng.random((n, k, d)) < 0.6)
    losses = rng.integers(0, 4, size=(n, k)).astype(float)
    features[:, 0], losses[:, 0] = 0.0, 0.0
    return Hinge(features, losses, l2, rng.random(n) + 0.1)


def solve(
    problem: Hinge, variant: str, tol: float, max_iter: int = 3000, start: np.ndarray | None = None
) -> Solution:
    weights = np.zeros(problem.dimension) if start is None else start
    return minimise(
        CuttingPlane(variant, tol),  # type: ignore[arg-type]
        problem,
        weights,
        max_iter=max_iter,
        rng=np.random.default_rng(0),
    )


@pytest.mark.parametrize("variant", ["one_slack", "n_slack"])
@settings(max_examples=25)
@given(
    st.integers(0, 10**6),
    st.integers(1, 12),
    st.integers(1, 6),
    st.integers(1, 8),
    st.sampled_from([0.05, 1.0, 30.0]),
    st.sampled_from([1e-3, 1.0, 1e3]),
)
def test_bounds_hold_at_each_step_and_meet_at_the_optimum(
    variant: str, seed: int, n: int, k: int, d: int, l2: float, scale: float
) -> None:
    problem = random_hinge(seed, n, k, d, l2 * scale**2, scale)
    solution = solve(problem, variant, 1e-6)
    assert solution.status.converged, solution.status
    optimum = problem.optimum()
    slack = 1e-7 * max(abs(optimum), 1.0)
    assert np.all(np.array(solution.history["dual"]) <= optimum + slack)
    assert np.all(np.array(solution.history["objective"]) >= optimum - slack)
    reached = problem.objective(solution.weights)
    assert reached == pytest.approx(solution.history["objective"][-1], rel=1e-12)
    assert reached <= optimum * (1 + 2e-6) + slack
    gaps = np.array(solution.history["objective"]) - np.array(solution.history["dual"])
    np.testing.assert_allclose(solution.history["gap"], np.maximum(gaps, 0.0), rtol=1e-12, atol=1e-12)
    for key, sign in (("objective", 1), ("dual", -1)):
        assert np.all(sign * np.diff(solution.history[key]) <= 0)


def multiclass(l2: float) -> Hinge:
    """Crammer-Singer: each candidate is a class against the gold class, which comes first."""
    rng = np.random.default_rng(5)
    n, classes, d = 150, 4, 10
    X = rng.normal(size=(n, d))
    y = (X[:, :classes] + 0.8 * rng.normal(size=(n, classes))).argmax(axis=1)
    features = np.zeros((n, classes, classes * d))
    losses = np.ones((n, classes))
    for i in range(n):
        others = [y[i]] + [c for c in range(classes) if c != y[i]]
        losses[i, 0] = 0.0
        for place, c in enumerate(others):
            features[i, place, c * d : (c + 1) * d] += X[i]
            features[i, place, y[i] * d : (y[i] + 1) * d] -= X[i]
    problem = Hinge(features, losses, l2)
    problem.X, problem.y = X, y  # type: ignore[attr-defined]
    return problem


@pytest.mark.parametrize("l2", [0.5, 20.0])
def test_multiclass_equals_crammer_singer(l2: float) -> None:
    problem = multiclass(l2)
    svm = LinearSVC(multi_class="crammer_singer", C=1 / l2, fit_intercept=False, tol=1e-8, max_iter=100_000)
    theirs = problem.objective(svm.fit(problem.X, problem.y).coef_.ravel())  # type: ignore[attr-defined]
    one = solve(problem, "one_slack", 1e-7)
    each = solve(problem, "n_slack", 1e-7)
    assert one.status.converged
    assert each.status.converged
    assert problem.objective(one.weights) == pytest.approx(theirs, rel=1e-6)
    assert problem.objective(each.weights) == pytest.approx(theirs, rel=1e-6)
    np.testing.assert_allclose(one.weights, each.weights, atol=2e-3)
    assert each.n_iter < one.n_iter


def test_n_slack_drops_planes_and_still_converges() -> None:
    """With many candidates, planes come and go: fewer are kept than were ever found."""
    problem = random_hinge(3, 60, 40, 25, 0.3)
    solution = solve(problem, "n_slack", 1e-6)
    assert solution.status.converged
    planes = solution.history["planes"]
    assert min(planes[len(planes) // 2 :]) < max(planes)
    assert problem.objective(solution.weights) == pytest.approx(problem.optimum(), rel=1e-5)


def test_one_slack_reuses_the_places_of_idle_planes() -> None:
    problem = random_hinge(4, 80, 30, 40, 0.1)
    solution = solve(problem, "one_slack", 1e-6)
    assert solution.status.converged
    assert solution.history["planes"][-1] < solution.n_iter
    assert solution.history["evaluations"][-1] == solution.n_iter


@pytest.mark.parametrize("variant", ["one_slack", "n_slack"])
def test_start_elsewhere_reaches_the_same_optimum(variant: str) -> None:
    problem = random_hinge(8, 15, 5, 6, 0.4)
    start = np.random.default_rng(1).normal(size=6) * 5
    warm = solve(problem, variant, 1e-6, start=start)
    assert problem.objective(warm.weights) == pytest.approx(problem.optimum(), rel=1e-5)


@pytest.mark.parametrize("variant", ["one_slack", "n_slack"])
def test_nothing_to_learn_is_solved_at_once(variant: str) -> None:
    problem = Hinge(np.zeros((3, 2, 4)), np.zeros((3, 2)), 1.0)
    solution = solve(problem, variant, 1e-6)
    assert solution.status.converged
    assert solution.n_iter == 1
    assert not solution.weights.any()


def test_losses_without_features_are_a_constant() -> None:
    problem = Hinge(np.zeros((3, 2, 4)), np.array([[0.0, 1.0]] * 3), 1.0)
    for variant in ("one_slack", "n_slack"):
        solution = solve(problem, variant, 1e-6)
        assert solution.status.converged
        assert solution.history["objective"][-1] == pytest.approx(3.0)
        assert solution.history["dual"][-1] == pytest.approx(3.0)


@pytest.mark.parametrize("variant", ["one_slack", "n_slack"])
def test_an_impossible_tolerance_ends_with_an_honest_status(variant: str) -> None:
    solution = solve(random_hinge(2, 20, 5, 8, 0.5), variant, 0.0, max_iter=2000)
    if not solution.status.converged:  # a gap of exactly zero is possible
        assert "precision" in solution.status.reason
    assert solution.history["relative_gap"][-1] < 1e-8
    assert solution.n_iter < 2000


def test_what_cutting_planes_cannot_do() -> None:
    problem = random_hinge(0, 2, 2, 2, 0.0)
    with pytest.raises(UnsupportedError, match="l2 > 0"):
        solve(problem, "one_slack", 1e-3)
    problem.l2, problem.l1 = 1.0, 1.0
    with pytest.raises(UnsupportedError, match="L1"):
        solve(problem, "one_slack", 1e-3)
    problem.l1, problem.convex = 0.0, False
    with pytest.raises(UnsupportedError, match="convex"):
        solve(problem, "n_slack", 1e-3)
    with pytest.raises(DataError, match="two_slack"):
        CuttingPlane("two_slack")  # type: ignore[arg-type]
    with pytest.raises(DataError, match="tol"):
        CuttingPlane(tol=-1.0)


@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 10),
    st.floats(-4, 4),
    st.sampled_from([0.01, 1.0, 100.0]),
)
def test_simplex_qp_satisfies_its_optimality_conditions(
    seed: int, m: int, rank: int, spread: float, bound: float
) -> None:
    """Singular Gram matrices, repeated and empty planes, rows of very different length."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(m, rank)) * 10 ** (spread * rng.random((m, 1)))
    A[rng.random(m) < 0.2] = A[0]
    A[rng.random(m) < 0.1] = 0.0
    G, b = A @ A.T, rng.normal(size=m)
    alpha = solve_simplex_qp(G, b, bound)
    assert alpha.min() >= 0
    assert alpha.sum() <= bound * (1 + 1e-12)
    residual = b - G @ alpha
    gap = bound * max(0.0, residual.max()) - alpha @ residual
    value = b @ alpha - 0.5 * alpha @ G @ alpha
    assert gap <= max(1e-6 * value, 1e-10 * bound * b.max(initial=0.0))


def test_simplex_qp_equals_nonnegative_least_squares_where_the_bound_is_loose() -> None:
    rng = np.random.default_rng(0)
    A, t = rng.normal(size=(30, 12)), rng.normal(size=30)
    expected, _ = nnls(A, t)
    np.testing.assert_allclose(solve_simplex_qp(A.T @ A, A.T @ t, 1e3), expected, atol=1e-7)
    assert not solve_simplex_qp(np.eye(3), -np.ones(3)).any()


@pytest.mark.parametrize("seed", range(6))
def test_simplex_qp_of_planes_that_nearly_cancel(seed: int) -> None:
    """Long planes whose mean is short: the bound, and not G, says how large alpha is."""
    rng = np.random.default_rng(seed)
    A = 3e4 * rng.normal(size=(26, 200))
    A += 7.0 * rng.normal(size=200) - A.mean(axis=0)
    G, b = A @ A.T, 2e4 - 2e3 * rng.random(26)
    alpha = solve_simplex_qp(G, b)
    residual = b - G @ alpha
    assert alpha.min() >= 0
    assert alpha.sum() == pytest.approx(1.0)
    assert max(0.0, residual.max()) - alpha @ residual <= 1e-6 * (b @ alpha)
