"""Looking into a trained chain: its strongest weights, and the HMM that it is equivalent to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.errors import UnsupportedError
from trellis.scores.parts import FloatArray

if TYPE_CHECKING:
    from trellis.estimators.sequence_labeler import SequenceLabeler


def strongest_weights(model: SequenceLabeler, n: int) -> dict[Any, list[tuple[str, float]]]:
    """For each label the n features with the largest weights in absolute value, strongest first."""
    weights = model.layout_.feature_weights(model.weights_)
    names = model.encoder_.feature_names()
    found = {}
    for k, label in enumerate(model.labels_.labels):
        column = weights[:, k]
        top = np.argsort(-np.abs(column), kind="stable")[:n]
        found[label] = [(names[f], float(column[f])) for f in top if column[f] != 0.0]
    return found


@dataclass(frozen=True, eq=False)
class HMMProbabilities:
    """A hidden Markov model over ``symbols`` with the states ``states``.

    ``initial``: (K,). ``transitions``: (K, K), or (n - 1, K, K) for labellings of n steps. ``emissions``: (K, M).
    """

    states: list[Any]
    symbols: list[str]
    initial: FloatArray
    transitions: FloatArray
    emissions: FloatArray


def to_hmm(model: SequenceLabeler, length: int | None = None) -> HMMProbabilities:
    """Proper probabilities from the scores of a chain with one symbol per step.

    The chain defines p(x, s) = exp<Phi(x, s), w> / Z over inputs and labellings. Summing the inputs out of the step gives
    M[j, k] = exp(A[j, k]) sum_x exp(W[k, x]); the backward messages b_t = M b_{t+1}, b_n = exp(end), then give

        P(x | k) = exp(W[k, x]) / sum_x' exp(W[k, x'])        P(s_t = k | s_{t-1} = j) = M[j, k] b_t[k] / b_{t-1}[j].

    For a given ``length`` this is the same distribution, with transitions that change from step to step. With ``length=None`` it is the limit
    for long sequences, in which b is the leading eigenvector of M and the transitions stay the same.
    """
    if model.layout_.n_edge:
        raise UnsupportedError("a chain whose transitions depend on the input is not an HMM; fit it without transition_features")
    if not model.one_symbol_:
        raise UnsupportedError("an HMM needs exactly one symbol per step; fit the chain on sequences of plain strings")
    w = model.layout_.views(model.weights_)
    p = model.penalties_
    scores = model.layout_.feature_weights(model.weights_).T
    emission_sum = np.logaddexp.reduce(scores, axis=1)
    emissions = np.exp(scores - emission_sum[:, None])
    start = w.start + p.start + emission_sum
    step = w.transitions + p.transitions + emission_sum[None, :]
    backward = w.end + p.end
    if length is None:
        eigenvalues, vectors = np.linalg.eig(np.exp(step - step.max()))
        leading = np.abs(vectors[:, np.argmax(eigenvalues.real)].real)
        with np.errstate(divide="ignore"):
            backward = np.log(leading)
        transitions = _normalised(step + backward[None, :])
    else:
        if length < 1:
            raise UnsupportedError(f"length={length} must be at least 1")
        steps = []
        for _ in range(length - 1):
            joint = step + backward[None, :]
            steps.append(_normalised(joint))
            backward = np.logaddexp.reduce(joint, axis=1)
        k = len(start)
        transitions = np.stack(steps[::-1]) if steps else np.zeros((0, k, k))
    initial = _normalised((start + backward)[None, :])[0]
    return HMMProbabilities(
        list(model.labels_.labels), model.encoder_.feature_names(), initial, transitions, emissions
    )


def _normalised(log_rows: FloatArray) -> FloatArray:
    """Rows of probabilities; a row that nothing leaves is all zero."""
    top = np.logaddexp.reduce(log_rows, axis=-1, keepdims=True)
    rows: FloatArray = np.exp(log_rows - np.where(np.isfinite(top), top, 0.0))
    return rows
