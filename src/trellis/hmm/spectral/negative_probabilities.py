"""Negative probability estimates: what to do about them, and a report of where they occur.

Operators estimated from samples are not those of any hidden Markov model; their products are estimates with
errors of both signs, and that of a probability near 0 may be negative. There are three policies: raise an
error ("error"), raise estimates to a floor and warn ("clip"), or return the signed numbers ("keep").
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import NumericalError
from trellis.data.sequences import Sequences

BLOCK = 2**20  # estimates that are held at a time


class SpectralWarning(UserWarning):
    """An estimate is impossible or unreliable, and was used nevertheless.

    Examples
    --------
    >>> from trellis.hmm.spectral import SpectralWarning
    >>> issubclass(SpectralWarning, UserWarning)
    True
    """


@dataclass(frozen=True)
class NegativeProbabilities:
    """Of ``n_probabilities`` estimates p(x | x_1 .. x_{t-1}), for every step and every symbol x, how many are
    negative, how many of those are of symbols that occurred, and which is the most negative (-1: none).

    Examples
    --------
    >>> from trellis.hmm.spectral import NegativeProbabilities
    >>> found = NegativeProbabilities(100, 2, 0, -0.01, sequence=0, step=3, symbol=1)
    >>> found.n_negative, found.most_negative
    (2, -0.01)
    """

    n_probabilities: int
    n_negative: int
    n_negative_observed: int
    most_negative: float
    sequence: int
    step: int
    symbol: int

    def __str__(self) -> str:
        if not self.n_negative:
            return f"none of {self.n_probabilities:,} probabilities is negative"
        return (
            f"{self.n_negative:,} of {self.n_probabilities:,} probabilities are negative "
            f"({self.n_negative_observed:,} of symbols that occurred); the most negative is "
            f"{self.most_negative:.3g}, of symbol {self.symbol} at step {self.step} of sequence "
            f"{self.sequence}"
        )


def report_negative(states: FloatArray, readout: FloatArray, data: Sequences) -> NegativeProbabilities:
    """All estimates ``readout`` (M, K) times the state (K,) before each step; the symbol M is missing."""
    n_symbols = len(readout)
    n_negative, n_observed, lowest, place = 0, 0, 0.0, (-1, -1, -1)
    size = max(1, BLOCK // n_symbols)
    for first in range(0, len(states), size):
        estimates = states[first : first + size] @ readout.T
        symbols = data.values[first : first + size]
        n_negative += int((estimates < 0.0).sum())
        known = np.flatnonzero(symbols < n_symbols)
        n_observed += int((estimates[known, symbols[known]] < 0.0).sum())
        row, symbol = np.unravel_index(int(estimates.argmin()), estimates.shape)
        if estimates[row, symbol] < lowest:
            lowest, place = float(estimates[row, symbol]), (*data.locate(first + int(row)), int(symbol))
    return NegativeProbabilities(len(states) * n_symbols, n_negative, n_observed, lowest, *place)


def apply_policy(
    values: FloatArray, on_negative: str, floor: float, place: Callable[[tuple[int, ...]], str]
) -> FloatArray:
    """``values`` under the policy; ``place`` describes the position of an entry."""
    wrong = np.argwhere(values < 0)
    if len(wrong) and on_negative != "keep":
        at = tuple(int(i) for i in wrong[0])
        message = (
            f"{len(wrong)} of {values.size} probability estimates are negative, the first is "
            f"{values[at]:.3g} (at {place(at)}); more data or fewer states make this rarer"
        )
        if on_negative == "error":
            raise NumericalError(f"{message}, and on_negative='clip' or 'keep' accepts them")
        warnings.warn(f"{message}; they were raised to {floor:g}", SpectralWarning, stacklevel=4)
    return np.maximum(values, floor) if on_negative == "clip" else values
