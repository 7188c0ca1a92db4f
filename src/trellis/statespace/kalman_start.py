"""The starting point of EM: given parameters are kept, the rest is estimated roughly.

With neither ``transition`` nor ``observation`` given, any invertible change of the states' coordinates gives
the same model, so the states are made from the data: principal components of windows x_t, ..., x_{t+l-1},
with l just long enough for n components to be there, scaled to unit variance. Transition, observation and
noises are the regressions between them. With one of the two given, the coordinates are the user's; the other
starts as 0.95 times the identity (transition) or at random (observation), with noises on the scale of the
data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.data.row_checks import check_observed, column_moments
from trellis.statespace.state_space import StateSpace
from trellis.statespace.time_series import TimeSeries

_RADIUS = 0.99  # the largest modulus of an eigenvalue of a guessed transition


def starting_point(
    given: dict[str, Any], data: TimeSeries, n_states: int, learn_offset: bool, rng: np.random.Generator
) -> StateSpace:
    """A complete model: ``given`` parameters as they are, rough estimates where they are ``None``."""
    values = data.values
    m = values.shape[1]
    missing = np.isnan(values)
    check_observed(missing.all(axis=1))
    means, variances = column_moments(values)
    guess: dict[str, Any] = {}
    if given["observation_offset"] is None and learn_offset:
        guess["observation_offset"] = means
    centred = np.where(missing, 0.0, values - means)
    variances = np.where(variances > 0.0, variances, max(variances.mean(), 1.0))
    if given["transition"] is None and given["observation"] is None:
        guess |= _from_windows(centred, data, n_states, variances, rng)
    else:
        guess |= _default_start(given, variances, n_states, rng)
    guess |= {name: value for name, value in given.items() if value is not None}
    return StateSpace.build({**given, **guess}, n_states, m, data.controls.shape[1])


def _default_start(
    given: dict[str, Any], variances: FloatArray, n: int, rng: np.random.Generator
) -> dict[str, FloatArray]:
    C = given["observation"]
    if C is None:
        C = rng.normal(size=(len(variances), n)) * np.sqrt(variances / n)[:, None]
    strength = float(np.mean(np.sum(np.square(C), axis=-1)))
    scale = float(variances.mean()) / strength if strength > 0.0 else 1.0
    return {
        "transition": 0.95 * np.eye(n),
        "observation": np.asarray(C, dtype=np.float64),
        "transition_noise": 0.1 * scale * np.eye(n),
        "observation_noise": 0.5 * np.diag(variances),
        "initial_mean": np.zeros(n),
        "initial_covariance": scale * np.eye(n),
    }


def _from_windows(
    centred: FloatArray, data: TimeSeries, n: int, variances: FloatArray, rng: np.random.Generator
) -> dict[str, FloatArray]:
    m = centred.shape[1]
    width = -(-n // m) + 1
    ends = np.repeat(data.offsets[1:], np.diff(data.offsets))
    at = np.flatnonzero(np.arange(len(centred)) + width <= ends)
    if len(at) <= n * width:
        nothing = dict.fromkeys(("transition", "observation"))
        return _default_start(nothing, variances, n, rng)
    windows = centred[at[:, None] + np.arange(width)].reshape(len(at), width * m)
    # the weakest components may be missing altogether: a little noise of full rank takes their place
    windows = windows + 1e-3 * np.sqrt(variances.mean()) * rng.normal(size=windows.shape)
    values, vectors = np.linalg.eigh(windows.T @ windows / len(at))
    states = windows @ (vectors[:, -n:] / np.sqrt(values[-n:]))
    follow = np.flatnonzero(np.diff(at) == 1)
    A, Q = _regress(states[follow], states[follow + 1])
    C, R = _regress(states, centred[at])
    radius = np.abs(np.linalg.eigvals(A)).max()
    return {
        "transition": A * min(1.0, _RADIUS / radius) if radius > 0.0 else A,
        "observation": C,
        "transition_noise": Q + 0.01 * np.eye(n),
        "observation_noise": R + 0.1 * np.diag(variances),
        "initial_mean": np.zeros(n),
        "initial_covariance": np.eye(n),
    }


def _regress(before: FloatArray, after: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Least squares after = W before + r, and the covariance of r."""
    W = np.asarray(np.linalg.lstsq(before, after, rcond=None)[0].T, dtype=np.float64)
    residual = after - before @ W.T
    return W, residual.T @ residual / max(len(residual), 1)
