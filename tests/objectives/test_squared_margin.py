"""The L2 structural SVM: the optimum that another library finds, certificates, and who refuses it and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from small_chains import primal, run, small_problem
from trellis import Graph, GraphLabeler, SequenceLabeler
from trellis.core.errors import UnsupportedError
from trellis.solvers import (
    LBFGS,
    SAG,
    SGD,
    AdaGrad,
    Adam,
    CuttingPlane,
    FrankWolfe,
    MiniBatch,
    PassiveAggressive,
    Subgradient,
)


def test_two_classes_are_the_squared_hinge_of_a_support_vector_machine() -> None:
    """With w = (-v/2, v/2): (1/2) sum z^2 + (l2/2) ||w||^2 is l2/2 times ||v||^2 / 2 + (1/l2) sum z^2."""
    l2 = 0.4
    problem = small_problem(
        "squared_margin", 3, lengths=(1,) * 40, n_labels=2, l2=l2, boundaries=False, n_features=5
    )
    x = np.zeros((40, 5))
    design = problem.design
    for i in range(40):
        for p in range(design.indptr[i], design.indptr[i + 1]):
            x[i, design.indices[p]] = design.values[p]
    theirs = LinearSVC(C=1 / l2, loss="squared_hinge", dual=False, fit_intercept=False, tol=1e-10).fit(
        x, problem.task.gold
    )
    v = theirs.coef_[0] / 2
    rest = np.zeros(problem.dimension - 10)
    optimum = problem.layout.from_dense(np.stack([-v, v], axis=1), rest)
    found = run(CuttingPlane(tol=1e-6), problem, max_iter=2000)
    assert found.status.converged
    assert primal(problem, found.weights) == pytest.approx(primal(problem, optimum), rel=1e-5)
    np.testing.assert_allclose(found.weights, optimum, atol=2e-3)


@pytest.mark.parametrize("variant", ["one_slack", "n_slack"])
def test_cutting_planes_certify_it(variant: Any) -> None:
    """Tangents of any convex function lie below it, so the dual bound holds at every step."""
    problem = small_problem("squared_margin", 1)
    best = primal(problem, run(CuttingPlane(tol=1e-8), problem, max_iter=3000).weights)
    found = run(CuttingPlane(variant, tol=1e-4), problem, max_iter=1000)
    history = found.history
    assert found.status.converged
    assert all(dual <= best * (1 + 1e-9) for dual in history["dual"])
    assert all(value >= best * (1 - 1e-9) for value in history["objective"])
    assert history["dual"][-1] == pytest.approx(history["objective"][-1], rel=1e-3)


@pytest.mark.parametrize("solver", [SGD(), AdaGrad(), Adam(), MiniBatch()], ids=lambda s: s.name)
def test_online_solvers_come_near_the_optimum(solver: Any) -> None:
    problem = small_problem("squared_margin", 1)
    best = primal(problem, run(CuttingPlane(tol=1e-6), problem, max_iter=2000).weights)
    assert primal(problem, run(solver, problem).weights) < 1.1 * best


@pytest.mark.parametrize(
    ("solver", "reason"),
    [
        (FrankWolfe(), "not piecewise linear"),
        (PassiveAggressive(), "not piecewise linear"),
        (LBFGS(), "kinks"),
        (SAG(), "kinks|smooth"),
        (Subgradient(), "bound"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_solvers_that_do_not_suit_it_say_why(solver: Any, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        SequenceLabeler("squared_margin", solver=solver).fit([["a", "b"]], [["A", "B"]])
    if solver.name in ("frank_wolfe", "passive_aggressive"):
        with pytest.raises(UnsupportedError, match=reason):
            GraphLabeler("squared_margin", solver=solver).fit(
                [Graph(np.eye(2), [[0, 1]]), Graph(-np.eye(2), [[0, 1]])], [[0, 1], [1, 0]]
            )
