"""Linear-Gaussian state-space models: Kalman filter and smoother, forecasts, EM."""

from __future__ import annotations

from trellis.statespace.kalman_stream import FilterStream, StateLaw
from trellis.statespace.linear_gaussian import Forecast, LinearGaussian, StateLaws

__all__ = ["FilterStream", "Forecast", "LinearGaussian", "StateLaw", "StateLaws"]
