"""What the certificates of DC algorithms must satisfy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis.solvers.dc.algorithm import DCSolution
from trellis.solvers.dc.cccp import CCCP
from trellis.training.driver import minimise


def check_certificates(solution: DCSolution) -> None:
    """primal_t >= dual_t >= primal_{t+1}, in lengths n_iter + 1 and n_iter."""
    primal, dual = np.array(solution.history["primal"]), np.array(solution.history["dual"])
    assert len(primal) == solution.n_iter + 1
    assert len(dual) == solution.n_iter == solution.status.n_iter == len(solution.history["seconds"])
    slack = 1e-9 * max(1.0, np.abs(primal).max())
    assert np.all(primal[:-1] >= dual - slack)
    assert np.all(dual >= primal[1:] - slack)


def certified(problem: Any, start: np.ndarray, tol: float = 1e-4, max_iter: int = 60) -> Any:
    """Run to the end; both certificates fall, one between the other's values."""
    solution = minimise(CCCP(tol=tol), problem, start, max_iter=max_iter, rng=np.random.default_rng(0))
    primal, dual = np.array(solution.history["primal"]), np.array(solution.history["dual"])
    before = objective_at(problem, start)
    room = 1e-8 * (1.0 + abs(before))
    assert (np.diff(np.concatenate([[before], primal])) <= room).all()
    assert (np.diff(dual) <= room).all()
    assert (dual <= np.concatenate([[before], primal[:-1]]) + room).all()
    assert (primal <= dual + room).all()
    assert objective_at(problem, solution.weights) == pytest.approx(primal[-1], abs=room)
    assert primal[-1] <= min(before, primal.min()) + room
    return solution


def objective_at(problem: Any, weights: np.ndarray) -> float:
    return problem.value_and_gradient(weights)[0] + 0.5 * problem.l2 * float(weights @ weights)
