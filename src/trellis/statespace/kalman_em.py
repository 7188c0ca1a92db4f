"""EM for linear-Gaussian models, run as a DC algorithm with both certificates.

The logarithm of p(x, z) is a sum of three regressions (:mod:`trellis.statespace.kalman_moments_kernels`); for
N terms with residuals r of covariance V and regressors w it expects, when the coefficients move by Delta,

    - N/2 log det(2 pi V) - 1/2 tr V^-1 S(Delta)
    S(Delta) = E[r r'] - Delta E[w r'] - E[r w'] Delta' + Delta E[w w'] Delta'        (sums over the terms)

The maximum over the coefficients that are learned does not depend on V: Delta = E[r w'] E[w w']^-1, on
their columns; coefficients that are not learned stay in the residual. Then V = S(Delta) / N. Subject to "no
eigenvalue below ``min_variance``", which keeps the likelihood bounded, the best V has the eigenvalues of
S(Delta) / N raised to that bound. Each M-step is thus exact, for any choice of what is learned.

As a DC programme (``algorithm``): u are the parameters, v the expected moments, <u, v> is the
expectation above, h(u) = log p(x), and g(u) = 0, since the model is normalised for any u. So the primal is
-log p(x | u_t) and the dual minus the evidence lower bound between the E-step at u_t and u_{t+1}. A
regression of which nothing is learned is the same on both sides and is left out.

Moments are sums over sequences: of data in shards, parameters go out and sums of moments come back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.sequence_shards.sequence_shard import SequenceShard
from trellis.data.sequence_shards.sharded_sequences import ShardedSequences
from trellis.statespace.kalman_filter import Expectations, Kalman
from trellis.statespace.kalman_moments_kernels import Moments
from trellis.statespace.state_space import SHAPES, StateSpace
from trellis.statespace.time_series import TimeSeries, shard_series

_RESOLVED = (
    1e-13  # of the largest eigenvalue of a covariance: less is rounding, which a filter takes for none
)
_COLLINEAR = 1e-12  # directions of the regressors with less of their (scaled) second moment are left alone


class Term(NamedTuple):
    """One regression: its coefficients in the order of the regressors (z, u, 1), and its noise."""

    coefficients: tuple[str, ...]
    noise: str


TERMS = (
    Term(("initial_mean",), "initial_covariance"),
    Term(("transition", "transition_control", "transition_offset"), "transition_noise"),
    Term(("observation", "observation_control", "observation_offset"), "observation_noise"),
)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Expected moments, and the parameters that their residuals are of."""

    moments: Expectations
    reference: StateSpace


@dataclass(frozen=True, eq=False)
class EM:
    """The DC problem of fitting ``learn`` to ``data``."""

    data: TimeSeries | ShardedSequences
    learn: frozenset[str]
    min_variance: float
    n_jobs: int

    def g(self, u: StateSpace) -> float:
        """Zero: the model is normalised."""
        return 0.0

    def h(self, u: StateSpace) -> tuple[float, Statistics]:
        """The E-step: log p(x) and the expected moments."""
        if isinstance(self.data, ShardedSequences):
            moments: Any = self.data.shards.total(shard_moments, u)
        else:
            moments = Kalman(u, self.data, self.n_jobs).expectations()
        return moments.log_density, Statistics(moments, u)

    def g_conjugate(self, v: Statistics) -> tuple[float, StateSpace]:
        """The M-step: the largest expectation, and the parameters that reach it."""
        u = v.reference
        for term, moments in self._learned(v):
            u = maximise(u, term, moments, self.learn, self.min_variance)
        return self.inner(u, v), u

    def inner(self, u: StateSpace, v: Statistics) -> float:
        """The expectation of log p(x, z) under ``u``, from the moments."""
        return sum(expectation(u, v.reference, term, moments) for term, moments in self._learned(v))

    def magnitude(self, u: StateSpace, v: Statistics) -> float:
        """The sizes of the terms of :meth:`inner` that may cancel."""
        return sum(size_of_terms(u, v.reference, term, moments) for term, moments in self._learned(v))

    def _learned(self, v: Statistics) -> list[tuple[Term, Moments]]:
        pairs = zip(TERMS, v.moments[1:], strict=True)
        return [
            (term, moments)
            for term, moments in pairs
            if moments.terms[0] > 0 and self.learn & {*term.coefficients, term.noise}
        ]


