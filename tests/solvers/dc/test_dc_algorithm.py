"""The DC solver: its certificates against grids and known optima, and what it says when the pair is wrong."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from certificates import check_certificates
from codec_copy import through_codec
from trellis.core.errors import DataError, NumericalError
from trellis.solvers import ArrayDC, DCSolution
from trellis.solvers.dc.algorithm import DCRun
from trellis.training import minimise_dc


def quadratic(A: np.ndarray, b: np.ndarray) -> tuple:
    """g(u) = u.A u / 2 - b.u, and the minimiser of g(u) - <u, v>."""
    return lambda u: 0.5 * u @ A @ u - b @ u, lambda v: np.linalg.solve(A, v + b)


def pair(seed: int, d: int, kind: str) -> ArrayDC:
    """A random quadratic minus a random log-sum-exp or maximum of affine functions."""
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(d, d))
    g, step = quadratic(M @ M.T + 0.3 * np.eye(d), rng.normal(size=d))
    P, c = 2 * rng.normal(size=(5, d)), rng.normal(size=5)

    def h(u: np.ndarray) -> tuple[float, np.ndarray]:
        z = P @ u + c
        return (
            (logsumexp(z), P.T @ softmax(z))
            if kind == "logsumexp"
            else (z.max(), P[z.argmax()].astype(float))
        )

    return ArrayDC(g, h, step)


@given(
    seed=st.integers(0, 10_000),
    d=st.integers(1, 6),
    kind=st.sampled_from(["logsumexp", "max"]),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_neither_certificate_rises(seed: int, d: int, kind: str, scale: float) -> None:
    unit = pair(seed, d, kind)

    def scaled_h(u: np.ndarray) -> tuple[float, np.ndarray]:
        value, v = unit.h(u)
        return scale * value, scale * v

    problem = ArrayDC(lambda u: scale * unit.g(u), scaled_h, lambda v: unit.step(v / scale))
    start = np.random.default_rng(seed + 1).normal(size=d)
    solution = minimise_dc(problem, start, max_iter=2000, tol=1e-12 * scale)
    check_certificates(solution)
    assert solution.status.converged
    # a critical point: the step from it leads back to the same objective
    again = problem.step(problem.h(solution.point)[1])
    assert problem.g(again) - problem.h(again)[0] == pytest.approx(
        solution.objective, rel=1e-6, abs=1e-9 * scale
    )


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), kind=st.sampled_from(["logsumexp", "max"]))
def test_the_best_of_several_starts_is_the_best_of_a_grid(seed: int, kind: str) -> None:
    problem = pair(seed, 1, kind)
    starts = np.linspace(-30, 30, 13)
    solutions = [minimise_dc(problem, np.array([s]), max_iter=5000, tol=1e-13) for s in starts]
    grid = np.linspace(-40, 40, 801)
    values = [problem.g(np.array([u])) - problem.h(np.array([u]))[0] for u in grid]
    best = min(solution.objective for solution in solutions)
    assert best <= min(values) + 1e-6
    assert all(s.objective >= best for s in solutions)


def test_a_known_optimum() -> None:
    """u^2 / 2 - |u| has its minima -1/2 at -1 and 1, and one step finds the nearer one."""
    problem = ArrayDC(
        lambda u: 0.5 * float(u @ u), lambda u: (float(np.abs(u).sum()), np.sign(u)), lambda v: v.copy()
    )
    solution = minimise_dc(problem, np.array([0.2]), max_iter=10, tol=0.0)
    assert solution.point == pytest.approx(1.0)
    assert solution.history["primal"] == pytest.approx([-0.18, -0.5, -0.5])
    assert solution.history["dual"] == pytest.approx([-0.5, -0.5])
    assert str(solution.status) == "converged after 2 iterations: the objective fell by 0 (tolerance 0)"


def best_seen(problem: ArrayDC, solution: DCSolution) -> None:
    """The point is that of the smallest primal in the history, and no step of the history raised it."""
    primal = solution.history["primal"]
    assert problem.g(solution.point) - problem.h(solution.point)[0] == pytest.approx(primal[-1], rel=1e-12)
    assert primal[-1] == min(primal)
    assert len(primal) == solution.n_iter + 1 == len(solution.history["dual"]) + 1


@pytest.mark.parametrize("at", [1, 3])
def test_a_lying_subgradient_is_named_with_its_iteration(at: int) -> None:
    """Where it leads uphill its step is dropped, and the point before it is kept."""
    problem = pair(0, 3, "logsumexp")
    calls = 0

    def lying(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls
        value, v = problem.h(u)
        calls += 1
        return value, (-4 * v if calls == at else v)

    solution = minimise_dc(ArrayDC(problem.g, lying, problem.step), np.ones(3), max_iter=50, tol=0.0)
    assert not solution.status.converged
    assert re.search(rf"of iteration {at} failed: .* h does not return a subgradient", str(solution.status))
    dropped = "the last complete iteration is kept" in str(solution.status)
    assert dropped == (at == 3) == (solution.n_iter == at - 1)
    best_seen(problem, solution)


def test_a_wrong_conjugate_is_named_with_its_iteration() -> None:
    problem = pair(0, 3, "logsumexp")
    worse = ArrayDC(problem.g, problem.h, lambda v: problem.step(v) + 3.0)
    solution = minimise_dc(worse, np.ones(3), max_iter=50, tol=0.0)
    assert re.search(r"of iteration \d+ failed: .* above .* g_conjugate", str(solution.status))
    assert not solution.status.converged
    best_seen(problem, solution)


class Wrong:
    """A problem whose g* has the value ``wrong`` from iteration ``at`` on; its steps are right."""

    def __init__(self, problem: ArrayDC, wrong: float, at: int) -> None:
        self.g, self.h, self.inner = problem.g, problem.h, problem.inner
        self.problem, self.wrong, self.left = problem, wrong, at

    def g_conjugate(self, v: np.ndarray) -> tuple[float, np.ndarray]:
        value, u = self.problem.g_conjugate(v)
        self.left -= 1
        return (value if self.left > 0 else self.wrong), u


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, np.nan, -1e9, 1e9])
@pytest.mark.parametrize("at", [1, 2])
def test_a_certificate_that_fails_does_not_cost_the_run(wrong: float, at: int) -> None:
    """The primal falls all the same: the run goes on to the same point, and its status says what failed."""
    problem = pair(1, 4, "logsumexp")
    right = minimise_dc(problem, np.ones(4), max_iter=500, tol=1e-9)
    solution = minimise_dc(Wrong(problem, wrong, at), np.ones(4), max_iter=500, tol=1e-9)
    np.testing.assert_allclose(solution.point, right.point, rtol=1e-6)
    assert right.status.converged
    assert not solution.status.converged
    assert f"the certificate of iteration {at} " in str(solution.status)
    best_seen(problem, solution)
    stopped = minimise_dc(Wrong(problem, wrong, 1), np.ones(4), max_iter=1, tol=0.0)
    assert "max_iter=1 was reached" in str(stopped.status)
    assert "the certificate of iteration 1 " in str(stopped.status)


@pytest.mark.parametrize("part", ["g", "h", "step"])
def test_a_step_that_breaks_down_keeps_the_point_before_it(part: str) -> None:
    problem = pair(1, 4, "logsumexp")
    calls = 0

    def broken(argument: np.ndarray) -> Any:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise NumericalError("the covariance has become singular")
        return getattr(problem, part)(argument)

    parts = {name: broken if name == part else getattr(problem, name) for name in ("g", "h", "step")}
    solution = minimise_dc(ArrayDC(**parts), np.ones(4), max_iter=50, tol=0.0)
    assert solution.n_iter >= 1
    assert not solution.status.converged
    assert "the covariance has become singular; the last complete iteration is kept" in str(solution.status)
    best_seen(problem, solution)
    with pytest.raises(NumericalError, match="singular"):  # now in the first iteration: nothing is reached
        minimise_dc(ArrayDC(**parts), np.ones(4), max_iter=50, tol=0.0)


def test_a_rough_minimiser_is_allowed_if_it_is_no_worse_than_the_point_before() -> None:
    problem = pair(2, 4, "logsumexp")
    exact = minimise_dc(problem, np.ones(4), max_iter=5000, tol=1e-13)
    last = np.ones(4)

    def half_way(v: np.ndarray) -> np.ndarray:
        nonlocal last
        last = 0.5 * (last + problem.step(v))
        return last

    rough = minimise_dc(ArrayDC(problem.g, problem.h, half_way), last, max_iter=5000, tol=1e-13)
    check_certificates(rough)
    assert rough.n_iter > exact.n_iter
    assert rough.objective == pytest.approx(exact.objective, abs=1e-8)


def test_running_out_of_iterations_is_not_convergence() -> None:
    problem = pair(1, 4, "logsumexp")
    solution = minimise_dc(problem, np.ones(4), max_iter=2, tol=0.0)
    assert not solution.status.converged
    assert "max_iter=2 was reached with the objective still falling by" in str(solution.status)
    none = minimise_dc(problem, np.ones(4), max_iter=0, tol=0.0)
    assert not none.status.converged
    assert len(none.history["primal"]) == 1
    np.testing.assert_array_equal(none.point, np.ones(4))


def test_a_tolerance_stops_at_the_first_fall_below_it() -> None:
    problem = pair(1, 4, "logsumexp")
    falls = -np.diff(minimise_dc(problem, np.ones(4), max_iter=500, tol=1e-10).history["primal"])
    solution = minimise_dc(problem, np.ones(4), max_iter=500, tol=1e-4)
    assert solution.status.converged
    assert solution.n_iter == 1 + int(np.argmax(falls <= 1e-4))


@pytest.mark.parametrize("at", [1, 4])
def test_ctrl_c_keeps_the_point_reached(at: int) -> None:
    problem = pair(1, 4, "logsumexp")
    calls = 0

    def h(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return problem.h(u)

    solution = minimise_dc(
        ArrayDC(problem.g, h, problem.step), np.ones(4), max_iter=500, tol=0.0, keep_interrupted=True
    )
    assert solution.interrupted
    assert not solution.status.converged
    assert "interrupted" in str(solution.status)
    assert solution.n_iter == max(at - 2, 0)
    if at == 1:
        assert solution.objective == np.inf
    else:
        check_certificates(solution)
        reference = minimise_dc(problem, np.ones(4), max_iter=at - 2, tol=0.0)
        np.testing.assert_array_equal(solution.point, reference.point)


def test_the_callback_sees_each_iteration() -> None:
    seen: list[tuple[int, float, float]] = []
    solution = minimise_dc(
        pair(1, 4, "logsumexp"),
        np.ones(4),
        max_iter=3,
        tol=0.0,
        on_iteration=lambda i, measured, point: seen.append((i, measured["primal"], measured["dual"])),
    )
    assert [i for i, _, _ in seen] == [1, 2, 3]
    assert [p for _, p, _ in seen] == solution.history["primal"][1:]
    assert [d for _, _, d in seen] == solution.history["dual"]


def test_what_cannot_be_run_is_said() -> None:
    problem = pair(1, 2, "logsumexp")
    for tol in (-1.0, np.nan):
        with pytest.raises(DataError, match="tol"):
            minimise_dc(problem, np.ones(2), max_iter=5, tol=tol)
    nowhere = ArrayDC(lambda u: np.inf, problem.h, problem.step)
    with pytest.raises(NumericalError, match="at the start"):
        minimise_dc(nowhere, np.ones(2), max_iter=5, tol=0.0)


@pytest.mark.parametrize("kind", ["logsumexp", "max"])
def test_a_restored_run_is_where_the_stored_one_was(kind: str) -> None:
    """In all that the next step depends on, also what certificates are judged by."""
    problem = pair(3, 4, kind)
    run = DCRun(problem, np.ones(4), 0.0)
    run.begin()
    for _ in range(3):
        run.step()
    copy = DCRun(problem, np.zeros(4), 0.0)
    copy.restore(through_codec(run.snapshot()))
    for name, value in vars(run).items():
        if not callable(value) and name != "_problem":
            np.testing.assert_array_equal(vars(copy)[name], value, err_msg=name)
    assert run._scale > 0
    assert run.step() == copy.step()
