"""Rows of counts: x_1 .. x_M say how often each of M symbols occurred among n = x_1 + ... + x_M draws.

    p(x | k) = n! / (x_1! ... x_M!)  prod_m B[k, m]^x_m,         given n, which may differ from row to row

A row that is NaN throughout is missing and has likelihood 1 in every state, as a row of zeros has. See
:mod:`trellis.hmm.emissions.categorical` for the M-step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.core.weighted_counts import weighted_sum
from trellis.data.row_checks import check_counts, row_error
from trellis.hmm.emissions.categorical import SymbolTable
from trellis.hmm.emissions.emission import Statistics
from trellis.hmm.emissions.emission_checks import check_posterior, log_factorials, required


@register
@dataclass(frozen=True, eq=False, repr=False)
class Multinomial(SymbolTable):
    """Counts of ``n_symbols`` symbols with ``probabilities`` (n_states, n_symbols).

    ``pseudocount`` and ``unseen`` are those of :class:`Categorical`. ``n_trials`` is the sum n of the rows
    that ``sample`` draws; learning sets it where all rows have the same.

    Examples
    --------
    >>> from trellis.hmm.emissions import Multinomial
    >>> counts = Multinomial(3, probabilities=[[0.5, 0.3, 0.2]])
    >>> counts.log_likelihood(counts.check([[2, 1, 1]])).round(3).tolist()
    [[-1.715]]
    """

    n_trials: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_trials is not None:
            object.__setattr__(self, "n_trials", check_int("n_trials", self.n_trials, 0))

    def check(self, values: ArrayLike) -> FloatArray:
        """Whole numbers of at least 0 as float64 (N, M); NaN throughout a row that is missing."""
        counts = check_counts(values, self.n_symbols)
        missing = np.isnan(counts)
        partly = missing.any(axis=1) & ~missing.all(axis=1)
        if partly.any():
            raise row_error(
                int(np.argmax(partly)),
                "some counts are missing and some are not; a row is missing as a whole or not at all",
            )
        return counts

    @cached_property
    def _finite_logs(self) -> tuple[FloatArray, FloatArray]:
        """The log table (M, K) with 0 in place of -inf, and 1.0 where it was -inf."""
        logs = self.log_table[:-1]
        impossible = logs == -np.inf
        return np.where(impossible, 0.0, logs), impossible.astype(np.float64)

    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        counts, coefficients = _filled(values)
        logs, impossible = self._finite_logs
        result: FloatArray = counts @ logs + coefficients[:, None]
        if impossible.any():
            result[counts @ impossible > 0.0] = -np.inf
        return result

    def statistics(self, values: NDArray[Any], posterior: FloatArray) -> Statistics:
        """``counts[k, m]``, and ``coefficients``: the posterior weight of log n! / (x_1! ... x_M!)."""
        posterior = check_posterior(values, posterior, self.n_states)
        counts, coefficients = _filled(values)
        return {
            "counts": posterior.T @ counts,
            "coefficients": np.asarray(posterior.sum(axis=1) @ coefficients),
        }

    def initialise(
        self, values: NDArray[Any], posterior: FloatArray, rng: np.random.Generator
    ) -> Multinomial:
        totals = np.unique(values.sum(axis=1)[~self.missing(values)])
        trials = int(totals[0]) if self.n_trials is None and len(totals) == 1 else self.n_trials
        return replace(super().initialise(values, posterior, rng), n_trials=trials)

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        return super().expected_log_likelihood(statistics) + float(statistics["coefficients"])

    def magnitude(self, statistics: Mapping[str, FloatArray]) -> float:
        """Rows of large counts have a log-likelihood far smaller than its two parts."""
        return weighted_sum(statistics["counts"], -self.log_table[:-1].T) + float(statistics["coefficients"])

    def points(self, values: NDArray[Any]) -> FloatArray:
        """The proportions of each row."""
        totals = values.sum(axis=1, keepdims=True)
        return super().points(values / np.where(totals > 0.0, totals, 1.0))

    def natural_features(self, values: NDArray[Any]) -> csr_array:
        """The counts themselves."""
        return csr_array(_filled(values)[0])

    def sample(self, states: NDArray[np.integer[Any]], rng: np.random.Generator) -> FloatArray:
        if self.n_trials is None:
            raise DataError("rows of counts cannot be drawn without their sum; give Multinomial its n_trials")
        probabilities = required(self, self.probabilities)
        rows = probabilities / probabilities.sum(axis=1, keepdims=True)
        return np.asarray(rng.multinomial(self.n_trials, rows[states]), np.float64)


def _filled(values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Counts with 0 in missing rows, and log n! / (x_1! ... x_M!) of each row."""
    counts = np.nan_to_num(values, nan=0.0)
    return counts, gammaln(counts.sum(axis=1) + 1.0) - log_factorials(counts)
