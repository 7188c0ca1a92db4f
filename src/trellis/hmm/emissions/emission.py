"""What a hidden state emits: the one interface between a hidden Markov model and its observations.

An emission is an immutable record of its options and, once they are known, of the parameters of each state.
It treats rows of observations independently and knows nothing of chains, sequences or threads. Given a
posterior q[t, k] of the states, EM needs three things of it:

    log p(x_t | k)                                              ``log_likelihood``, ``scaled_likelihood``
    v = sum_t sum_k q[t, k] T(x_t, k)                           ``statistics``, a sum over rows
    argmax of sum_t sum_k q[t, k] log p(x_t | k) + log prior    ``maximise``, from v alone

and for the certificate of EM the value of that sum, ``expected_log_likelihood``, again from v alone.

Statistics are dictionaries of float64 arrays and additive: those of two shards of rows are added key by key.
Where a state has latent parts of its own (the component of a mixture, the missing entries of a vector), the
E-step takes the expected statistics of the *complete* data, ``expected_log_likelihood`` is that of the
complete data, and the statistics hold the entropy of the latent parts as the scalar ``"entropy"``, so that
for the parameters under which they were taken

    sum_t sum_k q[t, k] log p(x_t | k) = expected_log_likelihood(v) + v["entropy"]

and for any others the left side is at least the right.

To write an emission of your own, implement ``log_likelihood``, ``statistics``, ``maximise``, ``sample`` and,
for EM, ``expected_log_likelihood``; set ``n_states`` once the parameters are known. A frozen dataclass is
renumbered, saved and loaded without further code.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import UnsupportedError
from trellis.data.row_checks import check_rows, column_moments
from trellis.hmm.emissions.emission_checks import check_order
from trellis.hmm.emissions.row_kernels import scale_rows

Statistics = dict[str, NDArray[np.float64]]


class Emission(ABC):
    """p(x | state), with its own M-step. Rows are what :meth:`check` returned, or views of it.

    Examples
    --------
    >>> from trellis.hmm.emissions import Emission, Gaussian, Poisson
    >>> isinstance(Gaussian(), Emission), isinstance(Poisson(), Emission)
    (True, True)
    """

    n_states: int | None = None  # None until parameters are given or fitted
    shared: ClassVar[tuple[str, ...]] = ()  # array fields of a dataclass that are not one row per state

    # What every emission must do

    @abstractmethod
    def log_likelihood(self, values: NDArray[Any]) -> FloatArray:
        """log p(x_t | k), shape (N, K); ``-inf`` is impossible. What is missing in a row is marginalised, so
        that a row that is entirely missing gives zeros."""

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

    def missing(self, values: NDArray[Any]) -> BoolArray:
        """Which rows are missing altogether, (N,)."""
        if values.dtype.kind != "f":
            return np.zeros(len(values), np.bool_)
        empty: BoolArray = np.isnan(values).all(axis=tuple(range(1, values.ndim)))
        return empty

    def scaled_likelihood(self, values: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
        """exp(log_likelihood - shift), shape (N, K), and the shift: the maximum of each row, shape (N,).

        An impossible row gives zeros and the shift ``-inf``.
        """
        log_likelihood = np.ascontiguousarray(self.log_likelihood(values), np.float64)
        scaled, shift = np.empty_like(log_likelihood), np.empty(len(log_likelihood))
        scale_rows(log_likelihood, 0.0, scaled, shift)
        return scaled, shift

    @property
    def alphabet(self) -> NDArray[Any] | None:
        """All rows that can be observed, where these are few; None where they are not.

        EM then asks for the likelihoods and the statistics of these rows alone, so both must depend on
        nothing but the row, and statistics must be linear in the posterior.
        """
        return None

    def alphabet_codes(self, values: NDArray[Any]) -> IntArray:
        """The place of each row in :attr:`alphabet`, (N,); -1 is the last place."""
        raise UnsupportedError(f"{type(self).__name__} has no alphabet")

    def expected_log_likelihood(self, statistics: Mapping[str, FloatArray]) -> float:
        """sum_t sum_k q[t, k] log p(x_t | k) at these parameters, from the statistics (complete data; see
        above)."""
        raise UnsupportedError(
            f"{type(self).__name__} has no expected log-likelihood, which the dual certificate of EM needs; "
            "implement expected_log_likelihood(statistics)"
        )

    def magnitude(self, statistics: Mapping[str, FloatArray]) -> float:
        """The sum of the sizes of the terms that ``expected_log_likelihood`` adds up, where they may cancel:
        rounding moves it by about 1e-16 of this."""
        return 0.0

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
        """Statistics taken by an earlier record of this emission, as this one would have taken them.

        Needed before statistics of different iterations are added (online EM): a Gaussian takes its moments
        about its own means. Statistics from one record, whatever the shard, need no recentring.
        """
        return dict(statistics)

    def natural_features(self, values: NDArray[Any]) -> csr_array:
        """T(x) of each row, (N, F), where log p(x | k) = T(x) . w[:, k] - a[k] + c(x); a row that is missing
        has none. See :mod:`trellis.hmm.emissions.natural`."""
        raise self._no_natural_parameters()

    def natural_weights(self) -> FloatArray:
        """The w (F, K) of this record, for which a = 0; ``-inf`` where something is impossible."""
        raise self._no_natural_parameters()

    def from_natural(self, weights: FloatArray) -> tuple[Emission, FloatArray]:
        """The record with the weights w (F, K) on the features of this one, and its log normalisers a
        (K,)."""
        raise self._no_natural_parameters()

    def natural_shift(self, weights: FloatArray) -> FloatArray:
        """A vector (F,) that makes w proper when it is added to the weights of every state, which changes no
        p(states | x); zeros where every w is."""
        return np.zeros(len(weights))

    def _no_natural_parameters(self) -> UnsupportedError:
        return UnsupportedError(
            f"{type(self).__name__} has no natural parameters, which discriminative training needs; use "
            "Categorical, Multinomial, Poisson, Gaussian or a Product of them, or implement "
            "natural_features, natural_weights and from_natural"
        )

    def points(self, values: NDArray[Any]) -> FloatArray:
        """What k-means should cluster, (N, D), missing entries filled by column means; D = 0 says that there
        is nothing to cluster."""
        rows = np.asarray(values, np.float64).reshape(len(values), -1)
        missing = np.isnan(rows)
        return np.where(missing, column_moments(rows)[0], rows) if missing.any() else rows

    @property
    def n_parameters(self) -> int:
        """Free parameters, for AIC and BIC."""
        raise UnsupportedError(
            f"{type(self).__name__} does not count its free parameters; implement n_parameters"
        )

    @property
    def given_states(self) -> int | None:
        """The number of states that the parameters are of, as far as there are any."""
        return self.n_states

    def permute(self, order: ArrayLike) -> Emission:
        """The states renumbered: state k of the result is state ``order[k]`` of this one.

        In a dataclass these are the rows of all array fields but those named in ``shared``.
        """
        order = check_order(order, self.given_states)
        moved = {name: a[order] for name, a in _array_fields(self).items() if name not in self.shared}
        return type(self)(**{**_fields(self), **moved})

    def permute_statistics(self, statistics: Mapping[str, FloatArray], order: IntArray) -> Statistics:
        """Statistics of this record as those of the renumbered one: the rows of arrays with one per state."""
        return {key: a[order] if a.shape[:1] == order.shape else a for key, a in statistics.items()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(_shown(self))})"


def _shown(emission: Any) -> list[str]:
    if not dataclasses.is_dataclass(emission):
        return [f"n_states={emission.n_states}"]
    defaults = {f.name: f.default for f in dataclasses.fields(emission)}
    return [
        f"{name}={'x'.join(map(str, v.shape))} array" if isinstance(v, np.ndarray) else f"{name}={v!r}"
        for name, v in _fields(emission).items()
        if isinstance(v, np.ndarray) or v != defaults[name]
    ]


def _fields(emission: Any) -> dict[str, Any]:
    """What the constructor of a dataclass was given, by name."""
    if not dataclasses.is_dataclass(emission):
        raise UnsupportedError(
            f"{type(emission).__name__} is not a dataclass, so its parameters are not known by name; make it "
            f"a frozen dataclass, or implement permute"
        )
    return {f.name: getattr(emission, f.name) for f in dataclasses.fields(emission) if f.init}


def _array_fields(emission: Emission) -> dict[str, NDArray[Any]]:
    return {name: value for name, value in _fields(emission).items() if isinstance(value, np.ndarray)}
