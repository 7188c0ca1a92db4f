"""A chain problem as solvers see it: compiled batches, single examples and the oracle say the same."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from objective_references import EVERY, name_of
from small_chains import gold_of, labellings, loss_of_path, phi, small_problem
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.objectives import Objective

KINDS = [
    {},
    {"loss": "zero_one", "weighted": True},
    {"ambiguous": True, "edges": True},
    {"ambiguous": True, "loss": "zero_one"},
    {"observed": True, "constrained": True, "lengths": (3, 0, 1, 2)},
]


def weights_for(problem: Any, seed: int = 1) -> np.ndarray:
    return problem.layout.masked(np.random.default_rng(seed).normal(size=problem.dimension))


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("objective", EVERY, ids=name_of)
def test_examples_add_up_to_the_batch(objective: Objective, options: Any) -> None:
    problem = small_problem(objective, **options)
    weights = weights_for(problem)
    value, gradient = problem.value_and_gradient(weights)
    planes = [problem.example_plane(i, weights) for i in range(problem.n_examples)]
    assert sum(v for v, _ in planes) == pytest.approx(value)
    np.testing.assert_allclose(sum(g for _, g in planes), gradient, atol=1e-12)
    values, rows = problem.example_planes(weights)
    np.testing.assert_allclose(values, [v for v, _ in planes], atol=1e-12)
    np.testing.assert_allclose(rows.toarray(), [g for _, g in planes], atol=1e-12)
    first, last = problem.run_value_and_gradient(weights, 0, 2), problem.run_value_and_gradient(weights, 2, 4)
    np.testing.assert_allclose(first[1] + last[1], sum(g for _, g in planes[:4]), atol=1e-12)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("objective", [o for o in EVERY if o.for_oracles], ids=name_of)
def test_the_oracle_says_what_the_kernels_say(objective: Objective, options: Any) -> None:
    problem = small_problem(objective, **options)
    weights = weights_for(problem)
    for i in range(problem.n_examples):
        value, gradient = objective.value_and_gradient(problem.oracle(i, weights), problem.epsilon)
        c = problem.sample_weight[i]
        expected, direction = problem.example_plane(i, weights)
        assert c * value == pytest.approx(expected)
        np.testing.assert_allclose(c * gradient, direction, atol=1e-12)


@pytest.mark.parametrize("loss", ["hamming", "zero_one"])
def test_the_oracle_against_enumeration(loss: str) -> None:
    problem = small_problem("margin", loss=loss, constrained=True)
    weights = weights_for(problem)
    for i, scale in product(range(problem.n_examples), (0.0, 1.0, -0.4)):
        paths = labellings(problem, i)
        features = np.array([phi(problem, i, y) for y in paths])
        losses = np.array([loss_of_path(problem, i, y) for y in paths])
        totals = features @ weights + scale * losses
        oracle = problem.oracle(i, weights)
        best, everything = oracle.best(scale), oracle.sum(scale)
        top = int(np.argmax(totals))
        assert best.value == pytest.approx(totals[top])
        assert best.loss == losses[top]
        np.testing.assert_allclose(best.parts, features[top], atol=1e-12)
        p = np.exp(totals - totals.max())
        assert everything.value == pytest.approx(totals.max() + np.log(p.sum()))
        np.testing.assert_allclose(everything.parts, p @ features / p.sum(), atol=1e-9)
        gold = phi(problem, i, gold_of(problem, i))
        for answer in (oracle.gold_best(), oracle.gold_sum()):
            assert answer.value == pytest.approx(gold @ weights)
            np.testing.assert_allclose(answer.parts, gold, atol=1e-12)


@pytest.mark.parametrize("loss", ["hamming", "zero_one"])
def test_task_losses(loss: str) -> None:
    problem = small_problem("margin", loss=loss)
    weights = weights_for(problem)
    expected = [
        loss_of_path(problem, i, max(labellings(problem, i), key=lambda y, i=i: phi(problem, i, y) @ weights))
        for i in range(problem.n_examples)
    ]
    assert problem.task_losses(weights).tolist() == expected
    with pytest.raises(UnsupportedError, match="does not look at the loss"):
        small_problem("log").task_losses(weights)


def test_an_example_without_an_allowed_labelling_is_named() -> None:
    problem = small_problem("margin")
    nowhere = np.full_like(problem.penalties.transitions, -np.inf)
    problem = problem.with_(penalties=problem.penalties._replace(transitions=nowhere))
    weights = np.zeros(problem.dimension)
    for ask in (
        lambda: problem.example_plane(2, weights),
        lambda: problem.oracle(2, weights).best(0.0),
        lambda: problem.oracle(2, weights).sum(0.0),
        lambda: problem.oracle(2, weights).gold_best(),
    ):
        with pytest.raises(InfeasibleError, match="sequence 2 has no allowed labelling"):
            ask()
