"""The perceptron against a plain implementation over enumerated labellings, and its certificate, both
ways."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_chains import gold_of, labellings, phi, run, small_problem
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.solvers.online.perceptron import Perceptron
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.linear_chain_kernels import Penalties

VARIANTS = [
    {},
    {"observed": True, "boundaries": False},
    {"edges": True, "weighted": True},
    {"constrained": True},
]


def reference(
    problem: LinearChainProblem, passes: int, seed: int
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Last and averaged weights and mistakes per pass, by enumeration."""
    rng = np.random.default_rng(seed)
    w, total, visits, history = np.zeros(problem.dimension), np.zeros(problem.dimension), 0, []
    for _ in range(passes):
        mistakes = 0
        for i in rng.permutation(problem.n_examples):
            candidates = labellings(problem, i)
            best = candidates[int(np.argmax([phi(problem, i, y) @ w for y in candidates]))]
            if best != gold_of(problem, i):
                mistakes += 1
                w = w + problem.task.weight[i] * (
                    phi(problem, i, gold_of(problem, i)) - phi(problem, i, best)
                )
            total, visits = total + w, visits + 1
        history.append(mistakes)
        if mistakes == 0:
            break
    return w, total / visits, history


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_equals_the_plain_perceptron(options: dict, compiled: bool) -> None:
    # Whole-number features keep the scores exact, so that ties are ties in both.
    problem = small_problem(
        "perceptron", 1, binary="weighted" not in options, n_features=4, compiled=compiled, **options
    )
    last, average, mistakes = reference(problem, 4, 7)
    found = run(Perceptron(), problem, len(mistakes), 7)
    plain = run(Perceptron(average=False), problem, len(mistakes), 7)
    assert plain.history["mistakes"] == mistakes
    np.testing.assert_allclose(plain.weights, last, atol=1e-10)
    if not found.status.converged:
        np.testing.assert_allclose(found.weights, average, atol=1e-10)


def separable(seed: int, **options: bool) -> LinearChainProblem:
    """Gold labels that are the best ones under some weights, with a margin."""
    problem = small_problem("perceptron", seed, lengths=(2, 3, 1, 2, 3), n_features=8, **options)
    truth = np.random.default_rng(seed).normal(size=problem.dimension)
    gold = [max(labellings(problem, i), key=lambda y: phi(problem, i, y) @ truth) for i in range(5)]
    return problem.with_(task=problem.task._replace(gold=np.concatenate(gold).astype(np.int32)))


def brute_margin(problem: LinearChainProblem, weights: np.ndarray) -> float:
    margins = []
    for i in range(problem.n_examples):
        gold = gold_of(problem, i)
        others = [phi(problem, i, y) @ weights for y in labellings(problem, i) if y != gold]
        margins.append(phi(problem, i, gold) @ weights - max(others))
    return float(min(margins))


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), average=st.booleans(), edges=st.booleans())
def test_separable_data_end_with_a_certificate_that_is_true(seed: int, average: bool, edges: bool) -> None:
    problem = separable(seed, edges=edges)
    solution = run(Perceptron(average=average), problem, 3000)
    assert solution.status.converged
    assert "separable" in solution.status.reason
    margin = brute_margin(problem, solution.weights)
    assert margin > 0
    assert f"smallest margin {margin:.3g}" in solution.status.reason
    assert f"after {int(sum(solution.history['mistakes']))} mistakes" in solution.status.reason


@settings(max_examples=10)
@given(seed=st.integers(0, 1000), average=st.booleans())
def test_without_the_best_other_labelling_ties_are_not_excluded(seed: int, average: bool) -> None:
    problem = separable(seed, compiled=False)
    solution = run(Perceptron(average=average), problem, 3000)
    assert solution.status.converged
    assert "no output that scores above a gold one (ties are not excluded)" in solution.status.reason
    assert brute_margin(problem, solution.weights) >= -1e-12
    assert f"after {int(sum(solution.history['mistakes']))} mistakes" in solution.status.reason


def test_the_averaged_weights_are_the_answer_only_if_they_separate_too() -> None:
    for seed in range(20):
        problem = separable(seed, compiled=False)
        average, last = (run(Perceptron(average=a), problem, 3000).weights for a in (True, False))
        if brute_margin(problem, average) < 0:
            raise AssertionError("an answer that does not separate")
        if not np.array_equal(average, last):
            break
    else:
        raise AssertionError("the averaged weights were never the answer")


def test_data_that_cannot_be_separated_get_no_certificate() -> None:
    problem = small_problem("perceptron", 0, lengths=(1, 1), n_features=3)
    design = problem.design
    same = slice(design.indptr[0], design.indptr[1])
    twice = design._replace(
        indptr=np.array([0, design.indptr[1], 2 * design.indptr[1]]),
        middle=np.array([design.middle[0], design.indptr[1] + design.middle[0]]),
        indices=np.tile(design.indices[same], 2),
        values=np.tile(design.values[same], 2),
    )
    task = problem.task._replace(gold=np.array([0, 1], np.int32))
    solution = run(Perceptron(), problem.with_(design=twice, task=task), 30)
    assert not solution.status.converged
    assert "max_iter=30" in solution.status.reason


def test_ties_without_mistakes_are_not_called_separable() -> None:
    # All weights are zero, every labelling ties, and the tie rule happens to predict the gold labels.
    problem = small_problem("perceptron", 2)
    problem = problem.with_(task=problem.task._replace(gold=np.zeros_like(problem.task.gold)))
    solution = run(Perceptron(), problem, 50)
    assert solution.history["mistakes"][0] == 0
    assert solution.history["mistakes"][1] > 0
    assert solution.status.converged
    assert brute_margin(problem, solution.weights) > 0


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_partly_known_labels_are_agreed_with(compiled: bool) -> None:
    problem = small_problem("perceptron", 3, ambiguous=True, n_features=10, compiled=compiled)
    solution = run(Perceptron(), problem, 2000)
    assert solution.status.converged
    assert "what is known" in solution.status.reason
    value, _ = problem.value_and_gradient(solution.weights)
    assert value == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "plain"])
def test_a_run_goes_on_from_its_state(compiled: bool) -> None:
    problem = small_problem("perceptron", 4, n_features=3, compiled=compiled)
    rng = np.random.default_rng(5)
    whole = Perceptron().start(problem, np.zeros(problem.dimension), rng)
    for _ in range(3):
        whole.step()
    rng = np.random.default_rng(5)
    state = None
    for _ in range(3):
        part = Perceptron().start(problem, np.full(problem.dimension, 9.0) * 0, rng, state=state)
        part.step()
        state = part.state
    np.testing.assert_array_equal(whole.weights, part.weights)
    assert whole.state.mistakes == part.state.mistakes


def test_what_it_cannot_do_is_said() -> None:
    rng = np.random.default_rng(0)
    problem = small_problem("margin")
    with pytest.raises(UnsupportedError, match="solver='sgd'"):
        Perceptron().start(problem, np.zeros(problem.dimension), rng)
    problem = small_problem("perceptron", 0)
    end_ok = np.ones(3, bool)
    end_ok[gold_of(problem, 2)[-1]] = False
    problem = problem.with_(penalties=Penalties.where_not(np.ones(3, bool), np.ones((3, 3), bool), end_ok))
    with pytest.raises(InfeasibleError, match="sequence"):
        run(Perceptron(), problem, 3)
