"""Symbols: p(x_t = m | z_t = k, u_t) is a softmax over m of <W[k, m], [u_t, 1]>.

The M-step is one weighted multinomial logistic regression for each state (``softmax_regression``), with the
penalty (l2 / 2) ||slopes||^2 in the objective: MAP under a normal prior. Missing symbols (-1 or NaN) have
probability 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arguments import check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.logspace import log_softmax, softmax
from trellis.core.registration import register
from trellis.data.row_checks import check_symbols
from trellis.hmm.input_output.conditional_emission import ConditionalEmission, Forecast, WeightedData, perturb
from trellis.hmm.input_output.regression_searches import Search, WholeSearch
from trellis.hmm.input_output.softmax_regression import regression_sums, softmax_search, step_blocks


@register
@dataclass(frozen=True, eq=False)
class SoftmaxEmission(ConditionalEmission):
    """``weights`` (K, n_symbols, n_inputs + 1); ``n_symbols`` None: the largest symbol in the data plus 1.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis import IOHMM
    >>> from trellis.hmm.input_output import SoftmaxEmission
    >>> u = np.array([[-1.0], [1.0], [-1.0], [1.0]] * 10)
    >>> model = IOHMM(1, SoftmaxEmission(2), random_state=0).fit([(u[:, 0] > 0).astype(int)], [u])
    >>> model.emission_.weights.shape
    (1, 2, 2)
    """

    n_symbols: int | None = None
    l2: float = 1e-3

    def __post_init__(self) -> None:
        check_nonnegative("l2", self.l2)
        super().__post_init__()
        if self.weights is not None:
            object.__setattr__(self, "n_symbols", self.weights.shape[1])

    def check(self, values: NDArray[Any]) -> NDArray[Any]:
        return check_symbols(values, self.n_symbols)

    def missing(self, n: int) -> NDArray[Any]:
        return np.full(n, -1, dtype=np.int64)

    def log_likelihood(self, values: NDArray[Any], features: FloatArray) -> FloatArray:
        n_states, n_symbols, _ = self._weights.shape
        out = np.empty((len(values), n_states))
        for first, last in step_blocks(len(values), n_symbols):
            steps, codes, x = np.arange(last - first), values[first:last], features[first:last].T
            for k in range(n_states):
                out[first:last, k] = log_softmax(self._weights[k] @ x, axis=0)[codes, steps]
        out[values < 0] = 0.0
        return out

    def search(self, k: int) -> Search | WholeSearch:
        return softmax_search(self._weights[k], self.l2)

    def sums(self, given: WeightedData, k: int, request: Any) -> Any:
        codes, posterior, features = given.symbols_seen
        shape = self._weights[k].shape

        def targets(first: int, last: int) -> FloatArray:
            one_hot = np.zeros((shape[0], last - first))
            one_hot[codes[first:last], np.arange(last - first)] = posterior[first:last, k]
            return one_hot

        return regression_sums(features, targets, shape, request)

    def assembled(self, found: list[Any]) -> SoftmaxEmission:
        return replace(self, weights=np.stack(found))

    def log_prior(self) -> float:
        slopes = self._weights[:, :, :-1]
        return -0.5 * self.l2 * float(np.vdot(slopes, slopes))

    def initialise(
        self, values: NDArray[Any], features: FloatArray, n_states: int, rng: np.random.Generator
    ) -> SoftmaxEmission:
        n_symbols = int(values.max(initial=0)) + 1 if self.n_symbols is None else self.n_symbols
        flat = replace(self, weights=np.zeros((1, n_symbols, features.shape[1])))
        one = flat.maximise(WeightedData(values, features, np.ones((len(values), 1)), flat))
        # a symbol that never occurs has a weight that runs away: keep it within reach of the other states
        weights = np.clip(one._weights[0], -20.0, 20.0)
        return replace(one, weights=perturb(weights, features, n_states, rng))

    def sample(
        self, states: NDArray[np.integer], features: FloatArray, rng: np.random.Generator
    ) -> NDArray[Any]:
        """The inverse of the cumulative distribution, one uniform number for each step."""
        uniform = rng.random((len(states), 1))
        symbols = np.empty(len(states), dtype=np.int64)
        for first, last in step_blocks(len(states), self._weights[0].size):
            scores = np.einsum("np,nmp->nm", features[first:last], self._weights[states[first:last]])
            cumulative = softmax(scores).cumsum(axis=1)
            cumulative[:, -1] = 1.0  # rounding must not leave a gap at the top
            symbols[first:last] = (uniform[first:last] < cumulative).argmax(axis=1)
        return symbols

    def forecast(self, states: FloatArray, features: FloatArray) -> Forecast:
        by_state = softmax(np.einsum("np,kmp->nkm", features, self._weights))
        return Forecast(states, probabilities=np.einsum("nk,nkm->nm", states, by_state))

    @property
    def n_parameters(self) -> int:
        n_states, n_symbols, width = self._weights.shape
        return int(n_states * (n_symbols - 1) * width)
