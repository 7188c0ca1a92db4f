"""Counts: p(x | k) = prod_d rates[k, d]^x_d exp(-rates[k, d]) / x_d!, columns independent given the state.

A missing entry (NaN) has likelihood 1. With n[k, d] the posterior weight on the entries that are there and
s[k, d] the weighted sum of their counts, the M-step is

    rates[k, d] = max( (s[k, d] + shape - 1) / (n[k, d] + rate), min_rate ),

the maximum over rates of at least ``min_rate`` of the likelihood times a Gamma(shape, rate) prior with log
density (shape - 1) log rates[k, d] - rate rates[k, d]; shape 1 and rate 0, the default, are no prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, NumericalError
from trellis.core.registration import register
from trellis.core.weighted_counts import NO_WEIGHT
from trellis.data.row_checks import check_counts
from trellis.hmm.emissions.emission import Emission, Statistics
from trellis.hmm.emissions.emission_checks import check_posterior, freeze_array, log_factorials, required
from trellis.hmm.emissions.natural import complete_rows, feature_rows

_LARGEST_RATE = 9e18  # counts are drawn as 64-bit numbers


@register
@dataclass(frozen=True, eq=False, repr=False)
class Poisson(Emission):
    """``rates`` (n_states, n_columns); (n_states,) for one column.

    The gamma prior has ``prior_shape`` of at least 1 and ``prior_rate`` of at least 0. ``min_rate`` keeps a
    state that has seen only zeros from making every other count impossible.

    Examples
    --------
    >>> from trellis.hmm.emissions import Poisson
    >>> emission = Poisson(rates=[[1.0], [5.0]])
    >>> emission.log_likelihood(emission.check([[0], [5]])).round(3).tolist()
    [[-1.0, -5.0], [-5.787, -1.74]]
    """

    rates: FloatArray | None = None
    prior_shape: float = 1.0
    prior_rate: float = 0.0
    min_rate: float = 1e-6

    def __post_init__(self) -> None:
        if not (1.0 <= self.prior_shape < np.inf and 0.0 <= self.prior_rate < np.inf):
            raise DataError(
                f"the gamma prior needs a shape of at least 1 and a rate of at least 0, got "
                f"{self.prior_shape} and {self.prior_rate}"
            )
        if not 0.0 < self.min_rate < np.inf:
            raise DataError(f"min_rate must be positive, got {self.min_rate}")
        if self.rates is None:
            return
        rates = freeze_array(self, "rates", ndim=2, column=True)
        if rates.min() <= 0:
            k, d = np.argwhere(rates <= 0)[0]
            raise DataError(f"rates must be positive; that of state {k}, column {d} is {rates[k, d]}")
        object.__setattr__(self, "n_states", len(rates))

    def check(self, values: ArrayLike) -> FloatArray:
        """Whole numbers of at least 0 as float64 (N, D), NaN where one is missing."""
        return check_counts(values, None if self.rates is None else self.rates.shape[1])

    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        rates = required(self, self.rates)
        counts, there = _filled(values)
        expected = rates.sum(axis=1) if there is None else there @ rates.T
        result: FloatArray = counts @ self._log_rates.T - expected - log_factorials(counts)[:, None]
        return result

    def statistics(self, values: NDArray[Any], posterior: FloatArray) -> Statistics:
        """``weight`` and ``sum`` (K, D), and ``log_factorials`` (a number)."""
        posterior = check_posterior(values, posterior, self.n_states)
        counts, there = _filled(values)
        per_state = posterior.sum(axis=0)[:, None]
        return {
            "weight": per_state + np.zeros((1, counts.shape[1])) if there is None else posterior.T @ there,
            "sum": posterior.T @ counts,
            "log_factorials": np.asarray(posterior.sum(axis=1) @ log_factorials(counts)),
        }

    def maximise(self, statistics: Mapping[str, FloatArray]) -> Poisson:
        weight = statistics["weight"] + self.prior_rate
        total = statistics["sum"] + (self.prior_shape - 1.0)
        empty = weight <= NO_WEIGHT
        rates = np.maximum(total / np.where(empty, 1.0, weight), self.min_rate)
        if empty.any():
            everywhere = total.sum(axis=0) / np.maximum(weight.sum(axis=0), NO_WEIGHT)
            kept = np.maximum(everywhere, self.min_rate) if self.rates is None else self.rates
            rates = np.where(empty, kept, rates)
        return replace(self, rates=rates)

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        rates = required(self, self.rates)
        value = np.sum(statistics["sum"] * self._log_rates) - np.sum(statistics["weight"] * rates)
        return float(value - statistics["log_factorials"])

    def magnitude(self, statistics: Mapping[str, FloatArray]) -> float:
        """Large counts have a log-likelihood far smaller than x log(rate), the rate, and log x!."""
        rates = required(self, self.rates)
        sizes = np.sum(statistics["sum"] * np.abs(self._log_rates)) + np.sum(statistics["weight"] * rates)
        return float(sizes + statistics["log_factorials"])

    def log_prior(self) -> float:
        rates = required(self, self.rates)
        return float((self.prior_shape - 1.0) * self._log_rates.sum() - self.prior_rate * rates.sum())

    def natural_features(self, values: NDArray[Any]) -> csr_array:
        """(x_d - r_d) / sqrt r_d, and 1. The reference has the average rates r of the states."""
        there = complete_rows(values)
        reference = required(self, self.rates).mean(axis=0)
        return feature_rows(there, (values[there] - reference) / np.sqrt(reference))

    def natural_weights(self) -> FloatArray:
        rates = required(self, self.rates)
        reference = rates.mean(axis=0)
        slopes = np.log(rates / reference) * np.sqrt(reference)
        return np.hstack([slopes, _constants(rates, reference)[:, None]]).T

    def from_natural(self, weights: FloatArray) -> tuple[Poisson, FloatArray]:
        reference = required(self, self.rates).mean(axis=0)
        with np.errstate(over="ignore"):
            rates = reference * np.exp(weights[:-1].T / np.sqrt(reference))
        wrong = ~(np.isfinite(rates) & (rates > 0)).all(axis=1)
        if wrong.any():
            raise NumericalError(
                f"a rate learned for state {int(np.argmax(wrong))} overflows; use more l2, or "
                "another objective"
            )
        return replace(self, rates=rates), weights[-1] - _constants(rates, reference)

    def sample(self, states: NDArray[np.integer[Any]], rng: np.random.Generator) -> FloatArray:
        rates = required(self, self.rates)[states]
        if rates.max(initial=0.0) > _LARGEST_RATE:
            raise NumericalError(
                f"a rate of {rates.max():g} is too large to draw counts; scale the data down"
            )
        counts: FloatArray = rng.poisson(rates).astype(np.float64)
        return counts

    @property
    def n_parameters(self) -> int:
        return required(self, self.rates).size

    @cached_property
    def _log_rates(self) -> FloatArray:
        return np.log(required(self, self.rates))


def _filled(values: NDArray[Any]) -> tuple[FloatArray, FloatArray | None]:
    """Counts with 0 where they are missing, and 1.0 where they are there (None: everywhere)."""
    missing = np.isnan(values)
    if not missing.any():
        return values, None
    return np.where(missing, 0.0, values), (~missing).astype(np.float64)


def _constants(rates: FloatArray, reference: FloatArray) -> FloatArray:
    """sum_d r_d log(rates[k, d] / r_d) - rates[k, d] + r_d, (K,): the weight of the feature 1."""
    constants: FloatArray = (reference * np.log(rates / reference) - rates + reference).sum(axis=1)
    return constants
