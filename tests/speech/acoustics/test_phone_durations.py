"""Durations against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from trellis.speech.acoustics.phone_durations import AT_LEAST, PRIOR, SLACK, DurationModel


def test_durations_are_shrunken_gaussians() -> None:
    kinds, seconds = (
        [np.array([0, 0, 1]), np.array([2, 0])],
        [np.array([0.1, 0.2, 0.05]), np.array([1.0, 0.3])],
    )
    model = DurationModel.fit(kinds, seconds, np.array([False, False, True, False]))
    overall = np.mean([0.1, 0.2, 0.05, 0.3])
    assert model.mean[0] == pytest.approx((0.6 + PRIOR * overall) / (3 + PRIOR))
    assert model.mean[3] == pytest.approx(overall)  # never seen
    assert model.longest[0] == pytest.approx(max(SLACK * 0.3, AT_LEAST))
    assert np.isinf(model.longest[2])
    tables = model.tables(0.01, 40)
    length = 0.01 * 17
    constant = -0.5 * np.log(2 * np.pi)
    assert tables[0, 1, 17] + constant == pytest.approx(
        norm.logpdf(length, model.mean[1], model.deviation[1])
    )
    assert tables[1, 1, 17] + constant == pytest.approx(
        norm.logpdf(np.log(length), model.log_mean[1], model.log_deviation[1])
    )
    assert (tables[:, 2] == 0).all()
    low, high = model.limits(np.array([0, 2]), 0.01, 500, 0.02)
    assert low.tolist() == [2, 2]
    assert high.tolist() == [round(100 * model.longest[0]), 500]
