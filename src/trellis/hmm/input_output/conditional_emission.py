"""What the states of an input-output HMM emit: p(x_t | z_t, u_t), with its own weighted M-step.

The features of a step are its inputs and a 1 (the last column), so that the last weight of every regression
is its intercept.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.shards import over_items
from trellis.hmm.emissions.emission_checks import freeze_array, required
from trellis.hmm.input_output.regression_searches import Search, WholeSearch, answered


@dataclass(frozen=True, eq=False)
class WeightedData:
    """Observations with the posterior (N, K) of the states that may have emitted them, and the emission
    ``at`` which the posterior was taken: what is missing in an observation is filled in by it.
    """

    values: NDArray[Any]
    features: FloatArray
    posterior: FloatArray
    at: Any

    @cached_property
    def symbols_seen(self) -> tuple[NDArray[Any], FloatArray, FloatArray]:
        """Of steps whose symbol is known: the symbols, the posterior (N, K), and the features (P, N)."""
        seen = self.values >= 0
        return self.values[seen], self.posterior[seen], np.ascontiguousarray(self.features[seen].T)


@dataclass(frozen=True, eq=False)
class Forecast:
    """The next h steps: ``states`` (h, K), and of the observations either their ``probabilities`` (h, M) or
    their ``mean`` (h, D) and ``covariance`` (h, D, D).
    """

    states: FloatArray
    probabilities: FloatArray | None = None
    mean: FloatArray | None = None
    covariance: FloatArray | None = None


@dataclass(frozen=True, eq=False)
class ConditionalEmission(ABC):
    """An immutable record of options and, once ``weights`` (K, outputs, n_inputs + 1) are known, a
    distribution. Intercepts come last.
    """

    weights: FloatArray | None = dataclasses.field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.weights is not None:
            freeze_array(self, "weights", ndim=3)

    @property
    def _weights(self) -> FloatArray:
        """``weights``, which must have been given or fitted."""
        return required(self, self.weights)

    def with_weights(self, weights: FloatArray) -> Self:
        return dataclasses.replace(self, weights=weights)

    def without_parameters(self) -> Self:
        """The options alone."""
        return dataclasses.replace(self, weights=None)

    @abstractmethod
    def check(self, values: NDArray[Any]) -> NDArray[Any]:
        """Packed observations in the form that the other methods take; an error names the row."""

    @abstractmethod
    def missing(self, n: int) -> NDArray[Any]:
        """``n`` observations of which nothing is known."""

    def unobserved(self, values: NDArray[Any]) -> BoolArray:
        """Which of the checked observations are missing altogether, (N,)."""
        whole: BoolArray
        if values.dtype.kind != "f":
            whole = values < 0
            return whole
        whole = np.isnan(values).all(axis=1)
        return whole

    @abstractmethod
    def log_likelihood(self, values: NDArray[Any], features: FloatArray) -> FloatArray:
        """log p(x_t | z_t = k, u_t), (N, K); what is missing is marginalised."""

    def maximise(self, given: WeightedData, n_jobs: int = 1) -> Self:
        """The record with the largest expected log-likelihood plus log-prior."""
        found = over_items(
            lambda k: answered(self.search(k), lambda request: self.sums(given, k, request)),
            len(self._weights),
            n_jobs,
        )
        return self.assembled(found)

    def search(self, k: int) -> Search | WholeSearch:
        """The M-step of state k as requests for sums over the data: see :mod:`.regression_searches`."""
        raise UnsupportedError(
            f"{type(self).__name__} does not give its M-step as sums, which learning needs; implement "
            "search, sums and assembled"
        )

    def sums(self, given: WeightedData, k: int, request: Any) -> Any:
        """What these data answer to a request of the search of state k; those of several parts are added."""
        raise NotImplementedError

    def assembled(self, found: list[Any]) -> Self:
        """The record out of the results of the searches."""
        raise NotImplementedError

    @abstractmethod
    def log_prior(self) -> float: ...

    @abstractmethod
    def initialise(
        self, values: NDArray[Any], features: FloatArray, n_states: int, rng: np.random.Generator
    ) -> Self:
        """The best single regression, perturbed for each state."""

    @abstractmethod
    def sample(
        self, states: NDArray[np.integer], features: FloatArray, rng: np.random.Generator
    ) -> NDArray[Any]: ...

    @abstractmethod
    def forecast(self, states: FloatArray, features: FloatArray) -> Forecast:
        """The distribution of the observations when the states have the given probabilities."""

    @property
    @abstractmethod
    def n_parameters(self) -> int: ...

    def expected_log_likelihood(self, given: WeightedData) -> float:
        """sum_t sum_k posterior[t, k] log p(x_t | k, u_t) under this record's parameters."""
        return float(np.vdot(given.posterior, self.log_likelihood(given.values, given.features)))

    def magnitude(self, weight: FloatArray) -> float:
        """About the sum of the sizes of the terms of the expected log-likelihood that may cancel, for states
        with the posterior ``weight`` (K,): rounding moves it by 1e-16 of this."""
        return 0.0


def perturb(
    weights: FloatArray, features: FloatArray, n_states: int, rng: np.random.Generator, scale: Any = 1.0
) -> FloatArray:
    """(n_states, outputs, P) copies of ``weights`` (outputs, P), perturbed at random by about ``scale``
    (for each output) over the spread of the inputs; with a single state they are unchanged.
    """
    if n_states == 1:
        return weights[None].copy()
    spread = features.std(axis=0)
    spread[spread == 0] = 1.0  # the intercept, and inputs that never change
    noise = rng.normal(size=(n_states, *weights.shape)) / spread
    moved: FloatArray = weights + noise * np.broadcast_to(scale, weights.shape[:1])[:, None]
    return moved
