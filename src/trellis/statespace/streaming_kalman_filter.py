"""The Kalman filter for one observation at a time, in constant memory.

Roots and gains are those of :mod:`trellis.statespace.kalman_kernels`, with the same steady-state shortcut:
once the covariance has settled, a step costs only its mean.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, NumericalError
from trellis.statespace.kalman_filter import new_work
from trellis.statespace.kalman_kernels import stream_step
from trellis.statespace.state_space import StateSpace


class StateEstimate(NamedTuple):
    """The state is N(mean, covariance).

    Examples
    --------
    >>> from trellis import LinearGaussian
    >>> walk = LinearGaussian(
    ...     1, 1, transition=[[1.0]], observation=[[1.0]], transition_noise=[[0.1]],
    ...     observation_noise=[[1.0]], initial_mean=[0.0], initial_covariance=[[1.0]],
    ... )
    >>> estimate = walk.streaming_filter().update([2.0])
    >>> estimate.mean.tolist(), estimate.covariance.round(3).tolist()
    ([1.0], [[0.5]])
    """

    mean: FloatArray
    covariance: FloatArray


class StreamingKalmanFilter:
    """``update`` takes x_t (and u_t) and returns mean and covariance of z_t given x_1 .. x_t.

    ``n_steps`` counts them, ``log_likelihood`` is log p(x_1 .. x_t).

    Examples
    --------
    >>> from trellis import LinearGaussian
    >>> walk = LinearGaussian(
    ...     1, 1, transition=[[1.0]], observation=[[1.0]], transition_noise=[[0.1]],
    ...     observation_noise=[[1.0]], initial_mean=[0.0], initial_covariance=[[1.0]],
    ... )
    >>> stream = walk.streaming_filter()
    >>> [stream.update([x]).mean.round(2).tolist() for x in (2.0, 2.0)]
    [[1.0], [1.38]]
    """

    def __init__(self, model: StateSpace) -> None:
        n, m = model.n_states, model.n_observations
        self.n_steps = 0
        self.log_likelihood = 0.0
        self._model, self._system = model, model.system()
        self._constant = all(len(a) == 1 for a in self._system[:4])
        self._moved = model.n_controls > 0 or any("offset" in name for name in model.time_varying())
        self._shift, self._drift_after = self._moves(np.zeros((1, model.n_controls)), 0)
        self._mean = self._system.mean.copy()
        self._predicted = self._system.root.copy()
        self._root, self._gain, self._innovation = np.empty((n, n)), np.empty((n, m)), np.empty((m, m))
        self._drift = np.zeros(n)
        self._state = np.array([0.0, -1.0, 0.0, 0.0])
        self._work = new_work(n, m)

    @property
    def steady(self) -> bool:
        """Whether the covariance has settled."""
        return bool(self._state[3])

    def update(self, observation: ArrayLike | None, control: ArrayLike | None = None) -> StateEstimate:
        """One step. NaN is a missing value; ``None`` in place of the observation: all are."""
        t = self.n_steps
        system = self._system
        y = self._observation(observation)
        u = self._control(control)
        self._check_time(t)
        if self._moved:
            self._shift, self._drift_after = self._moves(u, t)
        y -= self._shift
        before = max(t - 1, 0)
        gained = stream_step(
            y, self._drift, _at(system.A, before), _at(system.Q_root, before), _at(system.C, t),
            _at(system.R_root, t), self._constant, self._mean, self._predicted, self._root, self._gain,
            self._innovation, self._state, self._work,
        )  # fmt: skip
        if not np.isfinite(gained):
            raise NumericalError(
                f"step {t}: the observation has no density (no noise and a certain value), or the states "
                "grow beyond double precision; give observation_noise a positive variance"
            )
        self._drift = self._drift_after
        self.n_steps += 1
        self.log_likelihood += float(gained)
        return self.estimate()

    def estimate(self) -> StateEstimate:
        """Mean and covariance of the state after the last update (before the first: of the first state)."""
        root = self._root if self.n_steps else self._predicted
        return StateEstimate(self._mean.copy(), root @ root.T)

    def _moves(self, u: FloatArray, t: int) -> tuple[FloatArray, FloatArray]:
        """D u_t + d and B u_t + b."""
        step = np.array([t])
        return self._model.shift(u, step)[0], self._model.drift(u, step)[0]

    def _observation(self, observation: ArrayLike | None) -> FloatArray:
        m = self._model.n_observations
        if observation is None:
            return np.full(m, np.nan)
        if isinstance(observation, np.ma.MaskedArray):
            observation = np.ma.filled(observation.astype(np.float64), np.nan)
        try:
            y = np.array(observation, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError) as error:
            raise DataError(f"step {self.n_steps}: the observation must be {m} numbers ({error})") from error
        if len(y) != m:
            raise DataError(f"step {self.n_steps}: the observation has {len(y)} values, the model {m}")
        if np.isinf(y).any():
            raise DataError(f"step {self.n_steps}: the observation is infinite; write NaN if it is missing")
        return y

    def _control(self, control: ArrayLike | None) -> FloatArray:
        p = self._model.n_controls
        u = np.zeros((1, 0)) if control is None else np.array(control, dtype=np.float64).reshape(1, -1)
        if u.shape[1] != p or not np.isfinite(u).all():
            raise DataError(f"step {self.n_steps}: give control with {p} finite values")
        return u

    def _check_time(self, t: int) -> None:
        for name in self._model.time_varying():
            if t - name.startswith("transition") >= len(getattr(self._model, name)):
                raise DataError(f"step {t}: {name} is given for {len(getattr(self._model, name))} steps only")


def _at(array: FloatArray, t: int) -> FloatArray:
    entry: FloatArray = array[t if len(array) > 1 else 0]
    return entry
