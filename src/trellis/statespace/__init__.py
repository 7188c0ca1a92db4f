"""Linear-Gaussian state-space models: Kalman filter and smoother, forecasts, EM."""

from __future__ import annotations

from trellis.statespace.linear_gaussian import Forecast, LinearGaussian, StateEstimates
from trellis.statespace.streaming_kalman_filter import StateEstimate, StreamingKalmanFilter

__all__ = ["Forecast", "LinearGaussian", "StateEstimate", "StateEstimates", "StreamingKalmanFilter"]
