"""Every solver on every structure, through the capabilities that all problems share: the optimum that another
solver certifies is reached, or the refusal gives the true reason."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import small_chains
from small_problems import LAYOUT, STRUCTURES, make
from trellis.core.errors import UnsupportedError
from trellis.objectives import Direct, Objective
from trellis.solvers import (
    LBFGS,
    OWLQN,
    SAG,
    SGD,
    SOLVERS,
    AdaGrad,
    Adam,
    CuttingPlane,
    FrankWolfe,
    MiniBatch,
    PassiveAggressive,
    Perceptron,
    Subgradient,
    default_iterations,
    get_solver,
)
from trellis.solvers.problem import check_problem
from trellis.solvers.run import Solver
from trellis.structures.graph.oracle.graph_oracle import GraphInference
from trellis.structures.segments.problem.segment_problem import SegmentExample


def separable(structure: str) -> Any:
    """The perceptron's problem with gold outputs that some weights prefer."""
    problem = make(structure, "perceptron", l2=0.0)
    teacher = np.random.default_rng(3).normal(size=problem.dimension)
    if structure == "graphs":
        return problem.with_(
            examples=[
                replace(e, gold=GraphInference().best(LAYOUT.scores(e.graph, teacher)).labels)
                for e in problem.examples
            ]
        )
    if structure == "segments":
        found = problem.predict(teacher)
        return problem.with_(
            examples=[SegmentExample(e.features, y) for e, y in zip(problem.examples, found, strict=True)]
        )
    gold = [
        max(
            small_chains.labellings(problem, i),
            key=lambda y, i=i: small_chains.phi(problem, i, y) @ teacher,
        )
        for i in range(problem.n_examples)
    ]
    return problem.with_(task=problem.task._replace(gold=np.concatenate(gold).astype(np.int32)))


@cache
def optimum_of_the_margin_objective(structure: str) -> float:
    """Certified by its dual; the same for all solvers that are compared with it."""
    exact = small_chains.run(CuttingPlane(tol=1e-7), make(structure, "margin"), 2000)
    return float(exact.history["dual"][-1])


