"""Fine-tuning: no unit of the features or of the loss is left in its steps; it says when nothing moves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import small_chains
from small_problems import STRUCTURES, make
from trellis.core.errors import DataError, UnsupportedError
from trellis.objectives import Direct
from trellis.solvers import LBFGS, FineTuning
from trellis.training.direct_recipe import typical_gap

CENTRAL = Direct(1.0, sign="central")


def trained(structure: str, seed: int = 5) -> tuple[Any, np.ndarray]:
    problem = make(structure, "log", seed)
    return make(structure, CENTRAL, seed, l2=0.0), small_chains.run(LBFGS(), problem).weights


def tune(problem: Any, weights: np.ndarray, passes: int = 5, **options: Any) -> Any:
    from trellis.training.driver import minimise

    solver = FineTuning(batches=3, **options)
    return minimise(solver, problem, weights.copy(), max_iter=passes, rng=np.random.default_rng(0))


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_value_falls(structure: str) -> None:
    problem, weights = trained(structure)
    problem = problem.with_(
        epsilon=3.0 * (typical_gap(problem, weights) or 1.0)
    )  # no tie with the gold output
    found = tune(problem, weights, 40)
    assert problem.value_and_gradient(found.weights)[0] < problem.value_and_gradient(weights)[0]
    assert set(found.history) >= {"pass_objective", "update_share", "relative_norm"}


@pytest.mark.parametrize("structure", STRUCTURES)
def test_doubled_scores_change_no_step(structure: str) -> None:
    """Twice the weights are twice the gaps: epsilon doubles, and so does every iterate."""
    problem, weights = trained(structure)
    gap = typical_gap(problem, weights)
    assert gap is not None
    assert typical_gap(problem, 2.0 * weights) == pytest.approx(2.0 * gap, rel=1e-9)
    one = tune(problem.with_(epsilon=gap), weights)
    two = tune(problem.with_(epsilon=2.0 * gap), 2.0 * weights)
    np.testing.assert_allclose(two.weights, 2.0 * one.weights, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_typical_gap_by_its_definition(structure: str) -> None:
    problem, weights = trained(structure, 7)
    ratios = []
    for i in range(problem.n_examples):
        oracle = problem.oracle(i, weights)
        best = oracle.best(0.0)
        if best.loss > 0:
            ratios.append((best.value - oracle.gold_best().value) / best.loss)
    assert typical_gap(problem, weights) == (pytest.approx(np.median(ratios)) if ratios else None)


def test_weights_of_zero_are_refused() -> None:
    problem, weights = trained("chains")
    with pytest.raises(UnsupportedError, match="in proportion to the weights that it starts from"):
        tune(problem, np.zeros_like(weights))
    for bad in ({"step": 0.0}, {"batches": 0}, {"passes": 0}, {"wide": -1.0}):
        with pytest.raises(DataError, match=next(iter(bad))):
            FineTuning(**bad)  # type: ignore[arg-type]


def test_nothing_left_to_learn_is_said() -> None:
    problem, weights = trained("chains")
    found = tune(problem.with_(epsilon=1e-9), weights)
    assert not found.status.converged
    assert "no example changes the weights any more" in found.status.reason
