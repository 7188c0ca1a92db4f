"""Comparing hidden Markov models whose states are numbered differently.

Two restarts of EM may find the same model with its states in another order. What can be compared is what
states do to data: the overlap of two states is the expected number of steps that both explain,

    overlap[j, k] = sum_t p_reference(y_t = j | x) p_other(y_t = k | x)

and the Hungarian algorithm finds the renumbering with the largest overlap in all. The distance between models
needs no states:  (1 / T) (log p_a(x) - log p_b(x)) on x drawn from a estimates the rate of the
Kullback-Leibler divergence from a to b; the distance is the mean of both directions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from trellis.core.errors import DataError

if TYPE_CHECKING:
    from trellis.hmm.hidden_markov_model import HMM

SAMPLED = 20_000  # steps, where no data are given


def align_states(
    reference: HMM, model: HMM, X: Any = None, *, lengths: ArrayLike | None = None, random_state: int = 0
) -> NDArray[np.int64]:
    """The ``order`` for which ``model.permute(order)`` numbers its states as ``reference`` does.

    The overlap is measured on ``X``, or on 20,000 steps drawn from the reference.

    Examples
    --------
    >>> from trellis import HMM, emissions
    >>> from trellis.hmm import align_states
    >>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> hmm = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    >>> align_states(hmm, hmm.permute([1, 0])).tolist()
    [1, 0]
    """
    if reference.n_states != model.n_states:
        raise DataError(
            f"the models have {reference.n_states} and {model.n_states} states; only equal numbers can be "
            "matched"
        )
    if X is None:
        X, _ = reference.sample(SAMPLED, random_state=random_state)
    ours, theirs = reference.smooth(X, lengths=lengths), model.smooth(X, lengths=lengths)
    if isinstance(ours, list):
        ours, theirs = np.concatenate(ours), np.concatenate(theirs)
    _, order = linear_sum_assignment(ours.T @ theirs, maximize=True)
    return np.asarray(order, dtype=np.int64)


def distance(a: HMM, b: HMM, *, n_steps: int = SAMPLED, random_state: int = 0) -> float:
    """Nats per step by which each model explains its own samples better than the other does, averaged over
    both directions; 0 for the same model, whatever the numbering of its states. Infinite where one model
    calls impossible what the other emits.

    Examples
    --------
    >>> from trellis import HMM, emissions
    >>> from trellis.hmm import distance
    >>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> hmm = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    >>> abs(round(distance(hmm, hmm.permute([1, 0])), 6))
    0.0
    """
    rates = []
    for model, other in ((a, b), (b, a)):
        x, _ = model.sample(n_steps, random_state=random_state)
        rates.append((model.log_likelihood(x)[0] - other.log_likelihood(x)[0]) / n_steps)
    return float(np.mean(rates))