@cache
def optimum_of_the_log_objective(structure: str) -> float:
    problem = make(structure, "log")
    return float(small_chains.primal(problem, small_chains.run(LBFGS(tol=1e-9), problem, 500).weights))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    ("solver", "room"),
    [
        (CuttingPlane("n_slack", tol=1e-5), 1e-5),
        (FrankWolfe(tol=1e-5), 1e-5),
        (Subgradient(), 8e-2),
        (SGD(0.1), 8e-2),
        (AdaGrad(0.3, average=True), 8e-2),
        (Adam(0.02), 8e-2),
        (MiniBatch(0.3, batch_size=2), 8e-2),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_the_optimum_of_the_margin_objective(structure: str, solver: Solver, room: float) -> None:
    problem = make(structure, "margin")
    optimum = optimum_of_the_margin_objective(structure)
    solution = small_chains.run(solver, problem, 400)
    reached = small_chains.primal(problem, solution.weights)
    assert optimum * (1 - 1e-9) <= reached <= optimum * (1 + room)
    assert reached < 0.9 * small_chains.primal(problem, np.zeros(problem.dimension))
    if hasattr(solver, "tol"):
        assert solution.status.converged
        assert solution.history["objective"][-1] == pytest.approx(reached, rel=1e-9)
        assert solution.history["dual"][-1] <= reached


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(
    ("solver", "room"),
    [
        (OWLQN(tol=1e-8), 1e-9),
        (SAG(tol=1e-7), 1e-9),
        (CuttingPlane(tol=1e-3), 1e-3),
        (Subgradient(), 1e-2),
        (SGD(0.1), 1e-2),
        (AdaGrad(0.3), 1e-2),
        (Adam(0.02), 1e-2),
        (MiniBatch(0.3, batch_size=2), 1e-2),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_the_optimum_of_the_log_objective(structure: str, solver: Solver, room: float) -> None:
    problem = make(structure, "log")
    optimum = optimum_of_the_log_objective(structure)
    solution = small_chains.run(solver, problem, 400)
    reached = small_chains.primal(problem, solution.weights)
    assert optimum * (1 - 1e-9) <= reached <= optimum * (1 + room)
    if hasattr(solver, "tol"):
        assert solution.status.converged


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("average", [True, False])
def test_the_perceptron_separates_and_says_what_it_has_proved(structure: str, average: bool) -> None:
    problem = separable(structure)
    solution = small_chains.run(Perceptron(average), problem, 3000)
    assert solution.status.converged
    proved = "strictly above all others" if structure == "compiled chains" else "ties are not excluded"
    assert proved in solution.status.reason
    assert problem.value_and_gradient(solution.weights)[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_perceptron_has_no_regulariser(structure: str) -> None:
    found = [
        small_chains.run(Perceptron(), make(structure, "perceptron", l2=l2), 4).weights for l2 in (0.0, 9.0)
    ]
    np.testing.assert_array_equal(*found)
    assert found[0].any()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_passive_aggressive_steps_meet_one_margin_at_a_time(structure: str) -> None:
    problem = make(structure, "margin")
    w = np.zeros(problem.dimension)
    for index in np.random.default_rng(0).permutation(problem.n_examples):
        value, g = problem.example_plane(int(index), w)
        if value > 0 and g.any():
            w = w - min(0.2, value / (g @ g)) * g
    solution = small_chains.run(PassiveAggressive(C=0.2, average=False), problem, 1)
    np.testing.assert_allclose(solution.weights, w, atol=1e-12)
    assert solution.history["violations"][0] > 0


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("epsilon", [0.7, "decay"])
def test_the_rate_of_the_direct_update_counts_per_output(structure: str, epsilon: float | str) -> None:
    """One visit by ``SGD`` is w + eta (Phi(y_direct) - Phi(y_hat)), whatever epsilon divides it by."""
    problem = make(structure, Direct(epsilon=epsilon)).with_(epsilon=0.7)
    start = 0.03 * np.random.default_rng(1).normal(size=problem.dimension)
    eps = 1.0 if epsilon == "decay" else 0.7
    planes = [problem.with_(epsilon=eps).example_plane(i, start) for i in range(problem.n_examples)]
    index = next(i for i, (_, gradient) in enumerate(planes) if gradient.any())
    problem, g = problem.with_(**only(problem, index)), planes[index][1]
    run = SGD(0.3, "constant", average=False).start(problem, start.copy(), np.random.default_rng(0))
    run.step()
    np.testing.assert_allclose(run.weights, start - 0.3 * eps * g, atol=1e-12)


def only(problem: Any, index: int) -> dict[str, Any]:
    if hasattr(problem, "examples"):
        return {"examples": [problem.examples[index]], "weight": problem.weight[[index]]}
    part = problem.run(index, index + 1)
    return {"design": part.design, "task": part.task}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_squared_margin_has_its_solvers(structure: str) -> None:
    """Convex, but neither piecewise linear nor smooth: cutting planes certify it, others come near."""
    problem = make(structure, "squared_margin")
    exact = small_chains.run(CuttingPlane(tol=1e-6), problem, 2000)
    assert exact.status.converged
    optimum = exact.history["dual"][-1]
    each = small_chains.run(CuttingPlane("n_slack", tol=1e-5), problem, 2000)
    assert each.status.converged
    assert small_chains.primal(problem, each.weights) == pytest.approx(optimum, rel=2e-5)
    for solver in (SGD(0.02), AdaGrad(0.3, average=True)):
        reached = small_chains.primal(problem, small_chains.run(solver, problem, 400).weights)
        assert optimum * (1 - 1e-9) <= reached <= 1.08 * optimum


REFUSALS = [
    (FrankWolfe(), "squared_margin", {}, "planes; 'squared_margin' is not piecewise linear"),
    (PassiveAggressive(), "squared_margin", {}, "'squared_margin' is not piecewise linear"),
    (LBFGS(), "squared_margin", {}, "'squared_margin' has kinks.*use solver='cutting_plane'"),
    (Subgradient(), "squared_margin", {}, "gradients that are bounded.*use solver='cutting_plane'"),
    (FrankWolfe(), "log", {}, "convex objective made of planes; 'log' is not piecewise linear"),
    (PassiveAggressive(), "ramp", {}, "'ramp' is not piecewise linear; use solver='sgd'"),
    (CuttingPlane(), "ramp", {}, "needs a convex objective; 'ramp' is not convex"),
    (LBFGS(), "margin", {}, "needs a smooth objective; 'margin' has kinks.*use solver='frank_wolfe'"),
    (OWLQN(), "ramp", {}, "'ramp' has kinks"),
    (SAG(), "margin", {}, "'margin' has kinks"),
    (SAG(), "log", {"l2": 0.0}, "'sag' needs l2 > 0.*use solver='lbfgs'"),
    (FrankWolfe(), "margin", {"l2": 0.0}, "'frank_wolfe' needs l2 > 0.*use solver='sgd'"),
    (Subgradient(), "margin", {"l2": 0.0}, "'subgradient' needs l2 > 0"),
    (SGD(), "log", {"l1": 1.0}, "cannot handle an L1 norm.*use solver='owlqn'"),
    (LBFGS(), "log", {"l1": 1.0}, "cannot handle an L1 norm"),
    (MiniBatch(), "margin", {"l1": 1.0}, "an L1 norm needs a smooth objective.*'margin' has kinks; set l1=0"),
    (Perceptron(), "margin", {}, "works only with objective='perceptron'"),
]


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(("solver", "objective", "options", "reason"), REFUSALS)
def test_refusals_give_the_true_reason(
    structure: str, solver: Solver, objective: str, options: dict[str, float], reason: str
) -> None:
    problem = make(structure, objective).with_(**options)
    with pytest.raises(UnsupportedError, match=reason):
        solver.start(problem, np.zeros(problem.dimension), np.random.default_rng(0))


def test_a_missing_capability_is_named() -> None:
    class Function:
        l1, l2, convex = 0.0, 1.0, True

    with pytest.raises(UnsupportedError, match=r"example_plane\), which Function does not"):
        FrankWolfe().start(Function(), np.zeros(1), np.random.default_rng(0))
    check_problem(Function(), "lbfgs", smooth=True)  # a plain function is taken at its word


def test_a_compiled_run_is_asked_for_first_and_may_be_absent() -> None:
    problem = make("compiled chains", "log")
    rng = np.random.default_rng(0)
    names = {
        name: type(get_solver(name).start(problem, np.zeros(problem.dimension), rng)).__name__
        for name in ("sgd", "adam", "sag")
    }
    assert all(found.startswith("Compiled") for found in names.values()), names
    assert problem.compiled_run(LBFGS(), np.zeros(problem.dimension), rng) is None
    edges = small_chains.small_problem("log", edges=True)
    assert edges.compiled_run(SAG(), np.zeros(edges.dimension), rng) is None


@dataclass(frozen=True)
class OwnMargin(Objective):
    """The margin objective by a formula of its own, which no kernel knows."""

    name = "own_margin"
    special = "own"

    def value_and_gradient(self, oracle: Any, epsilon: float = 1.0) -> tuple[float, np.ndarray]:
        above, below = oracle.best(1.0), oracle.gold_best()
        return above.value - below.value, above.parts - below.parts


def test_an_objective_of_one_s_own_runs_over_capabilities() -> None:
    known = small_chains.small_problem("margin", weighted=True, compiled=False)
    own = small_chains.small_problem(OwnMargin(), weighted=True)
    assert own.compiled_run(SGD(), np.zeros(own.dimension), np.random.default_rng(0)) is None
    found, expected = (small_chains.run(SGD(0.1), problem, 5).weights for problem in (own, known))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_the_registry_names_every_solver_once() -> None:
    records = [get_solver(name) for name in SOLVERS]
    assert [record.name for record in records] == list(SOLVERS)
    assert len({type(record) for record in records}) == len(SOLVERS)
    assert all(default_iterations(record) > 0 for record in records)
    assert "passive_aggressive" in SOLVERS
