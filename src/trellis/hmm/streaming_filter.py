"""A filter that takes one observation at a time: O(K^2) work and K numbers of memory, however long it runs.

It keeps log p(y_t | x_1..x_t), so that an outlier is answered as exactly as anything else:

    f_t(k) = log p(x_t | k) + log sum_j exp( f_{t-1}(j) + log A[j, k] ) - log p(x_t | x_1..x_{t-1})
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError
from trellis.hmm.hmm_kernels import filter_step
from trellis.hmm.hmm_parameters import HMMParameters


class StreamingFilter:
    """``update(x)`` gives p(y_t | x_1..x_t); ``predict(h)`` gives p(y_{t+h} | x_1..x_t).

    ``log_likelihood`` is log p(x_1..x_t) and ``n_steps`` is t. ``reset()`` begins a new sequence.

    Examples
    --------
    >>> from trellis import HMM, emissions
    >>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> hmm = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    >>> stream = hmm.streaming_filter()
    >>> stream.update(0).round(3).tolist()
    [0.818, 0.182]
    >>> stream.update(1).round(3).tolist()
    [0.278, 0.722]
    """

    def __init__(self, parameters: HMMParameters) -> None:
        self._parameters = parameters
        self.reset()

    def reset(self) -> None:
        self.n_steps = 0
        self.log_likelihood = 0.0
        self._log_filter = np.full(self._parameters.n_states, -np.inf)

    @property
    def probabilities(self) -> FloatArray:
        """p(y_t | x_1..x_t); before the first observation, p(y_1)."""
        if self.n_steps == 0:
            return self._parameters.initial.copy()
        probabilities: FloatArray = np.exp(self._log_filter)
        return probabilities

    def update(self, observation: Any) -> FloatArray:
        """Take the next observation (NaN: a missing one) and return the filtered probabilities.

        One that is impossible here raises ``InfeasibleError`` and is not taken.
        """
        chain = self._parameters.chain
        emission = self._parameters.emission
        rows = emission.check(
            np.ma.asarray(observation)[None] if _masked(observation) else np.array([observation])
        )
        k = len(self._log_filter)
        after, probabilities = np.empty(k), np.empty(k)
        total = filter_step(
            emission.log_likelihood(rows)[0], chain.log_initial, chain.transitions, chain.log_transitions,
            self._log_filter, self.n_steps, after, probabilities,
        )  # fmt: skip
        if total == -np.inf:
            raise InfeasibleError(
                f"the observation at step {self.n_steps} has probability zero after those before it; "
                "leave it out, or give a missing value in its place"
            )
        self._log_filter = after
        self.log_likelihood += total
        self.n_steps += 1
        return probabilities

    def predict(self, steps: int = 1) -> FloatArray:
        """p(y_{t+steps} | x_1..x_t), (K,)."""
        steps = check_int("steps", steps, 1)
        now, ahead = self.probabilities, steps if self.n_steps else steps - 1
        transitions = self._parameters.transitions
        if ahead > len(now):  # a power of the matrix takes fewer operations than that many products
            return np.asarray(now @ np.linalg.matrix_power(transitions, ahead))
        for _ in range(ahead):
            now = now @ transitions
        return now


def _masked(observation: Any) -> bool:
    return isinstance(observation, np.ma.MaskedArray) or observation is np.ma.masked
