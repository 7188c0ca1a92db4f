"""What a user fixes: starting values, zeros that stay zero, states that share a row, priors, what is learned.

With expected counts c of first states and C of transitions the M-step maximises

    sum_k (c_k + a_k) log initial_k + sum_jk (C_jk + P_jk) log A_jk

over the probabilities that are allowed: fixed zeros stay out, and rows of states in one tied group are one
row, whose counts (and pseudo-counts) are the sums over the group. Pseudo-counts of 0 give maximum likelihood;
others the mode under Dirichlet(1 + pseudo-count) priors. A row without any count keeps its values, and so
does what is not learned, which has no prior.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from trellis.core.arguments import as_floats, check_int, check_names, is_number
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.weighted_counts import NO_WEIGHT, normalise_rows
from trellis.hmm.emissions.emission_checks import check_distributions

PARTS = ("initial", "transitions", "emission")
NEGLIGIBLE = 1e-100  # of the expected count of a row, or of all starts: less is none, and becomes impossible


def left_right(n_states: int, jump: int = 1, stay: float = 0.5) -> tuple[FloatArray, FloatArray]:
    """``initial, transitions`` of a chain that begins in state 0 and never turns back.

    Each state stays with probability ``stay`` or moves on by 1 to ``jump`` states, with equal probability;
    the last one stays. Zeros are fixed in learning, so the topology remains.

    Examples
    --------
    >>> from trellis.hmm import left_right
    >>> initial, transitions = left_right(3)
    >>> transitions.tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 1.0]]
    """
    n_states, jump = check_int("n_states", n_states, 1), check_int("jump", jump, 1)
    if not is_number(stay) or not 0.0 <= stay < 1.0:
        raise DataError(f"stay is {stay!r}; give a probability below 1")
    transitions = np.zeros((n_states, n_states))
    for j in range(n_states):
        ahead = min(jump, n_states - 1 - j)
        transitions[j, j] = stay if ahead else 1.0
        transitions[j, j + 1 : j + 1 + ahead] = (1.0 - stay) / max(ahead, 1)
    return np.eye(n_states)[0], transitions


@dataclass(frozen=True, eq=False)
class TransitionConstraints:
    """Starting values ``initial`` (K,) and ``transitions`` (K, K), None where there are none; which entries
    are ``allowed_initial`` and ``allowed``; tied ``groups`` (K,); pseudo-counts; which of ``PARTS`` to
    ``learn``."""

    initial: FloatArray | None
    transitions: FloatArray | None
    allowed_initial: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    groups: IntArray
    initial_pseudocount: FloatArray
    transition_pseudocount: FloatArray
    learn: frozenset[str] = frozenset(PARTS)

    @classmethod
    def from_options(
        cls,
        n_states: int,
        initial: ArrayLike | None = None,
        transitions: ArrayLike | None = None,
        tied: Any = None,
        initial_pseudocount: ArrayLike = 0.0,
        transition_pseudocount: ArrayLike = 0.0,
        learn: Any = "all",
    ) -> TransitionConstraints:
        """Check the options of :class:`~trellis.HMM`."""
        k = n_states
        first = None if initial is None else check_probabilities("initial", initial, (k,))
        table = None if transitions is None else check_probabilities("transitions", transitions, (k, k))
        allowed_initial = np.ones(k, bool) if first is None else first > 0
        allowed = np.ones((k, k), bool) if table is None else table > 0
        groups = np.arange(k) if tied is None else _groups(tied, k)
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            if (allowed[rows] != allowed[rows[0]]).any():
                raise DataError(
                    f"tied states {rows.tolist()} have different fixed zeros in transitions; states that "
                    "share a row must share its zeros"
                )
        prior = _pseudocounts("initial_pseudocount", initial_pseudocount, allowed_initial)
        priors = _pseudocounts("transition_pseudocount", transition_pseudocount, allowed)
        learned = check_names("learn", learn, PARTS)
        prior, priors = prior * ("initial" in learned), priors * ("transitions" in learned)
        return cls(first, table, allowed_initial, allowed, groups, prior, priors, learned)

    @property
    def tied(self) -> bool:
        return len(np.unique(self.groups)) < len(self.groups)

    def maximise(
        self, start: FloatArray, pairs: FloatArray, initial: FloatArray, transitions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """New probabilities from expected counts; ``initial`` and ``transitions`` are the ones before."""
        counts = pairs + self.transition_pseudocount
        if self.tied:
            counts = (self.groups[:, None] == self.groups).astype(np.float64) @ counts
        if "initial" in self.learn:
            initial = normalise_rows((start + self.initial_pseudocount)[None], initial[None])[0]
        if "transitions" in self.learn:
            transitions = normalise_rows(counts, transitions)
        return initial, transitions

    def log_prior(self, initial: FloatArray, transitions: FloatArray) -> float:
        """Log density of the Dirichlet priors, without their constants."""
        first = xlogy(self.initial_pseudocount, initial).sum()
        return float(first + xlogy(self.transition_pseudocount, transitions).sum())

    @property
    def n_parameters(self) -> int:
        """Free probabilities among what is learned: in each different row one less than it has allowed
        entries."""
        _, rows = np.unique(self.groups, return_index=True)
        free = (self.allowed[rows].sum(axis=1) - 1).clip(0).sum() * ("transitions" in self.learn)
        return int(free + (self.allowed_initial.sum() - 1) * ("initial" in self.learn))


def check_probabilities(name: str, given: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Probabilities as the user gave them, in rows that add up to 1 exactly."""
    array = as_floats(name, given).copy()
    if array.shape != shape:
        raise DataError(f"{name} has shape {array.shape}; it must have shape {shape}")
    check_distributions(name, array)
    array /= array.sum(axis=-1, keepdims=True)
    return array


def _groups(tied: Any, n_states: int) -> IntArray:
    try:
        labels = list(tied)
        order = {label: i for i, label in enumerate(dict.fromkeys(labels))}
    except TypeError as error:
        raise DataError(
            f"tied_transitions is {tied!r}; give one group, a number or a name, for each state"
        ) from error
    if len(labels) != n_states:
        raise DataError(
            f"tied_transitions names {len(labels)} groups; give one for each of the {n_states} states"
        )
    return np.array([order[label] for label in labels])


def _pseudocounts(name: str, given: ArrayLike, allowed: NDArray[np.bool_]) -> FloatArray:
    array = as_floats(name, given)
    if array.shape not in ((), allowed.shape) or not (np.isfinite(array) & (array >= 0)).all():
        raise DataError(
            f"{name} must be a number that is not negative, or an array of them of shape {allowed.shape}"
        )
    return np.where(allowed & (array > NO_WEIGHT), array, 0.0)
