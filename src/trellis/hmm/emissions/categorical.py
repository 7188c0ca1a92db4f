"""Symbols 0 to M - 1 with a table of probabilities B[k, m] = p(m | k); one symbol a step.

A missing symbol (-1, NaN or a masked entry) has likelihood 1 in every state. The M-step from the
posterior-weighted counts of each state is

    B[k, m] = (counts[k, m] + a) / sum_m' (counts[k, m'] + a),

maximum likelihood for a pseudo-count a of 0, else the mode under a Dirichlet prior with log density
a sum_m log B[k, m]. A state without counts keeps its row (if it has none, it gets that of all states pooled).
:class:`SymbolTable` is what symbols share with rows of counts (``multinomial``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from trellis.core.arguments import check_choice, check_int, check_nonnegative
from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.logspace import softmax_and_log_sum
from trellis.core.registration import register
from trellis.core.weighted_counts import NO_WEIGHT, normalise_rows, weighted_sum
from trellis.data.row_checks import check_symbols
from trellis.hmm.emissions.emission import Emission, Statistics
from trellis.hmm.emissions.emission_checks import (
    check_distributions,
    check_posterior,
    freeze_array,
    required,
    sample_rows,
)
from trellis.hmm.emissions.row_kernels import count_symbols

SMOOTH = 0.01  # the pseudo-count of unseen="smooth"


@dataclass(frozen=True, eq=False, repr=False)
class SymbolTable(Emission):
    """The table, its prior, and all that follows from ``statistics`` with ``counts`` (K, M)."""

    n_symbols: int
    probabilities: FloatArray | None = None
    pseudocount: float = 0.0
    unseen: str = "error"

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_symbols", check_int("n_symbols", self.n_symbols, 1))
        check_nonnegative("pseudocount", self.pseudocount)
        check_choice("unseen", self.unseen, ("error", "smooth"))
        if self.probabilities is None:
            return
        table = freeze_array(self, "probabilities", ndim=2)
        if table.shape[1] != self.n_symbols:
            raise DataError(
                f"probabilities have shape {table.shape}; {self.n_symbols} symbols need shape "
                f"(n_states, {self.n_symbols})"
            )
        check_distributions("probabilities", table)
        object.__setattr__(self, "n_states", len(table))

    @property
    def smoothing(self) -> float:
        """The pseudo-count that the M-step adds to every count."""
        return max(self.pseudocount, SMOOTH) if self.unseen == "smooth" else self.pseudocount

    @cached_property
    def log_table(self) -> FloatArray:
        """log p(m | k) at [m, k], and a last row of zeros, which is that of the missing symbol -1."""
        probabilities = required(self, self.probabilities)
        table = np.zeros((self.n_symbols + 1, len(probabilities)))
        with np.errstate(divide="ignore"):
            table[:-1] = np.log(probabilities.T)
        return table

    def maximise(self, statistics: Mapping[str, FloatArray]) -> Self:
        counts = statistics["counts"] + self.smoothing
        fallback = _overall(counts) if self.probabilities is None else self.probabilities
        return replace(self, probabilities=normalise_rows(counts, fallback))

    def initialise(self, values: NDArray[Any], posterior: FloatArray, rng: np.random.Generator) -> Self:
        """Frequencies, with one more observation for each state, distributed as all symbols are: a symbol
        that is impossible at the start of EM would remain so."""
        if self.probabilities is not None:
            return self
        counts = self.statistics(values, posterior)["counts"]
        return self.maximise({"counts": counts if self.smoothing else counts + _overall(counts)})

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        return weighted_sum(statistics["counts"], self.log_table[:-1].T)

    def log_prior(self) -> float:
        return self.smoothing * float(self.log_table[:-1].sum()) if self.smoothing > NO_WEIGHT else 0.0

    def natural_weights(self) -> FloatArray:
        """w[m, k] = log B[k, m] - log average[m]; 0 for symbols that no state emits. The reference is the
        average of the rows of B."""
        reference = self._log_average[:, None]
        possible = np.isfinite(reference)
        return np.where(possible, self.log_table[:-1] - np.where(possible, reference, 0.0), 0.0)

    def from_natural(self, weights: FloatArray) -> tuple[Self, FloatArray]:
        """B[k, m] is proportional to average[m] exp(w[m, k]); what no state emitted stays impossible."""
        logs = weights + self._log_average[:, None]
        table, normalisers = softmax_and_log_sum(logs, axis=0)
        return replace(self, probabilities=table.T), normalisers[0]

    @cached_property
    def _log_average(self) -> FloatArray:
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(required(self, self.probabilities).mean(axis=0))
        return logs

    @property
    def n_parameters(self) -> int:
        return len(required(self, self.probabilities)) * (self.n_symbols - 1)


@register
@dataclass(frozen=True, eq=False, repr=False)
class Categorical(SymbolTable):
    """``n_symbols`` symbols with ``probabilities`` (n_states, n_symbols).

    ``pseudocount`` is added to every count in the M-step. ``unseen`` is the treatment of symbols that did not
    occur in fitting: ``"error"`` leaves them at probability 0, so that data with them are impossible and
    rejected; ``"smooth"`` gives every symbol a pseudo-count of 0.01 (unless ``pseudocount`` is larger).

    Examples
    --------
    >>> from trellis.hmm.emissions import Categorical
    >>> emission = Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> emission.log_likelihood(emission.check([0, 1])).round(3).tolist()
    [[-0.105, -1.609], [-2.303, -0.223]]
    """

    def check(self, values: ArrayLike) -> IntArray:
        """Symbols as int64 (N,), -1 where one is missing."""
        return check_symbols(values, self.n_symbols)

    def missing(self, values: NDArray[Any]) -> BoolArray:
        missing: BoolArray = values < 0
        return missing

    def _symbols(self, values: NDArray[Any]) -> IntArray:
        """Kernels index with these, so anything that :meth:`check` did not return goes through it now."""
        checked = values.dtype == np.int64 and values.ndim == 1
        if checked and (not len(values) or (values.min() >= -1 and values.max() < self.n_symbols)):
            return values
        return self.check(values)

    @cached_property
    def scaled_table(self) -> tuple[FloatArray, FloatArray]:
        """:meth:`scaled_likelihood` of each symbol, (M + 1, K) and (M + 1,); the last row is that of -1."""
        shift = self.log_table.max(axis=1)
        return np.exp(self.log_table - np.where(shift == -np.inf, 0.0, shift)[:, None]), shift

    @property
    def alphabet(self) -> IntArray:
        """The symbols, and -1 for a missing one."""
        return np.append(np.arange(self.n_symbols), -1)

    def alphabet_codes(self, values: NDArray[Any]) -> IntArray:
        return self._symbols(values)

    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        return self.log_table.take(self._symbols(values), axis=0)

    def scaled_likelihood(self, values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        symbols = self._symbols(values)
        table, shift = self.scaled_table
        return table.take(symbols, axis=0), shift.take(symbols)

    def statistics(self, values: NDArray[Any], posterior: FloatArray) -> Statistics:
        """``counts[k, m]``: the posterior weight of state k on symbol m."""
        posterior = check_posterior(values, posterior, self.n_states)
        counts = np.zeros((self.n_symbols + 1, posterior.shape[1]))
        count_symbols(self._symbols(values), posterior, counts)
        return {"counts": np.ascontiguousarray(counts[:-1].T)}

    def points(self, values: NDArray[Any]) -> FloatArray:
        """Nothing: symbols have no distances."""
        return np.empty((len(values), 0))

    def natural_features(self, values: NDArray[Any]) -> csr_array:
        """One column for each symbol."""
        symbols = self._symbols(values)
        there = symbols >= 0
        indptr = np.concatenate([[0], np.cumsum(there)])
        ones = np.ones(int(indptr[-1]))
        return csr_array((ones, symbols[there], indptr), shape=(len(symbols), self.n_symbols))

    def sample(self, states: NDArray[np.integer[Any]], rng: np.random.Generator) -> IntArray:
        return sample_rows(required(self, self.probabilities), states, rng)


def _overall(counts: FloatArray) -> FloatArray:
    """The distribution of all states pooled; uniform if there are no counts at all."""
    total = counts.sum(axis=0)
    weight = total.sum()
    return total / weight if weight > NO_WEIGHT else np.full(len(total), 1.0 / len(total))