def shard_moments(shard: SequenceShard, u: StateSpace) -> Expectations | None:
    """The moments of one shard; None where it has no steps."""
    return Kalman(u, shard_series(shard), 1).expectations() if shard.n_steps else None


def expectation(u: StateSpace, reference: StateSpace, term: Term, moments: Moments) -> float:
    """- N/2 log det(2 pi V) - 1/2 tr V^-1 S(Delta)."""
    change = _stacked(u, term) - _stacked(reference, term)
    V = getattr(u, term.noise)
    log_det = np.linalg.slogdet(2.0 * np.pi * V)[1]
    distance = np.trace(np.linalg.solve(V, _residual(moments, change)))
    return float(-0.5 * (moments.terms[0] * log_det + distance))


def size_of_terms(u: StateSpace, reference: StateSpace, term: Term, moments: Moments) -> float:
    """1/2 sum |V^-1| (|E[r r']| + ...): the distance of :func:`expectation`, with the sizes of all that it
    adds up. It is far larger than the distance where V is nearly singular."""
    change = np.abs(_stacked(u, term) - _stacked(reference, term))
    crossed = change @ np.abs(moments.rw).T
    sizes = np.abs(moments.rr) + crossed + crossed.T + change @ np.abs(moments.ww) @ change.T
    return float(0.5 * np.sum(np.abs(np.linalg.inv(getattr(u, term.noise))) * sizes))


def maximise(
    u: StateSpace, term: Term, moments: Moments, learn: frozenset[str], min_variance: float
) -> StateSpace:
    """The parameters of one regression that maximise its expectation."""
    widths = [_width(u, name) for name in term.coefficients]
    learned = np.repeat([name in learn for name in term.coefficients], widths)
    change = np.zeros(moments.rw.shape)
    change[:, learned] = _solve(moments.ww[np.ix_(learned, learned)], moments.rw[:, learned])
    parts = np.split(change, np.cumsum(widths)[:-1], axis=1)
    changed = {
        name: getattr(u, name) + part.reshape(getattr(u, name).shape)
        for name, part in zip(term.coefficients, parts, strict=True)
        if name in learn
    }
    if term.noise in learn:
        changed[term.noise] = _floor_eigenvalues(_residual(moments, change) / moments.terms[0], min_variance)
    return replace(u, **changed)


def check_learnable(model: StateSpace, learn: frozenset[str], min_variance: float) -> None:
    """EM can move what it is asked to move."""
    varying = model.time_varying()
    for name in sorted(learn):
        if getattr(model, name).size == 0:
            raise UnsupportedError(f"{name} cannot be learned without controls; pass controls= to fit")
        if name in varying:
            raise UnsupportedError(f"{name} varies with time and cannot be learned; leave it out of learn")
    for term in TERMS:
        moved = sorted(learn & {*term.coefficients})
        V = getattr(model, term.noise)
        if moved and term.noise in varying:
            raise UnsupportedError(
                f"{moved[0]} cannot be learned while {term.noise} varies with time; "
                f"leave it out of learn, or give a constant {term.noise}"
            )
        if not moved and term.noise not in learn:
            continue
        least = float(np.linalg.eigvalsh(V)[0])
        if term.noise in learn and least < min_variance * (1.0 - 1e-6):
            raise DataError(
                f"{term.noise} starts with an eigenvalue of {least:.3g}, below min_variance={min_variance:g};"
                " start higher, lower min_variance, or leave it out of learn"
            )
        if term.noise not in learn and least <= 1e-14 * np.abs(V).max():
            raise UnsupportedError(
                f"{moved[0]} cannot be learned while {term.noise} is singular: EM cannot move what has no "
                f"noise; give {term.noise} a positive variance, or leave {moved[0]} out of learn"
            )


