"""SAG against L-BFGS, against its own iteration with dense vectors, and its gap against the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_chains import gold_of, primal, run, small_problem
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.solvers.online.sag import SAG
from trellis.solvers.quasi_newton.lbfgs import LBFGS
from trellis.structures.chain.passes.compiled_sag import CompiledSAGRun
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.linear_chain_kernels import Penalties

VARIANTS = [
    {},
    {"observed": True, "boundaries": False},
    {"constrained": True, "weighted": True},
    {"binary": True, "observed": True, "n_labels": 4},
]


@pytest.mark.parametrize("objective", ["log", "softmax_margin"])
@pytest.mark.parametrize("options", [*VARIANTS, {"compiled": False}, {"edges": True}], ids=str)
def test_reaches_the_optimum_of_lbfgs(objective: str, options: dict) -> None:
    problem = small_problem(objective, 1, l2=0.3, **options)
    optimum = primal(problem, run(LBFGS(tol=1e-10), problem, 2000).weights)
    solution = run(SAG(tol=1e-6), problem, 2000)
    assert solution.status.converged
    assert primal(problem, solution.weights) == pytest.approx(optimum, rel=1e-9)
    assert solution.history["objective"][-1] == pytest.approx(primal(problem, solution.weights), rel=1e-12)
    if len(problem.layout.mask):
        assert not solution.weights[problem.layout.mask == 0].any()


def example_gradient(problem: LinearChainProblem, i: int, w: np.ndarray) -> np.ndarray:
    weight = np.zeros(problem.n_examples)
    weight[i] = problem.task.weight[i]
    _, gradient = problem.with_(task=problem.task._replace(weight=weight)).value_and_gradient(w)
    return gradient


class FixedCurvature(CompiledSAGRun):
    """SAG with given L_i, never searched for, and a given order."""

    def fix(self, curvature: np.ndarray, order: list[int]) -> None:
        self._memory.curvature[:] = curvature
        self._memory.skip[:] = 10**6
        self._memory.clock[2] = len(curvature)
        self._fixed = np.array(order)

    def _order(self) -> np.ndarray:
        return self._fixed


@pytest.mark.parametrize("options", VARIANTS[:3], ids=str)
@pytest.mark.parametrize("l2", [0.5, 40.0])
def test_just_in_time_updates_are_the_dense_iteration(options: dict, l2: float) -> None:
    """Large l2 shrinks the scalar b below its limit within the pass, so that settling is tested too."""
    problem = small_problem("log", 2, l2=l2, **options)
    n = problem.n_examples
    rng = np.random.default_rng(0)
    curvature, order = rng.uniform(1.0, 4.0, n), [int(i) for i in rng.integers(0, n, 60)]
    start = rng.normal(size=problem.dimension) * (problem.layout.mask if len(problem.layout.mask) else 1.0)
    found = FixedCurvature(problem, start.copy(), rng, 0.0)
    found.fix(curvature, order)
    found.step()

    decay = l2 / n
    alpha = 0.5 / (curvature.max() + decay) + 0.5 / (curvature.mean() + decay)
    w, memory = start.copy(), np.zeros((n, problem.dimension))
    for i in order:
        memory[i] = example_gradient(problem, i, w)
        w = (1 - alpha * decay) * w - alpha / n * memory.sum(axis=0)
    np.testing.assert_allclose(found.weights, w, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("options", VARIANTS[:3], ids=str)
def test_compiled_and_plain_passes_are_the_same(options: dict) -> None:
    compiled, plain = (
        run(SAG(tol=0.0), small_problem("log", 3, compiled=c, **options), 6) for c in (True, False)
    )
    np.testing.assert_allclose(compiled.weights, plain.weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(compiled.history["objective"], plain.history["objective"], rtol=1e-9)


@settings(max_examples=15)
@given(
    seed=st.integers(0, 1000),
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=8).filter(lambda x: sum(x) > 0),
    n_labels=st.integers(1, 4),
    l2=st.sampled_from([0.1, 1.0, 20.0]),
)
def test_the_gap_bounds_the_distance_from_the_optimum(
    seed: int, lengths: list[int], n_labels: int, l2: float
) -> None:
    problem = small_problem("log", seed, lengths=tuple(lengths), n_labels=n_labels, l2=l2, weighted=True)
    optimum = primal(problem, run(LBFGS(tol=1e-10), problem, 1000).weights)
    solution = run(SAG(tol=1e-4), problem, 300)
    objective, gap = np.array(solution.history["objective"]), np.array(solution.history["gap"])
    assert np.all(objective - gap <= optimum + 1e-9 * (1 + abs(optimum)))
    assert solution.status.converged


def test_needs_fewer_passes_than_lbfgs_needs_evaluations() -> None:
    problem = small_problem("log", 3, lengths=(4,) * 150, n_features=20, n_labels=4, l2=1.0)
    batch = run(LBFGS(tol=1e-9), problem, 2000)
    optimum = batch.history["objective"][-1]
    online = run(SAG(tol=1e-9), problem, 12)
    after = np.array(online.history["objective"]) / optimum - 1
    evaluations = np.array(batch.history["evaluations"])
    equally_good = evaluations[np.array(batch.history["objective"]) / optimum - 1 <= max(after[4], 1e-12)][0]
    assert equally_good > 5
    assert after[11] < 5e-3


def test_the_same_seed_gives_the_same_run() -> None:
    problem = small_problem("log", 4)
    a, b, c = (run(SAG(tol=0.0), problem, 4, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a.weights, b.weights)
    assert a.history["objective"] != c.history["objective"]


def test_what_it_cannot_do_is_said() -> None:
    rng = np.random.default_rng(0)
    for problem, words in [
        (small_problem("log", l2=0.0), "l2 > 0"),
        (small_problem("log").with_(l1=1.0), "owlqn"),
        (small_problem("log", ambiguous=True), "not convex where parts of the gold outputs are unknown"),
        (small_problem("risk"), "'risk' is not convex; use solver='lbfgs'"),
        (small_problem("margin"), "'margin' has kinks.*use solver='frank_wolfe'"),
    ]:
        with pytest.raises(UnsupportedError, match=words):
            SAG().start(problem, np.zeros(problem.dimension), rng)
    with pytest.raises(DataError, match="tol"):
        SAG(tol=-1.0)
    problem = small_problem("log", 0)
    end_ok = np.ones(3, bool)
    end_ok[gold_of(problem, 2)[-1]] = False
    problem = problem.with_(penalties=Penalties.where_not(np.ones(3, bool), np.ones((3, 3), bool), end_ok))
    with pytest.raises(InfeasibleError, match="sequence"):
        run(SAG(), problem, 3)
