"""Inference in linear-Gaussian sequences: states, likelihood, missing values, moments.

The work is a sum over shards of sequences, one thread each, and a shard goes through its sequences in blocks
of about ``BLOCK`` steps (or one longer sequence), which bounds the memory for what is kept per step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import NumericalError
from trellis.core.shards import over_shards, shard_bounds
from trellis.statespace.covariance_smoother_kernels import TameSystem, smooth_tame
from trellis.statespace.kalman_kernels import Slots, System, filter_shard, filtered_covariances
from trellis.statespace.kalman_missing_kernels import fill_missing
from trellis.statespace.kalman_moments_kernels import Moments, moments_shard
from trellis.statespace.kalman_smoother_kernels import (
    LAGGED,
    NOISE,
    STATES,
    Gains,
    Smoothed,
    smooth_shard,
)
from trellis.statespace.state_space import StateSpace
from trellis.statespace.tame_systems import tame_system
from trellis.statespace.time_series import TimeSeries

BLOCK = 1 << 15
RARE_GAPS = 500  # steps for one with a missing value, from which on roots that are kept are the faster way
_NOTHING = np.empty((0, 0, 0))
Work = tuple[FloatArray, FloatArray, FloatArray, IntArray, IntArray, FloatArray, FloatArray]


class States(NamedTuple):
    """``means`` (N, n), ``covariances`` (N, n, n), ``lagged`` (N, n, n) or ``None``: Cov(z_t, z_{t+1})."""

    means: FloatArray
    covariances: FloatArray
    lagged: FloatArray | None = None


class Expectations(NamedTuple):
    """log p(x) of all sequences, and the moments of the first state, the transition and the observation."""

    log_density: float
    first: Moments
    transition: Moments
    observation: Moments


class _Block(NamedTuple):
    """A run of sequences after the filter: what the kernels that follow need of it."""

    rows: slice
    offsets: IntArray
    y: FloatArray
    drift: FloatArray
    longest: int
    slots: Slots
    slot_of: IntArray
    means: FloatArray


class Kalman:
    """Inference with one model on one set of observations."""

    def __init__(self, model: StateSpace, data: TimeSeries, n_jobs: int = 1) -> None:
        model.check_lengths(np.diff(data.offsets))
        self._model, self._data, self._n_jobs = model, data, n_jobs
        self._system: System = model.system()
        self._drift = model.drift(data.controls, data.steps)
        shift = model.shift(data.controls, data.steps)
        self._y = np.ascontiguousarray(data.values - shift)
        self._shift = shift

    def log_densities(self) -> FloatArray:
        """log p(x) of each sequence."""
        log_densities = np.zeros(len(self._data.offsets) - 1)
        self._each_block(log_densities, lambda block: None)
        return log_densities

    def filter(self) -> States:
        """Mean and covariance of z_t given x_1 .. x_t."""
        n = self._model.n_states
        states = States(np.empty((len(self._y), n)), np.empty((len(self._y), n, n)))

        def keep(block: _Block) -> None:
            states.means[block.rows] = block.means
            filtered_covariances(block.slots.roots, block.slot_of, states.covariances[block.rows])

        self._each_block(np.empty(len(self._data.offsets) - 1), keep)
        return states

    def smooth(self, *, lagged: bool = False) -> States:
        """Mean and covariance of z_t given all of x."""
        n, rows = self._model.n_states, len(self._y)
        states = States(
            np.empty((rows, n)), np.empty((rows, n, n)), np.zeros((rows, n, n)) if lagged else None
        )

        def without_roots(first: int, last: int) -> bool:
            return not lagged and self._smooth_tame(first, last, states)

        def keep(block: _Block) -> None:
            lag = _NOTHING if states.lagged is None else states.lagged[block.rows]
            self._smooth(block, LAGGED if lagged else STATES, states.covariances[block.rows], lag)
            states.means[block.rows] = block.means

        self._each_block(np.empty(len(self._data.offsets) - 1), keep, unless=without_roots)
        return states

    def impute(self) -> tuple[FloatArray, FloatArray]:
        """E[x_t | all that is observed] (N, m), and its covariance (N, m, m), zero where x is observed."""
        states = self.smooth()
        m, system = self._model.n_observations, self._system
        filled, spreads = np.empty(self._y.shape), np.empty((len(self._y), m, m))
        fill_missing(
            self._y, self._data.offsets, system.C, system.R_root, states.means, states.covariances,
            filled, spreads,
        )  # fmt: skip
        values = self._data.values
        return np.where(np.isnan(values), filled + self._shift, values), spreads

    def observation_distribution(self, states: States) -> tuple[FloatArray, FloatArray]:
        """Mean C m + D u + d and covariance C P C' + R of x_t where z_t is distributed as ``states``."""
        model, steps = self._model, self._data.steps
        C, R = (
            a if a.ndim == 2 else a[np.minimum(steps, len(a) - 1)]
            for a in (model.observation, model.observation_noise)
        )
        means = np.matmul(C, states.means[..., None])[..., 0] + self._shift
        return means, C @ states.covariances @ np.swapaxes(C, -1, -2) + R

    def expectations(self) -> Expectations:
        """The E-step: moments of the three regressions, with residuals under this model."""
        n, m, q = self._model.n_states, self._model.n_observations, self._data.controls.shape[1]
        log_densities = np.zeros(len(self._data.offsets) - 1)

        def add(block: _Block) -> tuple[Moments, ...]:
            smoothed, stage_of, noises = self._smooth(block, NOISE, _NOTHING, _NOTHING)
            terms = _no_moments(n, 1), _no_moments(n, n + q + 1), _no_moments(m, n + q + 1)
            moments_shard(
                block.y, self._data.controls[block.rows], block.offsets, self._system, smoothed, stage_of,
                block.means, noises, *terms,
            )  # fmt: skip
            return terms

        parts = self._each_block(log_densities, add)
        sums = [
            Moments(*(np.sum(arrays, axis=0) for arrays in zip(*terms, strict=True)))
            for terms in zip(*parts, strict=True)
        ]
        return Expectations(float(log_densities.sum()), *sums)

    def _each_block(
        self,
        log_densities: FloatArray,
        then: Callable[[_Block], object],
        unless: Callable[[int, int], bool] = lambda first, last: False,
    ) -> list[object]:
        """Filter block by block, ``unless`` it has been answered, and hand each on; the answers come back in
        the order of the sequences."""
        offsets = self._data.offsets

        def work(first: int, last: int) -> list[object]:
            answers = []
            for a, b in _blocks(offsets, first, last):
                if unless(a, b):
                    continue
                block, failed = self._filter(a, b, log_densities[a:b])
                _check(log_densities[a:b], failed, a)
                answers.append(then(block))
            return answers

        return [answer for answers in over_shards(work, offsets, self._n_jobs) for answer in answers]

    def _filter(self, first: int, last: int, log_densities: FloatArray) -> tuple[_Block, IntArray]:
        offsets = self._data.offsets[first : last + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        offsets = offsets - offsets[0]
        n, m = self._model.n_states, self._model.n_observations
        longest = int(np.diff(offsets).max(initial=0))
        y = self._y[rows]
        drift = self._drift if len(self._drift) == 1 else self._drift[rows]
        slots = Slots(
            np.empty((longest + len(y), n, n)),  # pages that are never written cost nothing
            np.empty((longest + 1, n, m)),
            np.empty((longest + 1, m, m)),
            np.empty(longest + 1),
            np.zeros(2, np.int64),
        )
        means, slot_of, failed = np.empty((len(y), n)), np.empty(len(y), np.int64), np.full(2, -1)
        filter_shard(
            y, drift, offsets, self._system, longest, slots, new_work(n, m), means, slot_of, log_densities,
            failed,
        )  # fmt: skip
        return _Block(rows, offsets, y, drift, longest, slots, slot_of, means), failed

    @cached_property
    def _tame(self) -> TameSystem | None:
        return tame_system(self._model)

    def _smooth_tame(self, first: int, last: int, states: States) -> bool:
        """Smooth a block on covariances, if so many steps have gaps that no slot of roots serves for long;
        False where that was not done."""
        offsets = self._data.offsets[first : last + 1]
        rows = slice(int(offsets[0]), int(offsets[-1]))
        y = self._y[rows]
        if np.isnan(y).any(axis=1).sum() * RARE_GAPS < len(y):
            return False
        tame = self._tame
        if tame is None:
            return False
        drift = self._drift if len(self._drift) == 1 else self._drift[rows]
        shape = int(np.diff(offsets).max()), *tame.C.shape
        kept = np.empty(shape), np.empty(shape), np.empty((shape[0], y.shape[1]))
        means, covariances = states.means[rows], states.covariances[rows]
        return bool(smooth_tame(y, drift, offsets - offsets[0], tame, kept, means, covariances) < 0)

    def _smooth(
        self, block: _Block, mode: int, covariances: FloatArray, lagged: FloatArray
    ) -> tuple[Smoothed, IntArray, FloatArray]:
        """Turns ``block.means`` into smoothed ones."""
        n = self._model.n_states
        rows = len(block.y) if mode == NOISE else 0
        shape = block.longest + 1, 2 * n if mode == NOISE else n, n
        gains = Gains(np.empty(shape), np.empty(shape), np.zeros(block.longest, np.uint8))
        smoothed = Smoothed(*(np.empty((rows or 2, n, n)) for _ in range(4)))
        stage_of, noises = np.empty(rows, np.int64), np.zeros((rows, n))
        smooth_shard(
            block.drift, block.offsets, self._system, block.slots.roots, block.slot_of, gains, mode, smoothed,
            block.means, stage_of, noises, covariances, lagged,
        )  # fmt: skip
        return smoothed, stage_of, noises


def new_work(n: int, m: int) -> Work:
    """Scratch of the filter."""
    size = max(n + m, 2 * n)
    return (
        np.empty((size, size)),
        np.empty((n, n)),
        np.empty((n, n)),
        np.empty(m, np.int64),
        np.empty(size, np.int64),
        np.empty(m),
        np.empty(n),
    )


def _no_moments(k: int, q: int) -> Moments:
    return Moments(np.zeros(1), np.zeros((k, k)), np.zeros((k, q)), np.zeros((q, q)))


def _blocks(offsets: IntArray, first: int, last: int) -> Iterator[tuple[int, int]]:
    local = offsets[first : last + 1] - offsets[first]
    for a, b in shard_bounds(local, -(-int(local[-1]) // BLOCK) or 1):
        yield first + a, first + b


def _check(log_densities: FloatArray, failed: IntArray, first: int) -> None:
    if failed[0] >= 0:
        raise NumericalError(
            f"sequence {first + failed[0]}, step {failed[1]}: the observation has no noise and its value is "
            "already certain, so it has no density; give observation_noise a positive variance"
        )
    if not np.isfinite(log_densities).all():
        bad = first + int(np.argmin(np.isfinite(log_densities)))
        raise NumericalError(
            f"sequence {bad}: its states grow without bound or its observations are too far off for "
            "double precision; check the eigenvalues of transition, and scale the data"
        )