def extent(data: TimeSeries | ShardedSequences) -> tuple[int, int]:
    """The number of steps of which something is observed, and the length of the longest sequence."""
    if isinstance(data, ShardedSequences):
        found = data.shards.ask(shard_extent)
        return sum(steps for steps, _ in found), max(longest for _, longest in found)
    return int((~np.isnan(data.values)).any(axis=1).sum()), int(data.lengths.max(initial=0))


def shard_extent(shard: SequenceShard) -> tuple[int, int]:
    return extent(shard_series(shard))


def check_enough(data: TimeSeries | ShardedSequences, learn: frozenset[str]) -> None:
    """There are steps to learn the transitions from, and more than one to learn the noise of observations
    from: the offset alone would explain a single one."""
    steps, longest = extent(data)
    if steps < 2 and "observation_noise" in learn:
        raise DataError(
            "X has one observed step, from which no observation_noise can be learned; give more steps, or "
            "leave it out of learn"
        )
    _, transition, _ = TERMS
    moved = sorted(learn & {*transition.coefficients, transition.noise})
    if moved and longest < 2:
        raise DataError(
            f"no sequence of X has two steps, so {moved[0]} cannot be learned; give longer sequences, or "
            f"leave {', '.join(moved)} out of learn"
        )


def learnable_parameters(model: StateSpace) -> frozenset[str]:
    """What "all" means for a model: whatever is constant and there."""
    absent = {name for name, array in model.arrays().items() if array.size == 0}
    return frozenset(SHAPES) - {*model.time_varying()} - absent


def floor_covariances(model: StateSpace, names: frozenset[str], min_variance: float) -> StateSpace:
    """The model with the eigenvalues of the named covariances raised to ``min_variance``."""
    return replace(model, **{name: _floor_eigenvalues(getattr(model, name), min_variance) for name in names})


def _width(u: StateSpace, name: str) -> int:
    return int(getattr(u, name).shape[-1]) if len(SHAPES[name][1]) == 2 else 1


def _stacked(u: StateSpace, term: Term) -> FloatArray:
    """The coefficients side by side; those that vary with time are never learned: zeros stand for them."""
    rows = getattr(u, term.noise).shape[-1]
    parts = []
    for name in term.coefficients:
        array, width = getattr(u, name), _width(u, name)
        constant = array.ndim == len(SHAPES[name][1])
        parts.append(array.reshape(rows, width) if constant else np.zeros((rows, width)))
    return np.concatenate(parts, axis=1)


def _residual(moments: Moments, change: FloatArray) -> FloatArray:
    """S(Delta)."""
    crossed = change @ moments.rw.T
    total: FloatArray = moments.rr - crossed - crossed.T + change @ moments.ww @ change.T
    return 0.5 * (total + total.T)


def _solve(ww: FloatArray, rw: FloatArray) -> FloatArray:
    """rw ww^-1. Collinear regressors (a control that is constant, next to an offset) share the least change:
    the maximum is the same along them.
    """
    scale = np.sqrt(np.diag(ww))
    scale = np.where(scale > 0.0, scale, 1.0)
    values, vectors = np.linalg.eigh(ww / np.outer(scale, scale))
    kept = values > _COLLINEAR * (values[-1] if len(values) else 0.0)
    vectors = vectors[:, kept] / scale[:, None]
    solved: FloatArray = (rw @ vectors / values[kept]) @ vectors.T
    return solved


def _floor_eigenvalues(V: FloatArray, min_variance: float) -> FloatArray:
    """V with its eigenvalues raised to ``min_variance``, and to what double precision resolves next to the
    largest."""
    values, vectors = np.linalg.eigh(V)
    least = max(min_variance, _RESOLVED * float(values[-1]))
    if values[0] >= least:
        return V
    raised: FloatArray = (vectors * np.maximum(values, least)) @ vectors.T
    return 0.5 * (raised + raised.T)
