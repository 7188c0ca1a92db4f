"""Learning segmentations: values by brute force, gradients by differences, solvers against one another."""

from __future__ import annotations

import numpy as np
import pytest

from objective_references import EVERY, name_of, reference_value
from small_segments import all_paths, random_features, random_graph
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.objectives import Direct, Objective, get_objective
from trellis.solvers import LBFGS, CuttingPlane, FrankWolfe, MiniBatch, PassiveAggressive
from trellis.solvers.run import Solution, Solver
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.problem.alignment_losses import (
    AlignmentLoss,
    TauAlignment,
    TauInsensitive,
)
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.structures.segments.scores.segment_scores import SegmentPath
from trellis.training.driver import minimise

BY_ORACLE = [o for o in EVERY if o.for_oracles]


def small_problem(
    objective: str | Objective = "margin",
    seed: int = 0,
    *,
    n: int = 6,
    kind: str = "chain",
    loss: AlignmentLoss | None = None,
    weighted: bool = False,
    **options: float,
) -> SegmentProblem:
    rng = np.random.default_rng(seed)
    examples = []
    while len(examples) < n:
        graph = random_graph(kind, rng)
        frames = int(rng.integers(6, 10))
        paths = all_paths(graph, frames)
        if len(paths) > 3:
            gold = paths[rng.integers(len(paths))]
            features = random_features(graph, frames, rng, shared=len(examples) % 2 == 0)
            examples.append(SegmentExample(features, gold))
    weight = rng.uniform(0.5, 2.0, n) if weighted else None
    return SegmentProblem(
        examples,
        get_objective(objective),
        loss or TauInsensitive(0.0),
        weight=weight,
        **{"l2": 0.3, **options},
    )


def by_brute_force(problem: SegmentProblem, weights: np.ndarray) -> np.ndarray:
    """f_i(w), from the definitions."""
    values = []
    for example in problem.examples:
        paths = all_paths(example.features.graph, example.gold.n_frames)
        s = np.array([weights @ example.features.of_path(path) for path in paths])
        losses = np.array([problem.loss.of_path(example.starts, path) for path in paths])
        right = [example.gold.nodes.tolist(), example.gold.starts.tolist()]
        gold = np.array([[path.nodes.tolist(), path.starts.tolist()] == right for path in paths])
        values.append(reference_value(problem.objective, s, losses, gold, problem.epsilon))
    return np.array(values)


def run(solver: Solver, problem: SegmentProblem, max_iter: int, seed: int = 0) -> Solution:
    return minimise(
        solver, problem, np.zeros(problem.dimension), max_iter=max_iter, rng=np.random.default_rng(seed)
    )


def primal(problem: SegmentProblem, weights: np.ndarray) -> float:
    return problem.value_and_gradient(weights)[0] + 0.5 * problem.l2 * float(weights @ weights)


@pytest.mark.parametrize("kind", ["chain", "lattice"])
@pytest.mark.parametrize("objective", BY_ORACLE, ids=name_of)
def test_values_against_brute_force(objective: Objective, kind: str) -> None:
    problem = small_problem(objective, 1, n=3, kind=kind, weighted=True)
    weights = np.random.default_rng(2).normal(size=problem.dimension)
    expected = by_brute_force(problem, weights)
    value, _ = problem.value_and_gradient(weights)
    assert value == pytest.approx(float(expected @ problem.weight), abs=1e-9)
    planes = [problem.example_plane(i, weights)[0] for i in range(3)]
    np.testing.assert_allclose(planes, expected * problem.weight, atol=1e-9)


