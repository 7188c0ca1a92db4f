"""Vectors: p(x | k) is normal with mean ``means[k]`` and a covariance of one of four shapes.

Missing entries (NaN) are marginalised: the density of a row is that of its observed entries. So does the
M-step: for diagonal covariances it treats each column separately; for "full" and "tied" ones it is exact EM,
whose statistics use the conditional mean and covariance of the missing entries given the observed ones
(``incomplete_kernels``), and hold their entropy.

Moments are taken about the current means c, so that nothing cancels: with y = x - c[k],

    weight = sum q,   first = sum q y,   second = sum q y^2 (or q y y^T),   origin = weight * c,
    means = c + first / weight,     scatter = second - first first^T / weight,

where ``origin`` makes the statistics self-contained. See ``covariance`` for the M-step of the covariance.

A prior on the means has, for each state, the log density  - b / 2 (m - m0)^T C^-1 (m - m0)  with b =
``prior_mean_weight`` and m0 = ``prior_mean``. Its mode together with C follows from the moments with b
pseudo-observations at m0 added to ``first`` and ``second``: m = (w mean + b m0) / (w + b), and the scatter
gains b (m - m0)(m - m0)^T; the weight that divides the scatter stays w.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from trellis.core.arguments import as_floats, check_choice, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.core.weighted_counts import NO_WEIGHT
from trellis.data.row_checks import check_rows, column_moments
from trellis.hmm.emissions.covariance import (
    KINDS,
    LOG_2PI,
    CovariancePrior,
    as_matrices,
    check_covariances,
    covariance_shape,
    from_variances,
    log_determinants,
    log_prior,
    matrices_from_scatter,
    variances_from_scatter,
)
from trellis.hmm.emissions.emission import Emission, Statistics
from trellis.hmm.emissions.emission_checks import check_posterior, freeze_array, required
from trellis.hmm.emissions.gaussian_kernels import (
    diagonal_likelihood,
    diagonal_moments,
    full_likelihood,
    full_moments,
)
from trellis.hmm.emissions.gaussian_natural import NaturalGaussian
from trellis.hmm.emissions.incomplete_kernels import incomplete_likelihood, incomplete_moments
from trellis.hmm.emissions.row_kernels import scale_rows


@register
@dataclass(frozen=True, eq=False, repr=False)
class Gaussian(Emission):
    """``means`` (n_states, n_columns); ``covariances`` "diag" (n_states, n_columns), "spherical" (n_states,),
    "full" (n_states, n_columns, n_columns) or "tied" (n_columns, n_columns).

    No variance in any direction falls below ``min_variance``, which should be far below that of the noise.
    ``prior_weight`` pseudo-observations with variance ``prior_variance`` are added to each covariance, and
    ``prior_mean_weight`` pseudo-observations at ``prior_mean`` (a number, (n_columns,), or (n_states,
    n_columns)) to each mean. The objective of learning, and its certificate, is the log-likelihood plus

        - sum over states of  a / 2 (log det C + v trace C^-1) + b / 2 (mean - m0)^T C^-1 (mean - m0),

    with a, v, b and m0 in the order of these four options; a tied C counts once in the first term.

    Examples
    --------
    >>> from trellis.hmm.emissions import Gaussian
    >>> emission = Gaussian(means=[[0.0], [3.0]], covariances=[[1.0], [1.0]])
    >>> emission.log_likelihood(emission.check([[0.0], [3.0]])).round(3).tolist()
    [[-0.919, -5.419], [-5.419, -0.919]]
    """

    covariance: str = "diag"
    means: FloatArray | None = None
    covariances: FloatArray | None = None
    min_variance: float = 1e-6
    prior_weight: float = 0.0
    prior_variance: float = 1.0
    prior_mean: Any = None
    prior_mean_weight: float = 0.0

    def __post_init__(self) -> None:
        check_choice("covariance", self.covariance, KINDS)
        for name in ("min_variance", "prior_weight", "prior_variance", "prior_mean_weight"):
            check_nonnegative(name, getattr(self, name))
        if self.means is not None:
            means = freeze_array(self, "means", ndim=2, column=True)
            object.__setattr__(self, "n_states", len(means))
        if self.covariances is not None:
            self._check_covariances()
        self._check_prior_mean()
        one_for_all = [
            *["covariances"] * (self.covariance == "tied"),
            *["prior_mean"] * (np.ndim(self.prior_mean) == 1),
        ]
        object.__setattr__(self, "shared", tuple(one_for_all))

    def _check_prior_mean(self) -> None:
        if self.prior_mean is None:
            if self.prior_mean_weight > 0.0:
                raise DataError("prior_mean_weight is given without prior_mean; give the mean of the prior")
            return
        given = as_floats("prior_mean", self.prior_mean)
        if given.ndim:
            given = freeze_array(self, "prior_mean", given.ndim)
        else:
            object.__setattr__(self, "prior_mean", float(given))
        expected = given.shape if self.means is None else self.means.shape[2 - given.ndim :]
        if given.ndim > 2 or given.shape != expected or not np.isfinite(given).all():
            raise DataError(
                f"prior_mean has shape {given.shape}; give a finite number, or an array of shape "
                "(n_columns,) or (n_states, n_columns)"
            )

    @property
    def given_states(self) -> int | None:
        if self.n_states is None and np.ndim(self.prior_mean) == 2:
            return len(np.asarray(self.prior_mean))
        return self.n_states

    def _check_covariances(self) -> None:
        ndim = {"diag": 2, "spherical": 1, "full": 3, "tied": 2}[self.covariance]
        covariances = freeze_array(self, "covariances", ndim, column=self.covariance == "diag")
        if self.means is not None:
            shape = covariance_shape(self.covariance, *self.means.shape)
        elif self.covariance == "full":
            shape = (*covariances.shape[:2], covariances.shape[1])
        else:
            shape = covariances.shape
        check_covariances(self.covariance, covariances, shape)
        if self.means is None and self.covariance != "tied":
            object.__setattr__(self, "n_states", len(covariances))

    # Likelihood

    def check(self, values: ArrayLike) -> FloatArray:
        return check_rows(values, None if self.means is None else self.means.shape[1])

    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        return self._likelihood(values, scale=False)[0]

    def scaled_likelihood(self, values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        return self._likelihood(values, scale=True)

    def _likelihood(self, values: NDArray[Any], *, scale: bool) -> tuple[FloatArray, FloatArray]:
        means, rows = self._means, self._rows(values)
        out, shift = np.empty((len(rows), len(means))), np.empty(len(rows) if scale else 0)
        if self.covariance == "full":
            incomplete = full_likelihood(rows, means, *self._whiteners, scale, out, shift)
        elif self.covariance == "tied":
            # Whitened, all states have unit covariance. This is linear in x, so a common origin is enough.
            whitener, constant = self._whiteners[0][0], self._whiteners[1][0]
            origin, ones = means.mean(axis=0), np.ones_like(means)
            white, centres = (rows - origin) @ whitener.T, (means - origin) @ whitener.T
            diagonal_likelihood(white, centres, ones, ones * constant / means.shape[1], scale, out, shift)
            incomplete = bool(np.isnan(white[:, -1]).any())
        else:
            diagonal_likelihood(rows, means, *self._precisions, scale, out, shift)
            incomplete = False
        if incomplete:
            self._marginalise(rows, scale, out, shift)
        return out, shift

    def _marginalise(self, rows: FloatArray, scale: bool, out: FloatArray, shift: FloatArray) -> None:
        """Write the rows of ``out`` that have missing entries."""
        at = _incomplete(rows)
        log_likelihood = np.empty((len(at), out.shape[1]))
        incomplete_likelihood(rows, at, self._means, self._matrices, log_likelihood)
        if scale:
            scaled, tops = np.empty_like(log_likelihood), np.empty(len(at))
            scale_rows(log_likelihood, 0.0, scaled, tops)
            out[at], shift[at] = scaled, tops
        else:
            out[at] = log_likelihood

    # Learning

    def statistics(self, values: NDArray[Any], posterior: FloatArray) -> Statistics:
        """``weight``, ``first``, ``second`` and ``origin`` as above; ``entropy`` of missing entries."""
        means, rows = self._means, self._rows(values)
        posterior = check_posterior(rows, posterior, len(means))
        first: FloatArray = np.zeros(means.shape)
        weight: FloatArray
        if self._diagonal:
            weight, second = np.zeros(means.shape), np.zeros(means.shape)
            diagonal_moments(rows, posterior, means, weight, first, second)
            return {"weight": weight, "first": first, "second": second, "origin": weight * means}
        weight, second = np.zeros(len(means)), np.zeros((*means.shape, means.shape[1]))
        entropy = 0.0
        if full_moments(rows, posterior, means, weight, first, second):
            entropy = incomplete_moments(
                rows, _incomplete(rows), posterior, means, self._matrices, weight, first, second
            )
        second += np.tril(second, -1).transpose(0, 2, 1)
        return {
            "weight": weight,
            "first": first,
            "second": second,
            "origin": weight[:, None] * means,
            "entropy": np.asarray(entropy),
        }

    def maximise(self, statistics: Mapping[str, FloatArray]) -> Gaussian:
        weight, first, second = statistics["weight"], statistics["first"], statistics["second"]
        columns = weight if weight.ndim == 2 else weight[:, None]
        if self.prior_mean_weight > 0.0:
            columns = columns + self.prior_mean_weight
            first, second = self._with_prior_mean(first, second, self._origin(statistics))
        empty = columns <= NO_WEIGHT
        shift = first / np.where(empty, 1.0, columns)
        means = np.where(empty, self._means, self._origin(statistics) + shift)
        old = required(self, self.covariances)
        if weight.ndim == 2:
            scatter = np.maximum(second - first * shift, 0.0)
            covariances = variances_from_scatter(self.covariance, scatter, weight, self._prior, old)
        else:
            scatter = second - first[:, :, None] * shift[:, None, :]
            scatter = 0.5 * (scatter + scatter.transpose(0, 2, 1))  # rounding may differ across the diagonal
            covariances = self._matrices_step(scatter, weight, old)
        return replace(self, means=means, covariances=covariances)

    def _matrices_step(self, scatter: FloatArray, weight: FloatArray, old: FloatArray) -> FloatArray:
        return matrices_from_scatter(self.covariance, scatter, weight, self._prior, old)

    def _with_prior_mean(
        self, first: FloatArray, second: FloatArray, origin: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The moments about ``origin`` with the pseudo-observations of the prior on the means."""
        b, away = self.prior_mean_weight, self._prior_means - origin
        return first + b * away, second + b * (away**2 if self._diagonal else _squared(away))

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        moved = self.recentre(statistics)
        constants = self._precisions[1] if self._diagonal else self._whiteners[1]
        return float(np.sum(moved["weight"] * constants)) - 0.5 * self._squares(moved["second"], np.positive)

    def magnitude(self, statistics: Mapping[str, FloatArray]) -> float:
        """``|W| |S| |W|^T`` in place of W S W^T: large where a covariance is nearly singular, or a mean has
        moved far."""
        move = np.abs(self._origin(statistics) - self._means)
        first, second = np.abs(statistics["first"]), np.abs(statistics["second"])
        return 0.5 * self._squares(_shift_second(statistics["weight"], first, second, move), np.abs)

    def _squares(self, second: FloatArray, size: Callable[[FloatArray], FloatArray]) -> float:
        """sum over the states of trace W S W^T, W the whitener (or its ``size``) and S = ``second``."""
        if self._diagonal:
            return float(np.sum(second * self._precisions[0]))
        whiteners = size(self._whiteners[0])
        return float(np.sum((whiteners @ second) * whiteners))

    def recentre(self, statistics: Mapping[str, FloatArray]) -> Statistics:
        """The same moments about the means of this record."""
        weight, first, second = statistics["weight"], statistics["first"], statistics["second"]
        move = self._origin(statistics) - self._means
        columns = weight if weight.ndim == 2 else weight[:, None]
        second = _shift_second(weight, first, second, move)
        return {
            **statistics, "first": first + columns * move, "second": second, "origin": columns * self._means
        }  # fmt: skip

    def log_prior(self) -> float:
        value = self._log_prior_covariances()
        if self.prior_mean_weight > 0.0:
            zero = np.zeros_like(self._means)
            second = zero if self._diagonal else _squared(zero)
            _, square = self._with_prior_mean(zero, second, self._means)
            value -= 0.5 * self._squares(square, np.positive)
        return value

    def _log_prior_covariances(self) -> float:
        return log_prior(self.covariance, required(self, self.covariances), self._means.shape[1], self._prior)

    def initialise(self, values: NDArray[Any], posterior: FloatArray, rng: np.random.Generator) -> Gaussian:
        """Moments of the rows assigned to each state; a state without any gets those of all rows."""
        if self.means is not None and self.covariances is not None:
            return self
        rows = self.check(values)
        K = posterior.shape[1]
        everywhere, variance = column_moments(rows)
        variance = np.where(np.isnan(rows).all(axis=0), 1.0, variance)
        base = replace(
            self,
            covariance="diag",
            means=np.tile(everywhere, (K, 1)),
            covariances=np.tile(np.maximum(variance, self.min_variance), (K, 1)),
        )
        first = base.maximise(base.statistics(rows, posterior))
        if self.covariance != "diag":
            start = from_variances(self.covariance, required(self, first.covariances))
            first = replace(first, covariance=self.covariance, covariances=start)
            first = first.maximise(first.statistics(rows, posterior))
        return replace(
            self,
            means=first.means if self.means is None else self.means,
            covariances=first.covariances if self.covariances is None else self.covariances,
        )

    # The rest

    def natural_features(self, values: NDArray[Any]) -> csr_array:
        return self._natural.features(self._rows(values))

    def natural_weights(self) -> FloatArray:
        return self._natural.weights(self._means, self._matrices)

    def from_natural(self, weights: FloatArray) -> tuple[Gaussian, FloatArray]:
        """A "tied" covariance stays as it is; a precision that is not positive definite is an error."""
        means, matrices, normalisers = self._natural.moments(weights)
        if self.covariance == "tied":
            return replace(self, means=means), normalisers
        covariances = matrices if self.covariance == "full" else np.diagonal(matrices, axis1=1, axis2=2)
        if self.covariance == "spherical":
            covariances = covariances.mean(axis=1)
        return replace(self, means=means, covariances=covariances), normalisers

    def natural_shift(self, weights: FloatArray) -> FloatArray:
        return self._natural.shift(weights, self._matrices)

    @cached_property
    def _natural(self) -> NaturalGaussian:
        return NaturalGaussian.from_states(self.covariance, self._means, self._matrices)

    def sample(self, states: NDArray[np.integer[Any]], rng: np.random.Generator) -> FloatArray:
        means = self._means
        noise = rng.standard_normal((len(states), means.shape[1]))
        for k in np.unique(states):
            at = states == k
            noise[at] = noise[at] @ np.linalg.cholesky(self._matrices[k]).T
        result: FloatArray = means[states] + noise
        return result

    @property
    def n_parameters(self) -> int:
        K, D = map(int, self._means.shape)
        triangle = D * (D + 1) // 2
        return (
            K * D + {"diag": K * D, "spherical": K, "full": K * triangle, "tied": triangle}[self.covariance]
        )

    @property
    def _diagonal(self) -> bool:
        return self.covariance in ("diag", "spherical")

    @property
    def _prior(self) -> CovariancePrior:
        return CovariancePrior(self.prior_weight, self.prior_variance, self.min_variance)

    @property
    def _prior_means(self) -> FloatArray:
        """(K, D)"""
        return np.broadcast_to(np.asarray(self.prior_mean, np.float64), self._means.shape)

    def _rows(self, values: NDArray[Any]) -> FloatArray:
        """Anything that :meth:`check` did not return goes through it now."""
        ready = values.dtype == np.float64 and values.ndim == 2 and values.flags.c_contiguous
        return values if ready and values.shape[1] == self._means.shape[1] else self.check(values)

    def _origin(self, statistics: Mapping[str, FloatArray]) -> FloatArray:
        """The origin of the moments; the current means where there is no weight."""
        weight = statistics["weight"]
        columns = weight if weight.ndim == 2 else weight[:, None]
        empty = columns <= NO_WEIGHT
        origin: FloatArray = np.where(
            empty, self._means, statistics["origin"] / np.where(empty, 1.0, columns)
        )
        return origin

    @cached_property
    def _means(self) -> FloatArray:
        """Writeable: to Numba a read-only array is another type, and another compilation."""
        return required(self, self.means).copy()

    @cached_property
    def _precisions(self) -> tuple[FloatArray, FloatArray]:
        """1 / variance and - log(2 pi variance) / 2, both (K, D), for "diag" and "spherical"."""
        variances = required(self, self.covariances)
        if self.covariance == "spherical":
            variances = np.repeat(variances[:, None], self._means.shape[1], axis=1)
        return 1.0 / variances, -0.5 * (np.log(variances) + LOG_2PI)

    @cached_property
    def _matrices(self) -> FloatArray:
        """(K, D, D), whatever the shape."""
        return as_matrices(self.covariance, required(self, self.covariances), *self._means.shape)

    @cached_property
    def _whiteners(self) -> tuple[FloatArray, FloatArray]:
        """L^-1 of C = L L^T, (K, D, D), and - (log det C + D log(2 pi)) / 2, (K,); for "full" and "tied"."""
        D = self._means.shape[1]
        whiteners = np.linalg.inv(np.linalg.cholesky(self._matrices))
        constants = -0.5 * (log_determinants("full", self._matrices, D) + D * LOG_2PI)
        return np.ascontiguousarray(np.tril(whiteners)), constants


def _incomplete(rows: FloatArray) -> NDArray[np.int64]:
    """The rows with missing entries, sorted by which entries are missing."""
    missing = np.isnan(rows)
    at = np.flatnonzero(missing.any(axis=1))
    patterns = np.packbits(missing[at], axis=1)
    return at[np.lexsort(patterns.T)]


def _shift_second(weight: FloatArray, first: FloatArray, second: FloatArray, move: FloatArray) -> FloatArray:
    """sum q (y + move)(y + move)^T, or its diagonal, from the moments of y."""
    if weight.ndim == 2:
        return second + move * (2.0 * first + weight * move)
    cross = first[:, :, None] * move[:, None, :]
    return second + cross + cross.transpose(0, 2, 1) + weight[:, None, None] * _squared(move)


def _squared(rows: FloatArray) -> FloatArray:
    """row row^T of each row."""
    squares: FloatArray = rows[:, :, None] * rows[:, None, :]
    return squares
