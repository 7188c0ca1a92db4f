"""Looking into a trained chain: its strongest weights, and the HMM that it is equivalent to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.errors import UnsupportedError
from trellis.features.encoded import Encoded
from trellis.scores.parts import FloatArray

if TYPE_CHECKING:
    from trellis.estimators.chain_labeler import ChainLabeler
    from trellis.estimators.sequence_labeler import SequenceLabeler

_SQUARINGS = 50  # the limit of long sequences is read off at 2^50 steps


def strongest_weights(model: ChainLabeler, n: int) -> dict[Any, list[tuple[str, float]]]:
    """For each label the n features with the largest weights in absolute value, strongest first."""
    if n < 1:
        raise UnsupportedError(f"n={n} must be at least 1")
    weights = model.layout_.feature_weights(model.weights_)
    names = model.encoder_.feature_names()
    found = {}
    for k, label in enumerate(model.labels_.labels):
        column = weights[:, k]
        top = np.argsort(-np.abs(column), kind="stable")[:n]
        found[label] = [(names[f], float(column[f])) for f in top if column[f] != 0.0]
    return found


def one_symbol_per_step(inputs: Encoded) -> bool:
    """Whether every step has exactly one feature, of value 1: what a categorical HMM takes."""
    nodes = inputs.nodes
    return inputs.edges is None and bool((nodes.values == 1.0).all() and (np.diff(nodes.indptr) == 1).all())


@dataclass(frozen=True, eq=False)
class HMMProbabilities:
    """A hidden Markov model over ``symbols`` with the states ``states``.

    ``initial``: (K,). ``transitions``: (K, K), or (n - 1, K, K) for labellings of n steps. ``emissions``:
    (K, M). A state that no sequence passes through, or that none goes on from, has a row of zeros.
    """

    states: list[Any]
    symbols: list[str]
    initial: FloatArray
    transitions: FloatArray
    emissions: FloatArray


def to_hmm(model: SequenceLabeler, length: int | None = None) -> HMMProbabilities:
    """Proper probabilities from the scores of a chain with one symbol per step.

    The chain defines p(x, s) = exp<Phi(x, s), w> / Z over inputs and labellings. Summing the inputs out of
    the step gives M[j, k] = exp(A[j, k]) sum_x exp(W[k, x]); the backward messages b_n = exp(end),
    b_{t-1} = M b_t then give

        P(x | k) = exp(W[k, x]) / sum_x' exp(W[k, x'])
        P(s_t = k | s_{t-1} = j) = M[j, k] b_t[k] / b_{t-1}[j].

    For a given ``length`` this is the same distribution, with transitions that change from step to step. With
    ``length=None`` it is the limit for long sequences, in which b has become an eigenvector of M and the
    transitions stay the same.
    """
    if model.layout_.n_edge:
        raise UnsupportedError(
            "a chain whose transitions depend on the input is not an HMM; fit it without transition_features"
        )
    if not model.one_symbol_:
        raise UnsupportedError(
            "an HMM needs exactly one symbol per step; fit the chain on sequences of plain strings"
        )
    w, p = model.layout_.views(model.weights_), model.penalties_
    scores = model.layout_.feature_weights(model.weights_).T
    emission_sum = np.logaddexp.reduce(scores, axis=1)
    start = w.start + p.start + emission_sum
    step = w.transitions + p.transitions + emission_sum[None, :]
    backward = w.end + p.end
    if length is None:
        backward = _long_run(step, backward)
        transitions = _normalised(step + backward)
    elif length < 1:
        raise UnsupportedError(f"length={length} must be at least 1")
    else:
        k = len(start)
        transitions = np.empty((length - 1, k, k))
        for t in reversed(range(length - 1)):
            transitions[t] = _normalised(step + backward)
            backward = np.logaddexp.reduce(step + backward, axis=1)
    initial = _normalised((start + backward)[None, :])[0]
    emissions = np.exp(scores - emission_sum[:, None])
    symbols = model.encoder_.feature_names()
    return HMMProbabilities(list(model.labels_.labels), symbols, initial, transitions, emissions)


def _long_run(step: FloatArray, end: FloatArray) -> FloatArray:
    """log M^n exp(end) up to a constant, for n without bound: by repeated squaring, in logarithms, so that
    small entries keep their digits.
    """
    power = step
    for _ in range(_SQUARINGS):
        power = np.logaddexp.reduce(power[:, :, None] + power[None, :, :], axis=1)
        top = power.max()
        if top == -np.inf:
            raise UnsupportedError(
                "the constraints allow no long labelling, so there is no limit; give a length"
            )
        power = power - top
    backward: FloatArray = np.logaddexp.reduce(power + end, axis=1)
    after = np.logaddexp.reduce(step + backward, axis=1)
    alive = np.isfinite(backward)
    growth = after[alive] - backward[alive]
    if not alive.any() or not np.allclose(growth, growth[0], rtol=0.0, atol=1e-6):
        raise UnsupportedError(
            "the labels alternate for ever under the constraints, so there is no limit; give a length"
        )
    shifted: FloatArray = backward - backward.max()
    return shifted


def _normalised(log_rows: FloatArray) -> FloatArray:
    """Rows of probabilities; a row that nothing leaves is all zero."""
    top = np.logaddexp.reduce(log_rows, axis=-1, keepdims=True)
    rows: FloatArray = np.exp(log_rows - np.where(np.isfinite(top), top, 0.0))
    return rows
