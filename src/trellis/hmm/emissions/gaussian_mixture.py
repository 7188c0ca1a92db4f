"""Mixtures of Gaussians: p(x | k) = sum_c weights[k, c] N(x; means[k, c], covariances[k, c]).

All K C components are the states of one :class:`Gaussian`, which handles covariances, floors, priors and
missing entries. The component of a row is latent: the statistics are those of the K C components under the
posterior q[t, k] p(c | x_t, k), and their entropy is part of ``"entropy"``. The M-step is

    weights[k, c] = (n[k, c] + a) / sum_c' (n[k, c'] + a),      n: the posterior weight of each component,

and that of the Gaussian for the rest; with covariances "state", the components of a state share one matrix,
whose scatter and weight are the sums over them. A row that is entirely missing says nothing about components
and is not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arguments import as_floats, check_choice, check_int, check_nonnegative
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.core.weighted_counts import NO_WEIGHT, normalise_rows, weighted_sum
from trellis.hmm.emissions.covariance import KINDS, log_prior, matrices_from_scatter
from trellis.hmm.emissions.emission import Emission, Statistics
from trellis.hmm.emissions.emission_checks import (
    check_distributions,
    check_posterior,
    freeze_array,
    required,
    sample_rows,
)
from trellis.hmm.emissions.gaussian import Gaussian
from trellis.hmm.emissions.mixture_kernels import component_posteriors, mixture_log_likelihood

_MAX_POINTS = 20_000  # rows per state that k-means uses for the first components


@dataclass(frozen=True, eq=False, repr=False)
class SharedGaussian(Gaussian):
    """``covariances`` (n_states, n_columns, n_columns), equal within each run of ``share`` states.

    The matrix of a run maximises the sum over its states, which is the M-step of one state with the sums of
    their scatters and weights; the prior on a matrix counts once.
    """

    share: int = 1

    def _matrices_step(self, scatter: FloatArray, weight: FloatArray, old: FloatArray) -> FloatArray:
        runs, D = len(weight) // self.share, scatter.shape[-1]
        pooled = scatter.reshape(runs, self.share, D, D).sum(axis=1)
        each = weight.reshape(runs, self.share).sum(axis=1)
        matrices = matrices_from_scatter(self.covariance, pooled, each, self._prior, old[:: self.share])
        return np.repeat(matrices, self.share, axis=0)

    def _log_prior_covariances(self) -> float:
        once = required(self, self.covariances)[:: self.share]
        return log_prior(self.covariance, once, self._means.shape[1], self._prior)

    @property
    def n_parameters(self) -> int:
        K, D = map(int, self._means.shape)
        return K * D + K // self.share * (D * (D + 1) // 2)


@register
@dataclass(frozen=True, eq=False, repr=False)
class GaussianMixture(Emission):
    """``n_components`` Gaussians per state: ``weights`` (n_states, n_components), ``means`` (n_states,
    n_components, n_columns), ``covariances`` as those of :class:`Gaussian` with the axes n_states,
    n_components in place of n_states ("tied": one matrix for all components of all states). "state"
    covariances (n_states, n_columns, n_columns) are one matrix for all components of a state.

    ``pseudocount`` is added to the weight of every component in the M-step. The other options are those of
    :class:`Gaussian`, for each component as for a state of its own: ``prior_mean`` is a number, (n_columns,)
    or (n_states, n_components, n_columns), and a matrix that components share has its prior once.

    Examples
    --------
    >>> from trellis.hmm.emissions import GaussianMixture
    >>> means, covariances = [[[0.0], [4.0]]], [[[1.0], [1.0]]]
    >>> emission = GaussianMixture(2, weights=[[0.5, 0.5]], means=means, covariances=covariances)
    >>> emission.log_likelihood(emission.check([[0.0], [4.0]])).round(3).tolist()
    [[-1.612], [-1.612]]
    """

    n_components: int
    covariance: str = "diag"
    weights: FloatArray | None = None
    means: FloatArray | None = None
    covariances: FloatArray | None = None
    pseudocount: float = 0.0
    min_variance: float = 1e-6
    prior_weight: float = 0.0
    prior_variance: float = 1.0
    prior_mean: Any = None
    prior_mean_weight: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_components", check_int("n_components", self.n_components, 1))
        check_nonnegative("pseudocount", self.pseudocount)
        check_choice("covariance", self.covariance, (*KINDS, "state"))
        parts = (self.weights, self.means, self.covariances)
        if any(part is None for part in parts) and any(part is not None for part in parts):
            raise DataError("a mixture needs its weights, means and covariances together, or none of them")
        if self.prior_mean is not None:
            given = as_floats("prior_mean", self.prior_mean)
            if given.ndim not in (0, 1, 3):
                raise DataError(
                    f"prior_mean has shape {given.shape}; give a number, or an array of shape (n_columns,) "
                    "or (n_states, n_components, n_columns)"
                )
            if given.ndim:
                freeze_array(self, "prior_mean", given.ndim)
        _ = self._plain  # checks the options
        one_for_all = [
            *["covariances"] * (self.covariance == "tied"),
            *["prior_mean"] * (np.ndim(self.prior_mean) == 1),
        ]
        object.__setattr__(self, "shared", tuple(one_for_all))
        if self.weights is None:
            return
        weights, means = freeze_array(self, "weights", ndim=2), freeze_array(self, "means", ndim=3)
        ndim = {"diag": 3, "spherical": 2, "full": 4, "tied": 2, "state": 3}
        covariances = freeze_array(self, "covariances", ndim[self.covariance])
        K, C = weights.shape
        shape = (K, self.n_components)
        begin = {"tied": (), "state": (K,)}.get(self.covariance, shape)
        if shape != (K, C) or means.shape[:2] != shape or covariances.shape[: len(begin)] != begin:
            raise DataError(
                f"weights, means and covariances have shapes {weights.shape}, {means.shape} and "
                f"{covariances.shape}; they must begin with (n_states, {self.n_components})"
            )
        check_distributions("weights", weights)
        object.__setattr__(self, "n_states", K)
        _ = self.components  # checks the rest

    @cached_property
    def _plain(self) -> Gaussian:
        """The Gaussian of all components, without parameters."""
        prior_mean = self.prior_mean
        if prior_mean is not None and np.ndim(prior_mean) == 3:
            prior_mean = np.reshape(prior_mean, (-1, np.shape(prior_mean)[2]))
        options: dict[str, Any] = {
            "min_variance": self.min_variance,
            "prior_weight": self.prior_weight,
            "prior_variance": self.prior_variance,
            "prior_mean": prior_mean,
            "prior_mean_weight": self.prior_mean_weight,
        }
        if self.covariance == "state":
            return SharedGaussian("full", share=self.n_components, **options)
        return Gaussian(self.covariance, **options)

    @property
    def given_states(self) -> int | None:
        if self.n_states is None and np.ndim(self.prior_mean) == 3:
            return len(np.asarray(self.prior_mean))
        return self.n_states

    @cached_property
    def components(self) -> Gaussian:
        """The Gaussian whose states are the components: component c of state k is k n_components + c."""
        means, covariances = required(self, self.means), required(self, self.covariances)
        n = means.shape[0] * means.shape[1]
        if self.covariance == "state":
            flat = np.repeat(covariances, means.shape[1], axis=0)
        else:
            flat = (
                covariances if self.covariance == "tied" else covariances.reshape(n, *covariances.shape[2:])
            )
        return replace(self._plain, means=means.reshape(n, -1), covariances=flat)

    @cached_property
    def _log_weights(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.log(required(self, self.weights).reshape(-1))

    def check(self, values: ArrayLike) -> FloatArray:
        return (self._plain if self.means is None else self.components).check(values)

    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        components = self.components.log_likelihood(values)
        out = np.empty((len(components), required(self, self.weights).shape[0]))
        mixture_log_likelihood(components, self._log_weights, out)
        return out

    def statistics(self, values: NDArray[Any], posterior: FloatArray) -> Statistics:
        """Those of the Gaussian of all components, and ``components`` (K, C), the weight of each."""
        gaussian, rows = self.components, self.check(values)
        weights = required(self, self.weights)
        posterior = check_posterior(rows, posterior, len(weights))
        posterior = np.where(np.isnan(rows).all(axis=1, keepdims=True), 0.0, posterior)
        shares = np.empty((len(rows), weights.size))
        entropy = component_posteriors(gaussian.log_likelihood(rows), self._log_weights, posterior, shares)
        statistics = gaussian.statistics(rows, shares)
        return {
            **statistics,
            "components": shares.sum(axis=0).reshape(weights.shape),
            "entropy": np.asarray(entropy + statistics.get("entropy", 0.0)),
        }

    def maximise(self, statistics: Mapping[str, FloatArray]) -> GaussianMixture:
        counts = statistics["components"] + self.pseudocount
        weights = normalise_rows(counts, required(self, self.weights))
        return self._with(weights, self.components.maximise(statistics))

    def _with(self, weights: FloatArray, components: Gaussian) -> GaussianMixture:
        means, covariances = (
            required(self, components.means),
            required(self, components.covariances),
        )
        if self.covariance == "state":
            covariances = covariances[:: self.n_components]
        elif self.covariance != "tied":
            covariances = covariances.reshape(*weights.shape, *covariances.shape[1:])
        means = means.reshape(*weights.shape, -1)
        return replace(self, weights=weights, means=means, covariances=covariances)

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        of_weights = weighted_sum(statistics["components"].reshape(-1), self._log_weights)
        return of_weights + self.components.expected_log_likelihood(statistics)

    def magnitude(self, statistics: Mapping[str, FloatArray]) -> float:
        return self.components.magnitude(statistics)

    def recentre(self, statistics: Mapping[str, FloatArray]) -> Statistics:
        return self.components.recentre(statistics)

    def permute_statistics(self, statistics: Mapping[str, FloatArray], order: IntArray) -> Statistics:
        C = self.n_components
        components = (order[:, None] * C + np.arange(C)).ravel()
        moved = self.components.permute_statistics(statistics, components)
        return {**moved, "components": statistics["components"][order]}

    def log_prior(self) -> float:
        of_weights = (
            self.pseudocount * float(self._log_weights.sum()) if self.pseudocount > NO_WEIGHT else 0.0
        )
        return of_weights + self.components.log_prior()

    def initialise(
        self, values: NDArray[Any], posterior: FloatArray, rng: np.random.Generator
    ) -> GaussianMixture:
        """k-means among the rows of each state, weighted by the posterior; then one M-step."""
        if self.weights is not None:
            return self
        rows = self.check(values)
        posterior = check_posterior(rows, posterior, None)
        points, C = self.points(rows), self.n_components
        shares = np.zeros((*posterior.shape, C))
        for k in range(posterior.shape[1]):
            labels = _cluster(points, posterior[:, k], C, rng)
            shares[np.arange(len(rows)), k, labels] = posterior[:, k]
        nothing = np.isnan(rows).all(axis=1)
        counts = shares[~nothing].sum(axis=0)
        total = counts.sum(axis=1, keepdims=True)
        weights = np.where(total > 0.0, (counts + 1.0 / C) / (total + 1.0), 1.0 / C)
        return self._with(weights, self._plain.initialise(rows, shares.reshape(len(rows), -1), rng))

    def sample(self, states: NDArray[np.integer[Any]], rng: np.random.Generator) -> FloatArray:
        component = sample_rows(required(self, self.weights), states, rng)
        return self.components.sample(np.asarray(states) * self.n_components + component, rng)

    @property
    def n_parameters(self) -> int:
        K, C = map(int, required(self, self.weights).shape)
        return K * (C - 1) + self.components.n_parameters


def _cluster(points: FloatArray, weight: FloatArray, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A cluster out of ``n`` for every row, from the rows that have weight."""
    at = np.flatnonzero(weight > 0.0)
    if len(at) > _MAX_POINTS:
        at = rng.choice(at, _MAX_POINTS, replace=False)
    distinct = len(np.unique(points[at], axis=0)) if len(at) else 0
    if min(n, distinct) < 2:
        return np.zeros(len(points), np.int64)
    from sklearn.cluster import KMeans  # here, because importing it takes a second

    seed = int(rng.integers(2**31))
    clusters = KMeans(min(n, distinct), n_init=1, random_state=seed)
    clusters.fit(points[at], sample_weight=weight[at])
    labels: NDArray[np.int64] = clusters.predict(points).astype(np.int64)
    return labels
