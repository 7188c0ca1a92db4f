"""Stochastic solvers against plain implementations of their updates, and against the optimum that L-BFGS
finds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_chains import gold_of, labellings, loss_of_path, phi, primal, run, small_problem
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.objectives import Direct
from trellis.solvers.online.stochastic import SGD, AdaGrad, Adam, Subgradient
from trellis.solvers.planes.frank_wolfe import FrankWolfe
from trellis.solvers.quasi_newton.lbfgs import LBFGS
from trellis.solvers.run import Solver
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.linear_chain_kernels import Penalties

VARIANTS = [
    {},
    {"observed": True, "boundaries": False},
    {"edges": True, "weighted": True},
    {"constrained": True},
]


def example_gradient(problem: LinearChainProblem, i: int, w: np.ndarray) -> np.ndarray:
    """c_i times a (sub)gradient of f_i, from the batch code on a problem in which the others weigh
    nothing."""
    weight = np.zeros(problem.n_examples)
    weight[i] = problem.task.weight[i]
    _, gradient = problem.with_(task=problem.task._replace(weight=weight)).value_and_gradient(w)
    return gradient


def replay(
    problem: LinearChainProblem,
    passes: int,
    seed: int,
    update: Callable[[np.ndarray, int, int], np.ndarray],
    omega: Callable[[int], float],
) -> tuple[np.ndarray, np.ndarray]:
    """Last weights and weighted average of the plain iteration w <- update(w, i, t)."""
    rng = np.random.default_rng(seed)
    w, total, mass, t = np.zeros(problem.dimension), np.zeros(problem.dimension), 0.0, 0
    for _ in range(passes):
        for i in rng.permutation(problem.n_examples):
            t += 1
            w = update(w, int(i), t)
            total, mass = total + omega(t) * w, mass + omega(t)
    return w, total / mass


@pytest.mark.parametrize("objective", ["margin", "slack", "log", "softmax_margin", "ramp", "risk"])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_pegasos_is_the_plain_iteration(objective: str, options: dict) -> None:
    check_pegasos(small_problem(objective, 1, **options))


@pytest.mark.parametrize("objective", ["margin", "log"])
def test_pegasos_over_capabilities(objective: str) -> None:
    check_pegasos(small_problem(objective, 1, compiled=False, weighted=True))


def check_pegasos(problem: LinearChainProblem) -> None:
    decay = problem.l2 / problem.n_examples

    def update(w: np.ndarray, i: int, t: int) -> np.ndarray:
        eta = 1 / (decay * (t + 1))
        return (1 - eta * decay) * w - eta * example_gradient(problem, i, w)

    for average, omega in (("weighted", float), ("plain", lambda t: 1.0)):
        last, expected = replay(problem, 3, 4, update, omega)
        found = run(Subgradient(average=average), problem, 3, 4).weights
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        run(Subgradient(average=None), problem, 3, 4).weights, last, rtol=1e-8, atol=1e-8
    )


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("schedule", ["constant", "sqrt", "inverse"])
@pytest.mark.parametrize("objective", ["margin", "log"])
def test_sgd_is_the_plain_iteration_however_far_it_shrinks(
    schedule: str, objective: str, compiled: bool
) -> None:
    problem = small_problem(objective, 2, l2=5.0, compiled=compiled)
    decay, rate = problem.l2 / problem.n_examples, 0.8

    def update(w: np.ndarray, i: int, t: int) -> np.ndarray:
        eta = {"constant": rate, "sqrt": rate / np.sqrt(t), "inverse": rate / (1 + rate * decay * t)}[
            schedule
        ]
        return (1 - eta * decay) * w - eta * example_gradient(problem, i, w)

    last, expected = replay(problem, 10, 4, update, float)
    solver = SGD(rate, schedule)
    np.testing.assert_allclose(run(solver, problem, 10, 4).weights, expected, rtol=1e-7, atol=1e-8)
    plain = run(SGD(rate, schedule, average=False), problem, 10, 4)
    np.testing.assert_allclose(plain.weights, last, rtol=1e-7, atol=1e-8)


def rows_of(problem: LinearChainProblem, i: int) -> np.ndarray:
    """Which weights sequence i can touch: those of its features, and what all sequences share."""
    total = np.zeros(problem.dimension, bool)
    n = int(np.diff(problem.design.offsets)[i])
    for k in range(problem.layout.n_labels):
        total |= phi(problem.with_(layout=problem.layout), i, (k,) * n) != 0
    v = problem.layout.views(total.astype(float))
    for edge in v.edge:
        edge[:] = edge.any()
    v.transitions[:], v.start[:], v.end[:] = 1, 1, 1
    rows, mask = v.flat != 0, problem.layout.mask
    return rows & (mask != 0) if len(mask) else rows


@pytest.mark.parametrize("objective", ["margin", "log"])
@pytest.mark.parametrize("options", [*VARIANTS[:3], {"compiled": False}], ids=str)
def test_adagrad_and_adam_are_the_plain_iterations(objective: str, options: dict) -> None:
    problem = small_problem(objective, 3, **options)
    touch = np.array([rows_of(problem, i) for i in range(problem.n_examples)])
    if not options.get("compiled", True):  # over capabilities any example may touch any weight
        touch[:] = True
    share = problem.l2 / np.maximum(touch.sum(axis=0), 1)
    for solver, name in ((AdaGrad(0.3), "adagrad"), (Adam(0.05, average=False), "adam")):
        squares, moments = np.zeros(problem.dimension), np.zeros(problem.dimension)

        def update(w: np.ndarray, i: int, t: int, name=name, squares=squares, moments=moments) -> np.ndarray:
            on = touch[i]
            g = (example_gradient(problem, i, w) + share * w)[on]
            if name == "adagrad":
                squares[on] += g * g
                change = 0.3 * g / (np.sqrt(squares[on]) + 1e-8)
            else:
                moments[on] = 0.9 * moments[on] + 0.1 * g
                squares[on] = 0.999 * squares[on] + 0.001 * g * g
                first, second = moments[on] / (1 - 0.9**t), squares[on] / (1 - 0.999**t)
                change = 0.05 * first / (np.sqrt(second) + 1e-8)
            w = w.copy()
            w[on] -= change
            return w

        last, _ = replay(problem, 3, 4, update, float)
        np.testing.assert_allclose(run(solver, problem, 3, 4).weights, last, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "solver",
    [Subgradient(), SGD(0.2), SGD(0.3, "sqrt"), AdaGrad(0.3, average=True), Adam(0.01, average=True)],
    ids=str,
)
@pytest.mark.parametrize(("objective", "tolerance"), [("log", 2e-4), ("margin", 4e-2)])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_every_solver_nears_the_optimum(
    solver: Solver, objective: str, tolerance: float, compiled: bool
) -> None:
    problem = small_problem(
        objective, 5, l2=1.0, lengths=(3, 2, 4, 1, 3, 2, 3), weighted=True, compiled=compiled
    )
    exact = run(LBFGS(tol=1e-9) if objective == "log" else FrankWolfe(tol=1e-6), problem, 3000)
    optimum = primal(problem, exact.weights)
    solution = run(solver, problem, 600)
    assert primal(problem, solution.weights) <= optimum * (1 + tolerance)
    assert not solution.status.converged


@pytest.mark.parametrize("sign", ["better", "worse"])
@pytest.mark.parametrize("epsilon", [1.1, "decay"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_direct_loss_is_update_8_of_the_paper(sign: str, epsilon: float | str, compiled: bool) -> None:
    """w <- w + eta_t (Phi(y_direct) - Phi(y_hat)) toward better labellings; away from worse ones with both
    roles swapped."""
    problem = small_problem(Direct(epsilon, sign), 6, lengths=(2, 3, 1, 2), l2=3.0, compiled=compiled)
    rate = 0.7

    def update(w: np.ndarray, i: int, t: int) -> np.ndarray:
        eps = 1 / np.sqrt(t) if epsilon == "decay" else epsilon
        eta = rate / np.sqrt(t) if epsilon == "decay" else rate
        ys = labellings(problem, i)
        scores = np.array([phi(problem, i, y) @ w for y in ys])
        losses = np.array([loss_of_path(problem, i, y) for y in ys])
        hat = ys[int(np.argmax(scores))]
        if sign == "better":
            good = ys[int(np.argmax(scores - eps * losses))]
            return w + eta * (phi(problem, i, good) - phi(problem, i, hat))
        bad = ys[int(np.argmax(scores + eps * losses))]
        return w + eta * (phi(problem, i, hat) - phi(problem, i, bad))

    last, _ = replay(problem, 6, 3, update, float)
    found = run(SGD(rate, "constant", average=False), problem, 6, 3)
    np.testing.assert_allclose(found.weights, last, atol=1e-9)
    assert np.abs(last).max() > 0


def test_direct_loss_counts_mistaken_predictions() -> None:
    problem = small_problem(Direct(1.0, sign="better"), 6, lengths=(2, 3, 1, 2))
    solution = run(SGD(1e-9, "constant", average=False), problem, 1, 3)
    # At weights of (almost) zero every label is 0 until the first update breaks the ties.
    assert solution.history["mistakes"][0] <= problem.n_examples
    assert solution.history["mistakes"][0] >= 1


@settings(max_examples=20)
@given(
    seed=st.integers(0, 1000),
    objective=st.sampled_from(["margin", "log", "perceptron", "ramp"]),
    solver=st.sampled_from([SGD(0.1), AdaGrad(0.1, average=True), Adam(0.1), Subgradient()]),
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=5).filter(lambda x: sum(x) > 0),
    ambiguous=st.booleans(),
)
def test_masked_weights_stay_zero_and_seeds_decide(
    seed: int, objective: str, solver: Solver, lengths: list[int], ambiguous: bool
) -> None:
    problem = small_problem(
        objective, seed, lengths=tuple(lengths), observed=True, boundaries=False,
        ambiguous=ambiguous and lengths[0] > 0,
    )  # fmt: skip
    a, b = run(solver, problem, 3, 1), run(solver, problem, 3, 1)
    np.testing.assert_array_equal(a.weights, b.weights)
    assert not a.weights[problem.layout.mask == 0].any()
    assert np.isfinite(a.weights).all()


@pytest.mark.parametrize("solver", [SGD(0.1), AdaGrad(0.1, average=True), Adam(0.1), Subgradient()], ids=str)
@pytest.mark.parametrize("objective", ["margin", "log"])
@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_run_goes_on_from_its_state(solver: SGD, objective: str, compiled: bool) -> None:
    problem = small_problem(objective, 4, compiled=compiled)
    whole = run(solver, problem, 3, 5)
    rng, state = np.random.default_rng(5), None
    for _ in range(3):
        part = solver.start(problem, np.zeros(problem.dimension), rng, state=state)
        part.step()
        state = part.state
    np.testing.assert_array_equal(whole.weights, part.weights)
    other = small_problem(objective, 4, n_features=3)
    with pytest.raises(DataError, match="same model"):
        solver.start(other, np.zeros(other.dimension), rng, state=state)


def test_the_pass_objective_of_one_sequence_is_its_objective_at_the_start() -> None:
    problem = small_problem("log", 4, lengths=(4,), l2=2.0)
    start = np.random.default_rng(0).normal(size=problem.dimension)
    one = SGD(0.1, average=False).start(problem, start.copy(), np.random.default_rng(0))
    measured = one.step()
    value, _ = problem.value_and_gradient(start)
    assert measured["pass_objective"] == pytest.approx(value + one.weights @ one.weights)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_divergence_is_said(compiled: bool) -> None:
    problem = small_problem("log", 0, l2=0.0, compiled=compiled)
    with np.errstate(over="ignore", invalid="ignore"):
        solution = run(SGD(1e308, "constant"), problem, 20)
    assert not solution.status.converged
    assert "lower the learning rate" in solution.status.reason


def test_what_they_cannot_do_is_said() -> None:
    rng = np.random.default_rng(0)
    zero = small_problem("margin", l2=0.0)
    for solver, problem, words in [
        (Subgradient(), zero, "needs l2 > 0"),
        (Subgradient(), small_problem(Direct()), "solver='sgd'"),
        (SGD(100.0, "constant"), small_problem("margin"), "lower learning_rate"),
        (AdaGrad(), small_problem("log").with_(l1=1.0), "owlqn"),
        (AdaGrad(), zero.with_(l1=1.0), "'margin' has kinks; set l1=0"),
    ]:
        with pytest.raises(UnsupportedError, match=words):
            solver.start(problem, np.zeros(problem.dimension), rng)
    for bad in (
        lambda: SGD(0.0),
        lambda: Adam(np.nan),
        lambda: SGD(0.1, "often"),
        lambda: Subgradient("mean"),
    ):
        with pytest.raises(DataError):
            bad()
    problem = small_problem("log", 0)
    end_ok = np.ones(3, bool)
    end_ok[gold_of(problem, 2)[-1]] = False
    problem = problem.with_(penalties=Penalties.where_not(np.ones(3, bool), np.ones((3, 3), bool), end_ok))
    with pytest.raises(InfeasibleError, match="sequence"):
        run(SGD(), problem, 3)
