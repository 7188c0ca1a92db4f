"""The weights of the aligner under the direct objective: fine-tuned from the CRF's, whatever the scale."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from outlier_speech import outlier_speech
from trellis.core.errors import UnsupportedError
from trellis.objectives import Direct, Log
from trellis.solvers import FineTuning
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.learning.weight_training import train_weights
from trellis.structures.segments.problem.alignment_losses import TauAlignment, TauInsensitive
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.training.direct_recipe import typical_gap
from trellis.training.fit import Training

LOSS = TauAlignment(0.5)
TRAIN, HELD = outlier_speech(40, 0), outlier_speech(15, 1)


def trained(train: list[SegmentExample], held: list[SegmentExample], **options: Any) -> Training:
    aligner = Aligner(**{"max_iter": 6, "n_jobs": 1, **options})
    return train_weights(aligner, train, held, LOSS, lambda *measured: None)


def loss_of(weights: np.ndarray, examples: list[SegmentExample]) -> float:
    return SegmentProblem(examples, Log(), LOSS).mean_loss(weights)


def problem(examples: list[SegmentExample], **options: Any) -> SegmentProblem:
    return SegmentProblem(examples, Direct(epsilon="auto", sign="central"), LOSS, **options)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_fine_tuning_gets_over_outliers_that_mislead_the_likelihood(seed: int) -> None:
    """On utterances that no training saw. Epsilon searched among numbers does not get there."""
    train, held, new = (outlier_speech(n, 10 * seed + i) for i, n in enumerate((100, 40, 300)))
    tuned = trained(train, held, objective="direct", max_iter=20)
    likelihood = trained(train, held, objective="log")
    assert loss_of(tuned.solution.weights, new) < 0.6 * loss_of(likelihood.solution.weights, new)
    history = tuned.solution.history
    assert len(history["holdout_loss"]) == len(history["epsilon"]) == len(history["relative_norm"]) > 5
    assert min(history["holdout_loss"]) < loss_of(likelihood.solution.weights, held)
    assert history["epsilon"] == sorted(history["epsilon"], reverse=True)
    assert tuned.epsilon is not None
    assert 0.3 * tuned.epsilon <= history["epsilon"][-1] < history["epsilon"][0] < 3.0 * tuned.epsilon
    assert "all data" in tuned.solution.status.reason


def test_epsilon_has_the_scale_of_the_scores_and_not_that_of_the_features() -> None:
    tuned = {}
    for scale in (0.125, 1.0, 8.0):
        data = (outlier_speech(n, seed, scale=scale) for n, seed in ((40, 0), (15, 1)))
        tuned[scale] = trained(*data, objective="direct", l2=1e-3 * scale**2)
    usual = tuned[1.0]
    assert usual.epsilon is not None
    for scale, one in tuned.items():
        assert one.epsilon == pytest.approx(usual.epsilon, rel=1e-3)
        assert_allclose(scale * one.solution.weights, usual.solution.weights, rtol=1e-2)
        assert one.solution.history["holdout_loss"] == usual.solution.history["holdout_loss"]
    weights = np.array([1.0, 0.5])
    gap = typical_gap(problem(HELD), weights)
    assert gap is not None
    assert typical_gap(problem(HELD), 3.0 * weights) == pytest.approx(3.0 * gap)
    dearer = replace(problem(HELD), loss=_Dearer(0.5))
    assert typical_gap(dearer, weights) == pytest.approx(gap / 4.0)


class _Dearer(TauAlignment):
    """Four times the loss."""

    def of_error(self, error: Any) -> Any:
        return 4.0 * super().of_error(error)


def test_a_resumed_run_equals_an_uninterrupted_one() -> None:
    start, options = np.array([0.5, 2.0]), FineTuning(passes=6)
    data = problem(TRAIN, epsilon=2.0)
    whole = options.start(data, start, np.random.default_rng(3))
    for _ in range(6):
        whole.step()
    rng = np.random.default_rng(3)
    first = options.start(data, start, rng)
    for _ in range(2):
        first.step()
    rest = options.start(data, start, rng, first.state)
    measured = [dict(rest.step()) for _ in range(4)]
    assert_array_equal(rest.weights, whole.weights)
    assert measured[-1]["epsilon"] > 2.0 * 0.3
    assert not np.array_equal(whole.weights, start)


def test_the_result_does_not_depend_on_the_number_of_threads() -> None:
    one, three = (trained(TRAIN, HELD, objective="direct", n_jobs=n) for n in (1, 3))
    assert_array_equal(one.solution.weights, three.solution.weights)
    assert one.epsilon == three.epsilon


@pytest.mark.parametrize("sign", ["central", "better", "worse"])
@pytest.mark.parametrize("epsilon", ["auto", 3.0])
def test_every_sign_with_a_measured_and_with_a_fixed_epsilon(sign: Any, epsilon: Any) -> None:
    found = trained(TRAIN, HELD, objective=Direct(epsilon=epsilon, sign=sign, refit=False))
    likelihood = trained(TRAIN, HELD, objective="log")
    assert loss_of(found.solution.weights, HELD) <= loss_of(likelihood.solution.weights, HELD) + 1e-9
    assert found.epsilon == 3.0 or epsilon == "auto"


@pytest.mark.filterwarnings("ignore::trellis.training.fit.TrainingWarning")
def test_degenerate_starts_end_in_a_sentence() -> None:
    clean = [outlier_speech(n, seed, share=0.0, noise=0.0) for n, seed in ((20, 0), (10, 1))]
    right = trained(*clean, objective="direct")
    assert "right" in right.solution.status.reason
    assert loss_of(right.solution.weights, clean[1]) == 0.0
    senseless = [outlier_speech(n, seed, signal=0.0) for n, seed in ((20, 0), (10, 1))]
    wrong = trained(*senseless, objective="direct")
    assert wrong.epsilon is not None
    assert "hold-out loss" in wrong.solution.status.reason
    few = trained(TRAIN[:1], HELD[:1], objective="direct")
    assert "2 utterances are too few to choose how long to fine-tune" in few.solution.status.reason
    assert "'log'" in few.solution.status.reason
    assert few.epsilon is None
    both = trained([*TRAIN[:1], *HELD[:1]], HELD[:1], objective="log")
    assert_allclose(few.solution.weights, both.solution.weights)
    enough = trained(TRAIN[:7], HELD[:3], objective="direct")
    assert "too few" not in enough.solution.status.reason


def test_the_direct_objective_of_an_aligner_is_central_only_where_epsilon_is_measured() -> None:
    assert Aligner().objective_record() == Direct(epsilon="auto", sign="central")
    assert Aligner(epsilon=2.0).objective_record() == Direct(epsilon=2.0, sign="better")
    with pytest.raises(UnsupportedError, match="start='zero' has none"):
        Aligner(start="zero")._check()
    Aligner(start="zero", epsilon=1.0)._check()


def test_the_insensitive_loss_is_fine_tuned_as_well() -> None:
    loss = TauInsensitive(0.5)
    found = train_weights(Aligner(max_iter=6, n_jobs=1), TRAIN, HELD, loss, lambda *measured: None)
    start = train_weights(Aligner("log", n_jobs=1), TRAIN, HELD, loss, lambda *measured: None)
    held = SegmentProblem(HELD, Log(), loss)
    assert held.mean_loss(found.solution.weights) <= held.mean_loss(start.solution.weights)
