"""The direct objective on every structure: f_eps lies between two losses, its gradient is a subgradient, and
its expectation is the gradient of the expected loss."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from small_problems import STRUCTURES, make
from trellis.core.errors import DataError
from trellis.objectives import Direct
from trellis.objectives.candidates import CandidateList

WIDTHS = [1e-3, 0.1, 1.0, 30.0]


def small(structure: str, seed: int) -> tuple[Any, np.ndarray]:
    problem = make(structure, Direct(1.0, sign="central"), seed, l2=0.0)
    return problem, np.random.default_rng(seed).normal(size=problem.dimension)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_value_lies_between_the_losses_of_two_outputs(structure: str) -> None:
    for seed in range(6):
        problem, weights = small(structure, seed)
        for i in range(problem.n_examples):
            oracle = problem.oracle(i, weights)
            predicted = oracle.best(0.0).loss
            for epsilon in WIDTHS:
                value, _ = problem.objective.value_and_gradient(oracle, epsilon)
                low, high = oracle.best(-epsilon).loss, oracle.best(epsilon).loss
                slack = 1e-9 * (1.0 + np.abs(oracle.best(0.0).value) / epsilon)
                assert low - slack <= value <= high + slack
                assert low - slack <= predicted <= high + slack


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_gradient_by_finite_differences(structure: str) -> None:
    """f_eps is piecewise linear, so that differences of either side agree but at kinks."""
    for seed in range(3):
        problem, weights = small(structure, seed)
        problem = problem.with_(epsilon=0.8)
        along = np.random.default_rng(seed + 100).normal(size=problem.dimension)
        value, gradient = problem.value_and_gradient(weights)
        h = 1e-7
        after, _ = problem.value_and_gradient(weights + h * along)
        before, _ = problem.value_and_gradient(weights - h * along)
        assert gradient @ along == pytest.approx((after - before) / (2 * h), rel=1e-5, abs=1e-6)
        assert np.isfinite(value)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_scaling_the_scores_and_epsilon_changes_nothing(structure: str) -> None:
    problem, weights = small(structure, 1)
    value, gradient = problem.with_(epsilon=0.5).value_and_gradient(weights)
    scaled, steeper = problem.with_(epsilon=5.0).value_and_gradient(10.0 * weights)
    assert scaled == pytest.approx(value, rel=1e-9)
    np.testing.assert_allclose(10.0 * steeper, gradient, atol=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_candidates_keep_the_inequality_and_the_gradient(seed: int) -> None:
    rng = np.random.default_rng(seed)
    losses = np.vstack([rng.integers(0, 4, (6, 3)), np.zeros((1, 3))]).astype(float)
    scores, along = rng.normal(size=(2, 7, 3))
    objective = Direct(1.0)

    def at(scores: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
        listed = CandidateList(np.zeros((7, 3), np.int32), scores, losses, scores[-1])
        return objective.over_candidates(listed, epsilon)

    every = np.arange(3)
    for epsilon in WIDTHS:
        values, coefficients = at(scores, epsilon)
        low, found, high = (losses[(scores + e * losses).argmax(0), every] for e in (-epsilon, 0.0, epsilon))
        slack = 1e-9 * (1.0 + np.abs(scores).max() / epsilon)
        assert (low - slack <= values).all()
        assert (values <= high + slack).all()
        assert (low <= found).all()
        assert (found <= high).all()
        h = 1e-8
        slope = (at(scores + h * along, epsilon)[0] - at(scores - h * along, epsilon)[0]) / (2 * h)
        np.testing.assert_allclose((coefficients * along).sum(0), slope, rtol=1e-4, atol=1e-6 / epsilon)


def test_the_expected_update_is_the_gradient_of_the_expected_loss() -> None:
    """x ~ N(mu, 1), two outputs with s(y) = w y x for y = +-1 and L = 1[y != 1]: the expected loss is P(w x <
    0), as a function of a shift b of the scores P(x < -b / (2 w)), whose slope is known."""
    rng = np.random.default_rng(0)
    n, w, b, epsilon = 400_000, 0.7, 0.3, 0.05
    x = rng.normal(0.4, 1.0, n)
    margin = 2.0 * w * x + b  # s(right) - s(wrong)
    worse, better = margin - epsilon < 0, margin + epsilon < 0  # whether y+ and y- are wrong
    # d margin / d b = 1, and an output that turns wrong lowers its own margin
    update = -(worse.astype(float) - better) / (2.0 * epsilon)
    at_zero = -b / (2.0 * w)
    density = np.exp(-0.5 * (at_zero - 0.4) ** 2) / np.sqrt(2.0 * np.pi) / (2.0 * w)
    error = update.std() / np.sqrt(n)
    assert abs(update.mean() + density) < 4 * error + 1e-3


def test_signs() -> None:
    assert Direct(sign="central").direction == 0.0
    with pytest.raises(DataError, match="give 'central', 'better' or 'worse'"):
        Direct(sign="both")  # type: ignore[arg-type]
