"""Linear-Gaussian state-space models: Kalman filter and smoother, forecasts, EM."""

from __future__ import annotations

from trellis.estimators.kalman.linear_gaussian import Forecast, LinearGaussian, StateLaws
from trellis.estimators.kalman.stream import FilterStream, StateLaw

__all__ = ["FilterStream", "Forecast", "LinearGaussian", "StateLaw", "StateLaws"]
