"""The parameters of an input-output HMM: the chain scores that they give data, and random starts.

With f_t = [u_t, 1] the features of step t,

    p(z_1 = k | u_1) = softmax_k <A[k], f_1>
    p(z_t = k | z_{t-1} = j, u_t) = softmax_k <B[j, k], f_t>

and p(x_t | z_t, u_t) the emission. Learning centres the inputs first. That changes no probability, only the
intercepts, which have no prior.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.logspace import log_softmax
from trellis.core.registration import register
from trellis.hmm.input_output.conditional_emission import ConditionalEmission
from trellis.structures.chain.scores.chain_scores import ChainScores

STAY = 1.0  # the log-odds of staying in a state at the start of learning


@register
@dataclass(frozen=True, eq=False)
class IOParameters:
    """``initial``: A, (K, n_inputs + 1). ``transitions``: B, (K, K, n_inputs + 1). Intercepts come last."""

    initial: FloatArray
    transitions: FloatArray
    emission: ConditionalEmission

    @property
    def n_states(self) -> int:
        return len(self.initial)

    @property
    def n_inputs(self) -> int:
        return int(self.initial.shape[1]) - 1

    def check(self) -> None:
        """Shapes must fit each other, and all be finite."""
        k, width = len(self.initial), self.initial.shape[-1]
        for name, shape in (("initial", (k, width)), ("transitions", (k, k, width))):
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
                raise DataError(f"{name} has shape {array.shape}; it must be finite, of shape {shape}")
        weights = self.emission.weights
        if weights is None or (len(weights), weights.shape[-1]) != (k, width):
            raise DataError(
                f"the emission must have weights for {k} states and {width - 1} inputs and an intercept"
            )

    def shift_inputs(self, by: FloatArray) -> IOParameters:
        """The same model for inputs reduced by ``by``."""
        emission = self.emission.with_weights(_shift(self.emission.weights, by))
        return IOParameters(_shift(self.initial, by), _shift(self.transitions, by), emission)

    def log_initial(self, features: FloatArray) -> FloatArray:
        """(N, K)"""
        return log_softmax(features @ self.initial.T, axis=1)

    def log_transitions(self, features: FloatArray) -> FloatArray:
        """(K, K, N): row j of matrix t is log p(z_t | z_{t-1} = j, u_t). Steps are the last axis because sums
        over a short last axis are slow.
        """
        k = self.n_states
        return log_softmax((self.transitions.reshape(k * k, -1) @ features.T).reshape(k, k, -1), axis=1)

    def prior_scores(self, features: FloatArray, offsets: IntArray) -> ChainScores:
        """The chain of the states alone: its log-partition is 0."""
        unary = np.zeros((len(features), self.n_states))
        first = first_steps(offsets)
        unary[first] = self.log_initial(features[first])
        transitions = np.ascontiguousarray(self.log_transitions(features).transpose(2, 0, 1))
        zeros = np.zeros(self.n_states)
        return ChainScores(unary, transitions, zeros, zeros, offsets)

    def scores(self, values: NDArray[Any], features: FloatArray, offsets: IntArray) -> ChainScores:
        """The chain whose score is log p(x, z | u)."""
        prior = self.prior_scores(features, offsets)
        return prior.with_unary(prior.unary + self.emission.log_likelihood(values, features))

    def log_prior(self, l2: float) -> float:
        slopes = float(np.sum(self.initial[:, :-1] ** 2) + np.sum(self.transitions[..., :-1] ** 2))
        return self.emission.log_prior() - 0.5 * l2 * slopes

    @property
    def n_parameters(self) -> int:
        k, width = self.n_states, self.n_inputs + 1
        return (k - 1) * width * (k + 1) + self.emission.n_parameters


def with_intercept(inputs: FloatArray) -> FloatArray:
    """Inputs with a column of ones, (N, n_inputs + 1)."""
    return np.hstack([inputs, np.ones((len(inputs), 1))])


def _shift(weights: FloatArray | None, by: FloatArray) -> FloatArray:
    if weights is None:
        raise DataError("the emission has no weights yet; fit the model first")
    moved = weights.copy()
    moved[..., -1] += weights[..., :-1] @ by
    return moved


def first_steps(offsets: IntArray) -> IntArray:
    """The first step of every sequence that has one."""
    return offsets[:-1][np.diff(offsets) > 0]


def random_starts(
    n_states: int,
    n_starts: int,
    seed: int,
    values: NDArray[Any],
    features: FloatArray,
    emission: ConditionalEmission,
) -> Iterator[IOParameters]:
    """Transitions that depend little on the inputs, and emissions near the best single one."""
    spread = features.std(axis=0)
    spread[spread == 0] = 1.0
    own = np.arange(n_states)
    for sequence in np.random.SeedSequence(seed).spawn(n_starts):
        rng = np.random.default_rng(sequence)
        initial = 0.5 * rng.normal(size=(n_states, len(spread))) / spread
        transitions = 0.5 * rng.normal(size=(n_states, n_states, len(spread))) / spread
        transitions[own, own, -1] += STAY
        emitted = emission.initialise(values, features, n_states, rng)
        yield IOParameters(initial, transitions, emitted)
