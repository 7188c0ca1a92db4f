"""What a hidden state emits: the one interface between a hidden Markov model and its observations.

An emission is an immutable record of what the user asked for and, once they are known, of the parameters of
each state. It knows one row of observations at a time: nothing of chains, sequences or threads. With a
posterior q[t, k] of the states, EM needs three things of it:

    E-step   log p(x_t | k)                                           ``log_likelihood``, ``scaled_likelihood``
    M-step   statistics v = sum_t sum_k q[t, k] T(x_t, k)             ``statistics``: a sum over rows
             argmax of  sum_t sum_k q[t, k] log p(x_t | k) + log prior     ``maximise``: from v alone
    bound    sum_t sum_k q[t, k] log p(x_t | k)                       ``expected_log_likelihood``: from v alone

Statistics are dictionaries of float64 arrays and add up: those of two shards of rows are added key by key.
Where a state has latent parts of its own (the component of a mixture, the missing entries of a vector), the
E-step takes the expected statistics of the *complete* data, ``expected_log_likelihood`` is that of the
complete data, and the entropy of the latent parts stands in the statistics as the scalar ``"entropy"``, so
that for the parameters that took the statistics

    sum_t sum_k q[t, k] log p(x_t | k) = expected_log_likelihood(v) + v["entropy"]

and for any others the left side is at least the right.

To write an emission of your own, implement ``log_likelihood``, ``statistics``, ``maximise`` and ``sample``, and
set ``n_states`` once the parameters are known. A frozen dataclass is saved and loaded without further code.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.errors import DataError, UnsupportedError

FloatArray = NDArray[np.float64]
Statistics = dict[str, NDArray[np.float64]]

# A state with less posterior weight than this has seen nothing: it keeps the parameters it has. (Quotients of
# smaller numbers lose their digits to gradual underflow.)
NO_WEIGHT = 1e-290


class Emission(ABC):
    """p(x | state), with its own M-step. Rows are what :meth:`check` returned, or views of it."""

    n_states: int | None = None  # None until parameters are given or fitted

    # What every emission must do

    @abstractmethod
    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        """log p(x_t | k), shape (N, K). ``-inf`` is impossible; what is missing in a row is marginalised, so a
        row that is missing altogether gives zeros."""

    @abstractmethod
    def statistics(self, values: NDArray[Any], posterior: FloatArray) -> Statistics:
        """Expected sufficient statistics under ``posterior`` (N, K), additive over rows.

        Emissions with latent parts take them at their present parameters: :meth:`initialise` first.
        """

    @abstractmethod
    def maximise(self, statistics: Mapping[str, FloatArray]) -> Emission:
        """The record that maximises the expected log-likelihood plus log prior. A state without weight keeps
        its parameters."""

    @abstractmethod
    def sample(self, states: NDArray[np.integer[Any]], rng: np.random.Generator) -> NDArray[Any]:
        """One observation for each of ``states`` (N,)."""

    # What follows from it, and may be done better

    def check(self, values: ArrayLike) -> NDArray[Any]:
        """Observations (N, ...) as the other methods take them; ``DataError`` names the row that is wrong.

        Float64 rows where NaN (or a masked entry) is missing and infinities are refused.
        """
        return check_rows(values)

    def scaled_likelihood(self, values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """exp(log_likelihood - shift), shape (N, K), and the shift: the maximum of each row, shape (N,).

        An impossible row gives zeros and the shift ``-inf``.
        """
        log_likelihood = self.log_likelihood(values)
        shift = log_likelihood.max(axis=1)
        scaled = np.exp(log_likelihood - np.where(shift == -np.inf, 0.0, shift)[:, None])
        return scaled, shift

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        """sum_t sum_k q[t, k] log p(x_t | k) at these parameters, from the statistics (complete data; see
        above)."""
        raise UnsupportedError(
            f"{type(self).__name__} does not say its expected log-likelihood, which the dual certificate of EM "
            f"needs; implement expected_log_likelihood(statistics)"
        )

    def log_prior(self) -> float:
        """Log density of the prior at these parameters, without its constant; 0 for maximum likelihood."""
        return 0.0

    def initialise(self, values: NDArray[Any], posterior: FloatArray, rng: np.random.Generator) -> Emission:
        """First parameters from soft or hard assignments ``posterior`` (N, K); parameters that were given are
        kept."""
        if self.n_states is not None:
            return self
        return self.maximise(self.statistics(values, posterior))

    def recentre(self, statistics: Mapping[str, FloatArray]) -> Statistics:
        """Statistics that an earlier record of this emission took, as this one would have taken them.

        Needed before statistics of different iterations are added (online EM): a Gaussian takes its moments
        about its own means. Statistics from one record, whatever the shard, need no recentring.
        """
        return dict(statistics)

    def points(self, values: NDArray[Any]) -> FloatArray:
        """What k-means should cluster, (N, D), missing entries filled by column means. D = 0: nothing, start at
        random."""
        rows = np.asarray(values, np.float64).reshape(len(values), -1)
        missing = np.isnan(rows)
        if not missing.any():
            return rows
        count = (~missing).sum(axis=0)
        means = np.where(missing, 0.0, rows).sum(axis=0) / np.maximum(count, 1)
        return np.where(missing, means, rows)

    @property
    def n_parameters(self) -> int:
        """Free parameters, for AIC and BIC."""
        raise UnsupportedError(
            f"{type(self).__name__} does not say how many free parameters it has; implement n_parameters"
        )

    def permute(self, order: ArrayLike) -> Emission:
        """The states renumbered: state k of the result is state ``order[k]`` of this one.

        For dataclasses: arrays whose first axis is the states are permuted.
        """
        order = check_order(order, self.n_states)
        fields = _array_fields(self)
        moved = {name: a[order] for name, a in fields.items() if a.ndim and len(a) == self.n_states}
        return dataclasses.replace(self, **moved)  # type: ignore[type-var]

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON values and arrays that :meth:`from_state` makes the same record of."""
        arrays = _array_fields(self)
        names = (f.name for f in dataclasses.fields(self) if f.init)  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in names if name not in arrays}, arrays

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The record that :meth:`to_state` described; the constructor checks what it is given."""
        return cls(**meta, **arrays)

    def __repr__(self) -> str:
        name = type(self).__name__
        if not dataclasses.is_dataclass(self):
            return f"{name}({self.n_states} states)"
        shown = []
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, np.ndarray):
                shown.append(f"{f.name}={'x'.join(map(str, value.shape))} array")
            elif f.init and (f.default is dataclasses.MISSING or value != f.default):
                shown.append(f"{f.name}={value!r}")
        return f"{name}({', '.join(shown)})"


def _array_fields(emission: Emission) -> dict[str, NDArray[Any]]:
    if not dataclasses.is_dataclass(emission):
        raise UnsupportedError(
            f"{type(emission).__name__} is not a dataclass, so its parameters are not known by name; make it a frozen "
            f"dataclass, or implement permute, to_state and from_state"
        )
    fields = ((f.name, getattr(emission, f.name)) for f in dataclasses.fields(emission) if f.init)
    return {name: value for name, value in fields if isinstance(value, np.ndarray)}


def check_rows(values: ArrayLike, n_columns: int | None = None) -> FloatArray:
    """A C-contiguous float64 (N, D) array; (N,) becomes one column. NaN and masked entries are missing."""
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        rows = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"observations must be numbers, NaN where one is missing ({error})") from error
    if rows.ndim == 1:
        rows = rows[:, None]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise DataError(f"observations have shape {rows.shape}; they must have shape (length, columns)")
    if n_columns is not None and rows.shape[1] != n_columns:
        raise DataError(
            f"observations have {rows.shape[1]} columns, but the emission has {n_columns}; they must be equal"
        )
    infinite = np.isinf(rows)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise DataError(
            f"row {row}, column {column} of the observations is infinite; write NaN where a value is missing"
        )
    return np.ascontiguousarray(rows)


def check_order(order: ArrayLike, n_states: int | None) -> NDArray[np.int64]:
    """A permutation of the states."""
    if n_states is None:
        raise UnsupportedError("there are no states to renumber before parameters are given or fitted")
    array = np.asarray(order)
    if not np.array_equal(np.sort(array), np.arange(n_states)):
        raise DataError(f"order must name each of the states 0 to {n_states - 1} once, got {order}")
    return array.astype(np.int64)


def check_posterior(values: NDArray[Any], posterior: FloatArray, n_states: int | None) -> FloatArray:
    """(N, K) float64, C-contiguous, of the rows and states at hand."""
    posterior = np.ascontiguousarray(posterior, np.float64)
    fits = posterior.ndim == 2 and len(posterior) == len(values)
    if not fits or (n_states is not None and posterior.shape[1] != n_states):
        states = "n_states" if n_states is None else str(n_states)
        raise DataError(
            f"the posterior has shape {posterior.shape}; {len(values)} rows need shape ({len(values)}, {states})"
        )
    return posterior
