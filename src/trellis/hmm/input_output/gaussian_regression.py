"""Vectors: x_t given z_t = k and u_t is normal with mean V[k] [u_t, 1] and covariance C[k], "diag" or "full".

The penalty is that of a normal prior on the slopes, on the scale of the noise,

    log prior = - (l2 / 2) sum_k trace( C[k]^-1 S[k] S[k]^T ),      S[k] the slopes of V[k],

because the M-step is then one weighted least-squares problem, in closed form: with r = x - V u the residuals
under the old V, and q the posterior of state k,

    V += ( sum q r u^T - l2 [S, 0] ) ( sum q u u^T + l2 diag(1, ..., 1, 0) )^-1
    C  = ( sum q (x - V u)(x - V u)^T + l2 S S^T ) / sum q       (eigenvalues not below min_variance)

Regressing residuals in place of x loses no digits however large x is. Missing entries (NaN): with a diagonal
covariance each column is treated separately. With a full one it is exact EM: missing entries take their
conditional mean given the observed ones, and their conditional covariance is added to the scatter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arguments import check_choice, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.core.weighted_counts import NO_WEIGHT
from trellis.data.row_checks import check_rows
from trellis.hmm.emissions import Gaussian, Statistics
from trellis.hmm.emissions.covariance import (
    CovariancePrior,
    check_covariances,
    covariance_shape,
    matrices_from_scatter,
    variances_from_scatter,
)
from trellis.hmm.emissions.emission_checks import freeze_array, required
from trellis.hmm.input_output.conditional_emission import (
    ConditionalEmission,
    Forecast,
    WeightedData,
    perturb,
)
from trellis.hmm.input_output.regression_searches import Search

MOMENTS = "moments"  # a request for them; other requests are weights, and ask for their scatter


@register
@dataclass(frozen=True, eq=False)
class GaussianRegression(ConditionalEmission):
    """``weights`` (K, D, n_inputs + 1), the intercept last; ``covariances`` "diag" (K, D), "full" (K, D, D).

    ``l2`` is the weight of the penalty on slopes; no variance in any direction falls below ``min_variance``.

    Examples
    --------
    >>> from trellis.hmm.input_output import GaussianRegression
    >>> emission = GaussianRegression(covariances=[[1.0]], weights=[[[2.0, 0.5]]])
    >>> emission.weights.shape
    (1, 1, 2)
    """

    covariance: str = "diag"
    l2: float = 0.0
    min_variance: float = 1e-6
    covariances: FloatArray | None = None

    def __post_init__(self) -> None:
        check_choice("covariance", self.covariance, ("diag", "full"))
        check_nonnegative("l2", self.l2)
        check_nonnegative("min_variance", self.min_variance)
        if (self.weights is None) != (self.covariances is None):
            raise DataError("weights and covariances belong together; give both or neither")
        super().__post_init__()
        if self.covariances is not None:
            covariances = freeze_array(self, "covariances", ndim=2 if self.covariance == "diag" else 3)
            shape = covariance_shape(self.covariance, *self._weights.shape[:2])
            check_covariances(self.covariance, covariances, shape)

    @property
    def _covariances(self) -> FloatArray:
        """The covariances, which must have been given or fitted."""
        return required(self, self.covariances)

    @cached_property
    def _noises(self) -> list[Gaussian]:
        """The noise of each state: a Gaussian with mean 0."""
        zero = np.zeros((1, self._weights.shape[1]))
        return [Gaussian(self.covariance, zero, covariance[None]) for covariance in self._covariances]

    def without_parameters(self) -> GaussianRegression:
        return replace(self, weights=None, covariances=None)

    def check(self, values: NDArray[Any]) -> NDArray[Any]:
        return check_rows(values, None if self.weights is None else self.weights.shape[1])

    def missing(self, n: int) -> NDArray[Any]:
        return np.full((n, self._weights.shape[1]), np.nan)

    def log_likelihood(self, values: NDArray[Any], features: FloatArray) -> FloatArray:
        out = np.empty((len(values), len(self._weights)))
        for k, noise in enumerate(self._noises):
            out[:, k] = noise.log_likelihood(values - features @ self._weights[k].T)[:, 0]
        return out

    def expected_log_likelihood(self, given: WeightedData) -> float:
        if self.covariance == "diag":
            return super().expected_log_likelihood(given)
        total = 0.0
        for k, noise in enumerate(self._noises):
            x, q, uncertain = _completed(given, k)
            second = _scatter(x - given.features @ self._weights[k].T, q) + uncertain
            total += noise.expected_log_likelihood(_centred(q.sum(), second))
        return total

    def search(self, k: int) -> Search:
        """Moments under the old weights give the new ones, and these the scatter: (weights, scatter, weight).

        With "diag" each column counts the rows that have it: weights (D, P), scatter and weight (D,)."""
        weights = self._weights[k].copy()
        total, moments, against = yield MOMENTS
        if self.covariance == "diag":
            for d in np.flatnonzero(total > NO_WEIGHT):
                weights[d] += self._least_squares(moments[d], against[d][None], weights[d : d + 1])[0]
        elif total > NO_WEIGHT:
            weights += self._least_squares(moments, against, weights)
        scatter = yield weights
        slopes = weights[:, :-1]
        penalty = (slopes**2).sum(axis=1) if self.covariance == "diag" else slopes @ slopes.T
        return weights, scatter + self.l2 * penalty, total

    def sums(self, given: WeightedData, k: int, request: FloatArray | str) -> Any:
        """For MOMENTS the weight of rows, sum q u u^T and sum q r u^T; for weights (D, P) their scatter."""
        if self.covariance == "diag":
            return self._diagonal_sums(given, k, request)
        x, q, uncertain = _completed(given, k)
        if not isinstance(request, str):
            return _scatter(x - given.features @ request.T, q) + uncertain
        heavy = q[:, None] * given.features
        residuals = x - given.features @ self._weights[k].T
        return q.sum(), heavy.T @ given.features, residuals.T @ heavy

    def _diagonal_sums(self, given: WeightedData, k: int, request: FloatArray | str) -> Any:
        """The same for each column, by itself."""
        seen = ~np.isnan(given.values)
        values, q, features = np.where(seen, given.values, 0.0), given.posterior[:, k], given.features
        if not isinstance(request, str):
            return q @ ((values - features @ request.T) * seen) ** 2
        total = q @ seen
        n, width = values.shape[1], features.shape[1]
        moments, against = np.zeros((n, width, width)), np.zeros((n, width))
        if seen.all():
            moments[:] = (q[:, None] * features).T @ features
        for d in np.flatnonzero(total > NO_WEIGHT):
            q_d = q * seen[:, d]
            if not seen.all():
                moments[d] = (q_d[:, None] * features).T @ features
            against[d] = (q_d * (values[:, d] - features @ self._weights[k, d])) @ features
        return total, moments, against

    def assembled(self, found: list[Any]) -> GaussianRegression:
        table, scatter, weight = (np.stack(parts) for parts in zip(*found, strict=True))
        prior = CovariancePrior(0.0, 1.0, self.min_variance)
        m_step = matrices_from_scatter if self.covariance == "full" else variances_from_scatter
        spread = m_step(self.covariance, scatter, weight, prior, self._covariances)
        return replace(self, weights=table, covariances=spread)

    def _least_squares(self, moments: FloatArray, against: FloatArray, weights: FloatArray) -> FloatArray:
        """The change of ``weights`` (D, P); the shortest one where inputs do not determine it."""
        ridge = np.full(len(moments), self.l2)
        ridge[-1] = 0.0
        matrix, right = moments + np.diag(ridge), against - ridge * weights
        scale = 1.0 / np.sqrt(np.where(np.diagonal(matrix) > 0, np.diagonal(matrix), 1.0))
        solved = np.linalg.lstsq(matrix * scale * scale[:, None], (right * scale).T, rcond=1e-13)[0]
        return np.asarray(solved.T * scale)

    def magnitude(self, weight: FloatArray) -> float:
        """That of the scatter weight C, to which the actual one is close."""
        if self.covariance == "diag":
            return 0.0
        return sum(
            noise.magnitude(_centred(w, w * covariance))
            for noise, w, covariance in zip(self._noises, weight, self._covariances, strict=True)
        )

    def log_prior(self) -> float:
        slopes = self._weights[:, :, :-1]
        if self.covariance == "diag":
            return -0.5 * self.l2 * float((slopes**2 / self._covariances[:, :, None]).sum())
        return -0.5 * self.l2 * float(np.vdot(slopes, np.linalg.solve(self._covariances, slopes)))

    def initialise(
        self, values: NDArray[Any], features: FloatArray, n_states: int, rng: np.random.Generator
    ) -> GaussianRegression:
        seen = ~np.isnan(values)
        if not seen.any(axis=0).all():
            column = int(np.flatnonzero(~seen.any(axis=0))[0])
            raise DataError(f"column {column} of the observations is never observed; leave it out")
        weights = np.zeros((1, values.shape[1], features.shape[1]))
        weights[0, :, -1] = np.nanmean(values, axis=0)
        flat = replace(self, covariance="diag", weights=weights, covariances=np.ones(weights.shape[:2]))
        one = flat.maximise(WeightedData(values, features, np.ones((len(values), 1)), flat))
        variance = np.repeat(one._covariances, n_states, axis=0)
        return replace(
            self,
            weights=perturb(one._weights[0], features, n_states, rng, np.sqrt(one._covariances[0])),
            covariances=variance
            if self.covariance == "diag"
            else variance[:, :, None] * np.eye(values.shape[1]),
        )

    def sample(
        self, states: NDArray[np.integer], features: FloatArray, rng: np.random.Generator
    ) -> NDArray[Any]:
        noise = rng.normal(size=(len(states), self._weights.shape[1]))
        if self.covariance == "diag":
            noise *= np.sqrt(self._covariances)[states]
        else:
            noise = np.einsum("nij,nj->ni", np.linalg.cholesky(self._covariances)[states], noise)
        return np.asarray(np.einsum("np,ndp->nd", features, self._weights[states]) + noise)

    def forecast(self, states: FloatArray, features: FloatArray) -> Forecast:
        """Mean and covariance of the mixture: E[x] and E[C] + Cov[mean of the state]."""
        by_state = np.einsum("np,kdp->nkd", features, self._weights)
        mean = np.einsum("nk,nkd->nd", states, by_state)
        away = by_state - mean[:, None]
        d = self._weights.shape[1]
        within = self._covariances if self.covariance == "full" else self._covariances[:, :, None] * np.eye(d)
        between = np.einsum("nk,nkd,nke->nde", states, away, away)
        return Forecast(states, mean=mean, covariance=np.einsum("nk,kde->nde", states, within) + between)

    @property
    def n_parameters(self) -> int:
        n_states, d, width = self._weights.shape
        return int(n_states * (d * width + (d if self.covariance == "diag" else d * (d + 1) // 2)))


def _scatter(residuals: FloatArray, q: FloatArray) -> FloatArray:
    return np.asarray((q[:, None] * residuals).T @ residuals)


def _centred(weight: float, second: FloatArray) -> Statistics:
    """The statistics of a :class:`Gaussian` of one state for residuals with mean 0."""
    zero = np.zeros((1, len(second)))
    return {"weight": np.array([weight]), "first": zero, "second": second[None], "origin": zero}


def _patterns(values: FloatArray) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Groups of rows with the same columns observed, and those columns."""
    gone = np.isnan(values)
    if not gone.any():
        yield np.arange(len(values)), np.arange(values.shape[1])
        return
    patterns, which = np.unique(gone, axis=0, return_inverse=True)
    for index, pattern in enumerate(patterns):
        yield np.flatnonzero(which.ravel() == index), np.flatnonzero(~pattern)


def _completed(given: WeightedData, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Observations with their missing entries filled in by state k of ``given.at``; the posterior (0 for a
    row of which nothing is observed); the sum of the conditional covariances of what was filled in.
    """
    values, q = given.values, given.posterior[:, k]
    d = values.shape[1]
    uncertain = np.zeros((d, d))
    if not np.isnan(values).any():
        return values, q, uncertain
    mean, covariance = given.features @ given.at._weights[k].T, given.at._covariances[k]
    filled, q = values.copy(), q.copy()
    for rows, seen in _patterns(values):
        gone = np.setdiff1d(np.arange(d), seen)
        if gone.size == 0:
            continue
        if seen.size == 0:
            q[rows] = 0.0
        across = covariance[np.ix_(gone, seen)]
        gain = np.linalg.solve(covariance[np.ix_(seen, seen)], across.T).T
        known = (values - mean)[np.ix_(rows, seen)]
        filled[np.ix_(rows, gone)] = mean[np.ix_(rows, gone)] + known @ gain.T
        uncertain[np.ix_(gone, gone)] += q[rows].sum() * (covariance[np.ix_(gone, gone)] - gain @ across.T)
    return filled, q, uncertain
