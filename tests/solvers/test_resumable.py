"""Runs are restored from what a file would hold of them, on every structure: no number is forgotten, and the
steps that follow are the same to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from codec_copy import through_codec
from small_problems import STRUCTURES, make
from trellis.core.errors import UnsupportedError
from trellis.solvers import (
    LBFGS,
    OWLQN,
    SAG,
    SGD,
    AdaGrad,
    Adam,
    CuttingPlane,
    FineTuning,
    FrankWolfe,
    MiniBatch,
    PassiveAggressive,
    Perceptron,
    Subgradient,
)
from trellis.solvers.resumable import Resumable

SOLVERS = [
    (LBFGS(tol=0.0), "log"),
    (LBFGS(start_passes=1), "log"),
    (OWLQN(tol=0.0, delta=0.0), "log"),
    (SAG(tol=0.0), "log"),
    (CuttingPlane(tol=0.0), "margin"),
    (CuttingPlane("n_slack", tol=0.0), "margin"),
    (FrankWolfe(tol=0.0, cache=2), "margin"),
    (FrankWolfe(tol=0.0, average=True), "slack"),
    (Subgradient(), "margin"),
    (SGD(), "log"),
    (AdaGrad(), "log"),
    (Adam(), "softmax_margin"),
    (Perceptron(), "perceptron"),
    (PassiveAggressive(), "margin"),
    (MiniBatch(batch_size=2), "log"),
    (FineTuning(batches=3), "margin"),
]


def numbers(run: Any) -> dict[str, Any]:
    """All numbers, words and truth values of a run, and of the resumable parts of it."""
    found: dict[str, Any] = {}
    for name in {**vars(run), **dict.fromkeys(run._all_kept())}:
        value = getattr(run, name)
        if isinstance(value, Resumable):
            found |= {f"{name}.{inner}": one for inner, one in numbers(value).items()}
        elif value is None or isinstance(value, bool | int | float | str | np.generic):
            found[name] = value
        elif isinstance(value, tuple | list) and all(isinstance(one, float | int) for one in value):
            found[name] = list(value)
        elif hasattr(value, "visits"):  # the state of an online solver
            found |= {f"{name}.{k}": v for k, v in vars(value).items() if not isinstance(v, np.ndarray)}
    found.pop("_answer", None)  # made when it is asked for
    found.pop("_latest_excess", None)  # of the evaluation under way
    return found


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize(("solver", "objective"), SOLVERS, ids=lambda one: str(getattr(one, "name", one)))
def test_a_restored_run_takes_the_same_steps(solver: Any, objective: str, structure: str) -> None:
    try:
        problem: Any = make(structure, objective, l2=0.0 if solver.name == "perceptron" else 0.5)
        start = np.full(problem.dimension, float(solver.name == "fine_tuning"))
        run = solver.start(problem, start.copy(), np.random.default_rng(1))
    except UnsupportedError as error:
        pytest.skip(str(error))
    for _ in range(5):
        run.step()
    copy = solver.start(problem, start.copy(), np.random.default_rng(2))
    stored = through_codec(run.snapshot())
    copy.restore(stored)
    assert numbers(copy) == numbers(run)
    np.testing.assert_array_equal(copy.weights, run.weights)
    assert copy.status() == run.status()
    # outside of compiled passes, a gradient of weighted values may differ in its last bit by where arrays lie
    rounding = 1e-12 if structure == "chains" else 0.0
    for _ in range(3):
        assert dict(copy.step()) == pytest.approx(dict(run.step()), rel=rounding, abs=rounding)
        np.testing.assert_allclose(copy.weights, run.weights, rtol=rounding, atol=rounding)