@pytest.mark.parametrize("objective", [o for o in BY_ORACLE if o.name != "direct"], ids=name_of)
@pytest.mark.parametrize("rate", [0.7, 0.0, -0.7])
def test_gradients_by_finite_differences(objective: Objective, rate: float) -> None:
    problem = small_problem(objective, 3, weighted=True)
    weights = np.random.default_rng(4).normal(size=problem.dimension)
    weights[-1] = rate
    _, gradient = problem.value_and_gradient(weights)
    step = 1e-6
    for j in range(problem.dimension):
        e = step * np.eye(problem.dimension)[j]
        up, down = problem.value_and_gradient(weights + e)[0], problem.value_and_gradient(weights - e)[0]
        assert (up - down) / (2 * step) == pytest.approx(gradient[j], rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("sign", ["better", "worse"])
def test_the_direct_step_is_a_difference_of_features(sign: str) -> None:
    """One visit of MiniBatch with rate eta eps is w + eta (Phi(y_direct) - Phi(y_hat)), for 'better'."""
    eps, eta = 1.1, 1.0
    problem = small_problem(n=1, loss=TauAlignment(0.0), seed=7).with_(
        objective=Direct(epsilon=eps, sign=sign), epsilon=eps
    )
    example, oracle = problem.examples[0], Segmentation()
    w = 0.1 * np.random.default_rng(1).normal(size=problem.dimension)
    scores = example.features.scores(w)
    direction = -1.0 if sign == "better" else 1.0
    adjusted = oracle.best(scores, direction * eps * problem.loss.table(example.starts, scores.n_frames))
    change = example.features.of_path(adjusted) - example.features.of_path(oracle.best(scores))
    assert change.any()
    solver = MiniBatch(learning_rate=eta * eps, batch_size=1, schedule="constant", average=False)
    moved = minimise(solver, problem, w, max_iter=1, rng=np.random.default_rng(0)).weights
    np.testing.assert_allclose(moved, w - direction * eta * change, atol=1e-12)


def test_direct_training_lowers_the_training_loss() -> None:
    problem = small_problem("direct", 5, n=12, loss=TauAlignment(0.0), epsilon=1.0)
    solver = MiniBatch(learning_rate=1.0, batch_size=1, schedule="constant", average=False)
    before = problem.task_losses(np.zeros(problem.dimension)).mean()
    best = min(problem.task_losses(run(solver, problem, passes).weights).mean() for passes in (1, 2, 4, 8))
    assert best < before


@pytest.mark.parametrize("options", [{}, {"kind": "lattice"}, {"weighted": True, "l2": 5.0}], ids=str)
def test_solvers_reach_the_same_optimum(options: dict) -> None:
    problem = small_problem("margin", 11, **{"l2": 2.0, **options})
    solutions = {
        "one_slack": run(CuttingPlane(tol=1e-6), problem, 1000),
        "n_slack": run(CuttingPlane(variant="n_slack", tol=1e-6), problem, 1000),
        "frank_wolfe": run(FrankWolfe(tol=1e-6), problem, 1000),
    }
    values = {name: primal(problem, s.weights) for name, s in solutions.items()}
    assert all(s.status.converged for s in solutions.values())
    np.testing.assert_allclose(list(values.values()), values["one_slack"], rtol=3e-6)
    for solution in solutions.values():
        assert max(solution.history["dual"]) <= values["one_slack"] * (1 + 1e-6)
    assert values["one_slack"] < 0.99 * primal(problem, np.zeros(problem.dimension))
    long = primal(problem, run(MiniBatch(learning_rate=0.02, batch_size=1), problem, 300).weights)
    assert values["one_slack"] * (1 - 1e-6) <= long <= 1.03 * values["one_slack"]


@pytest.mark.parametrize("options", [{"cache": 2}, {"average": True}, {"cached_passes": 0}], ids=str)
def test_frank_wolfe_options_keep_the_certificate(options: dict) -> None:
    problem = small_problem("margin", 13, n=4)
    optimum = primal(problem, run(CuttingPlane(tol=1e-7), problem, 1000).weights)
    solution = run(FrankWolfe(tol=1e-3, **options), problem, 600)
    assert solution.status.converged
    assert np.all(np.diff(solution.history["dual"]) >= 0)
    assert (
        solution.history["dual"][-1] <= optimum * (1 + 1e-7) <= solution.history["objective"][-1] * (1 + 2e-7)
    )
    assert solution.history["objective"][-1] == pytest.approx(primal(problem, solution.weights))
    assert solution.history["gap"][-1] <= 1e-3 * solution.history["objective"][-1]


def test_the_log_objective_by_lbfgs() -> None:
    problem = small_problem("log", 6)
    solution = run(LBFGS(tol=1e-8), problem, 200)
    assert solution.status.converged
    _, gradient = problem.value_and_gradient(solution.weights)
    np.testing.assert_allclose(gradient + problem.l2 * solution.weights, 0.0, atol=1e-5)


def test_one_passive_aggressive_step_by_its_formula() -> None:
    for C in (1e-3, 10.0):
        problem = small_problem("margin", 8, n=1)
        w = 0.01 * np.random.default_rng(3).normal(size=problem.dimension)
        value, g = problem.example_plane(0, w)
        step = min(C, value / (g @ g))
        assert (step == C) == (C == 1e-3)
        run_ = PassiveAggressive(C=C, average=False).start(problem, w.copy(), np.random.default_rng(0))
        measured = run_.step()
        np.testing.assert_allclose(run_.weights, w - step * g, atol=1e-14)
        assert measured == {"pass_objective": pytest.approx(value), "violations": 1.0}
        if step < C:  # the plane of that output is met now
            assert value + g @ (run_.weights - w) == pytest.approx(0.0, abs=1e-10)


def test_passive_aggressive_stops_when_nothing_is_violated() -> None:
    problem = small_problem("perceptron", 9, n=2)
    separable = problem.with_(
        examples=[
            SegmentExample(e.features, problem.predict(np.ones(5))[i]) for i, e in enumerate(problem.examples)
        ]
    )
    solution = run(PassiveAggressive(C=100.0), separable, 500)
    assert solution.status.converged
    assert "every margin" in str(solution.status)
    assert separable.value_and_gradient(solution.weights)[0] == 0.0
    averaged, last = (
        run(PassiveAggressive(average=a), small_problem("margin", 10), 3) for a in (True, False)
    )
    assert not np.allclose(averaged.weights, last.weights)


def test_threads_and_mini_batches_add_up() -> None:
    problem = small_problem("log", 12, n=7, weighted=True)
    w = np.random.default_rng(0).normal(size=problem.dimension)
    value, gradient = problem.value_and_gradient(w)
    threaded_value, threaded = problem.with_(n_jobs=2).value_and_gradient(w)
    assert threaded_value == value
    np.testing.assert_array_equal(threaded, gradient)
    parts = [problem.run_value_and_gradient(w, a, b) for a, b in ((0, 3), (3, 4), (4, 7))]
    assert sum(v for v, _ in parts) == pytest.approx(value)
    np.testing.assert_allclose(sum(g for _, g in parts), gradient, atol=1e-10)
    values, rows = problem.example_planes(w)
    assert values.sum() == pytest.approx(value)
    np.testing.assert_allclose(np.asarray(rows.sum(axis=0)).ravel(), gradient, atol=1e-10)


def test_what_cannot_be_done_is_said() -> None:
    problem = small_problem("margin")
    rng, zero = np.random.default_rng(0), np.zeros(problem.dimension)
    for name in ("slack", "risk"):
        with pytest.raises(UnsupportedError, match="softmax_margin"):
            problem.with_(objective=get_objective(name))
    for solver, changes, words in [
        (FrankWolfe(), {"l2": 0.0}, "l2 > 0"),
        (FrankWolfe(), {"l1": 1.0}, "'margin' has kinks"),
        (FrankWolfe(), {"objective": get_objective("log")}, "lbfgs"),
        (PassiveAggressive(), {"objective": get_objective("direct")}, "solver='sgd'"),
        (PassiveAggressive(), {"l1": 1.0}, "'margin' has kinks"),
    ]:
        with pytest.raises(UnsupportedError, match=words):
            solver.start(problem.with_(**changes), zero, rng)
    with pytest.raises(UnsupportedError, match="object does not offer"):
        PassiveAggressive().start(object(), zero, rng)
    with pytest.raises(DataError, match="positive"):
        PassiveAggressive(C=0.0)
    with pytest.raises(DataError, match="no utterance"):
        problem.with_(examples=[])
    with pytest.raises(DataError, match="weights of shape"):
        problem.with_(weight=np.ones(2))
    features, gold = problem.examples[0].features, problem.examples[0].gold
    with pytest.raises(InfeasibleError, match=r"reference of a\.wav has"):
        SegmentExample(features, SegmentPath(gold.nodes, gold.starts, gold.n_frames + 1), name="a.wav")
    with pytest.raises(InfeasibleError, match=r"reference of a\.wav must"):
        SegmentExample(features, SegmentPath(gold.nodes, gold.starts + 1, gold.n_frames), name="a.wav")
    with pytest.raises(DataError, match="shape"):
        SegmentExample(features, gold, np.zeros(1))
