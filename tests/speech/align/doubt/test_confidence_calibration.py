"""Calibration recovers known probabilities, and leaves the posterior alone where it has seen little."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from trellis.core.errors import DataError
from trellis.speech.align.doubt.confidence_calibration import FEWEST, PRIOR, ConfidenceCalibration
from trellis.speech.align.doubt.ridge_logistic import fit_logistic, log_odds, sigmoid


@pytest.mark.parametrize(("offset", "slope"), [(0.0, 1.0), (-0.8, 0.6), (0.5, 1.6)])
def test_known_probabilities_are_recovered(offset: float, slope: float) -> None:
    rng = np.random.default_rng(0)
    share = rng.beta(3.0, 0.7, 200_000)
    true = sigmoid(offset + slope * log_odds(share, 1e-4))
    found = ConfidenceCalibration.fit(share, rng.random(len(true)) < true)
    np.testing.assert_allclose(found(share), true, atol=0.02)


@given(st.integers(0, 10**6), st.integers(0, 300))
def test_calibration_never_changes_the_order_and_stays_a_probability(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    found = ConfidenceCalibration.fit(rng.random(n), rng.random(n) < rng.random())
    share = np.concatenate([[0.0], np.sort(rng.random(30)), [1.0]])
    sure = found(share)
    assert ((sure > 0) & (sure < 1)).all()
    assert (np.diff(sure) >= 0).all()


def test_few_starts_leave_the_posterior_as_it_is() -> None:
    share = np.full(FEWEST - 1, 0.9)
    assert ConfidenceCalibration.fit(share, np.zeros(len(share), dtype=bool)) == ConfidenceCalibration()
    few, some, many = (
        ConfidenceCalibration.fit(np.full(n, 0.9), np.arange(n) % 2 == 0)(np.array([0.9]))[0]
        for n in (FEWEST, round(PRIOR), round(50 * PRIOR))
    )
    assert many == pytest.approx(0.5, abs=0.02)  # what was seen
    assert many < some < few < 0.9
    assert few > 0.85  # about what the posterior says


def test_a_calibration_that_falls_is_refused() -> None:
    with pytest.raises(DataError, match="it falls"):
        ConfidenceCalibration(0.0, -1.0)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 30))
def test_the_regression_is_the_minimum_of_its_objective(seed: int, width: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    x, right = 3.0 * rng.normal(size=(n, width)), rng.random(n) < 0.5
    counts, prior, penalty = rng.random(n), rng.normal(size=width), 0.1 + rng.random(width)

    def objective(w: np.ndarray) -> float:
        loss = np.logaddexp(0.0, np.where(right, -1.0, 1.0) * (x @ w))
        return float(counts @ loss + 0.5 * penalty @ (w - prior) ** 2)

    found = fit_logistic(x, right, counts, prior, penalty)
    assert objective(found) <= minimize(objective, prior).fun + 1e-7
