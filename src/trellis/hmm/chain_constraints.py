"""What is fixed about a chain: zeros that stay zero, states that share a row, and priors.

With expected counts c of first states and C of transitions the M-step maximises

    sum_k (c_k + a_k) log initial_k + sum_jk (C_jk + P_jk) log A_jk

over the probabilities that the structure allows: fixed zeros stay out, and rows of states in one tied group
are one row, whose counts (and pseudo-counts) are the sums over the group. Pseudo-counts of 0 give maximum
likelihood; others the mode under Dirichlet(1 + pseudo-count) priors. A row without any count keeps its
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError

NO_WEIGHT = 1e-290
NEGLIGIBLE = 1e-100  # of a row's expected count: less is none, and the transition becomes impossible


def left_right(n_states: int, jump: int = 1, stay: float = 0.5) -> tuple[FloatArray, FloatArray]:
    """``initial, transitions`` of a chain that begins in state 0 and never turns back.

    Each state stays with probability ``stay`` or moves on by 1 to ``jump`` states, with equal probability;
    the last one stays. Zeros are fixed in learning, so the topology remains.
    """
    if n_states < 1 or jump < 1 or not 0.0 <= stay < 1.0:
        raise DataError(
            f"n_states={n_states}, jump={jump}, stay={stay}: give at least one state and a jump of at least "
            "1, and a probability to stay below 1"
        )
    transitions = np.zeros((n_states, n_states))
    for j in range(n_states):
        ahead = min(jump, n_states - 1 - j)
        transitions[j, j] = stay if ahead else 1.0
        transitions[j, j + 1 : j + 1 + ahead] = (1.0 - stay) / max(ahead, 1)
    return np.eye(n_states)[0], transitions


@dataclass(frozen=True, eq=False)
class Structure:
    """``allowed_initial`` (K,) and ``allowed`` (K, K), tied ``groups`` (K,), and pseudo-counts."""

    allowed_initial: NDArray[np.bool_]
    allowed: NDArray[np.bool_]
    groups: NDArray[np.int64]
    initial_pseudocount: FloatArray
    transition_pseudocount: FloatArray

    @classmethod
    def of(
        cls,
        n_states: int,
        initial: FloatArray | None,
        transitions: FloatArray | None,
        tied: Any = None,
        initial_pseudocount: ArrayLike = 0.0,
        transition_pseudocount: ArrayLike = 0.0,
    ) -> Structure:
        k = n_states
        allowed_initial = np.ones(k, bool) if initial is None else initial > 0
        allowed = np.ones((k, k), bool) if transitions is None else transitions > 0
        groups = np.arange(k) if tied is None else _groups(tied, k)
        for group in np.unique(groups):
            rows = np.flatnonzero(groups == group)
            if (allowed[rows] != allowed[rows[0]]).any():
                raise DataError(
                    f"tied states {rows.tolist()} have different fixed zeros in transitions; states that "
                    "share a row must share its zeros"
                )
        prior = np.where(
            allowed_initial, _pseudocounts("initial_pseudocount", initial_pseudocount, (k,)), 0.0
        )
        priors = np.where(
            allowed, _pseudocounts("transition_pseudocount", transition_pseudocount, (k, k)), 0.0
        )
        return cls(allowed_initial, allowed, groups, prior, priors)

    def maximise(
        self, start: FloatArray, pairs: FloatArray, initial: FloatArray, transitions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """New probabilities from expected counts; ``initial`` and ``transitions`` are the ones before."""
        return (
            _normalised((start + self.initial_pseudocount)[None], initial[None])[0],
            _normalised(self.summed(pairs + self.transition_pseudocount), transitions),
        )

    def summed(self, rows: FloatArray) -> FloatArray:
        """Rows of tied states replaced by their sum."""
        if len(np.unique(self.groups)) == len(self.groups):
            return rows
        same = self.groups[:, None] == self.groups[None, :]
        total: FloatArray = same.astype(np.float64) @ rows
        return total

    def log_prior(self, initial: FloatArray, transitions: FloatArray) -> float:
        """Log density of the Dirichlet priors, without their constants."""
        first = xlogy(self.initial_pseudocount, initial).sum()
        return float(first + xlogy(self.transition_pseudocount, transitions).sum())

    @property
    def n_parameters(self) -> int:
        """Free probabilities: in each different row one less than it has allowed entries."""
        rows = [int(np.argmax(self.groups == group)) for group in np.unique(self.groups)]
        free = (self.allowed[rows].sum(axis=1) - 1).clip(0).sum()
        return int(free + self.allowed_initial.sum() - 1)


def checked_probabilities(name: str, given: Any, shape: tuple[int, ...]) -> FloatArray | None:
    """Start probabilities as the user gave them, rows adding up to 1 exactly; None where there are none."""
    if given is None:
        return None
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{name} must be an array of probabilities of shape {shape}, got {given!r}"
        ) from error
    if array.shape != shape:
        raise DataError(f"{name} has shape {array.shape}; it must have shape {shape}")
    rows = array.reshape(-1, shape[-1])
    wrong = ~((rows >= 0).all(axis=1) & (np.abs(rows.sum(axis=1) - 1.0) <= 1e-6))
    if wrong.any():
        row = int(np.argmax(wrong))
        where = f"row {row} of {name}" if array.ndim > 1 else name
        raise DataError(
            f"{where} is no probability distribution: it must not be negative and must add up to 1 "
            f"(its sum is {rows[row].sum():g})"
        )
    array /= array.sum(axis=-1, keepdims=True)
    return array


def _normalised(counts: FloatArray, before: FloatArray) -> FloatArray:
    weight = counts.sum(axis=1, keepdims=True)
    empty = weight[:, 0] <= NO_WEIGHT
    table: FloatArray = counts / np.where(empty[:, None], 1.0, weight)
    table[empty] = before[empty]
    return table


def _groups(tied: Any, n_states: int) -> NDArray[np.int64]:
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


def _pseudocounts(name: str, given: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    words = f"{name} must be a number that is not negative, or an array of them of shape {shape}"
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(words) from error
    if array.shape not in ((), shape) or not (np.isfinite(array) & (array >= 0)).all():
        raise DataError(words)
    return np.broadcast_to(array, shape)
