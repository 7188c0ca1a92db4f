"""Looking into a trained chain: its strongest weights, and the HMM that it is equivalent to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.logspace import softmax_and_log_sum
from trellis.features.encoded import Encoded
from trellis.features.hashed_names import HashedEncoder, shared_features
from trellis.structures.chain.labeler.hmm_conversion import normalised_chain

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.chain_labeler import ChainLabeler
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler


def strongest_weights(model: ChainLabeler, n: int) -> dict[Any, list[tuple[str, float]]]:
    """For each label (or latent state) the n features with the largest weights in absolute value."""
    n = check_int("n", n, 1)
    feature, label, weight = model.layout_.weight_entries(model.weights_)
    names = model.encoder_.feature_names()
    order = np.lexsort((feature, -np.abs(weight), label))
    feature, weight = feature[order], weight[order]
    states = model.latent_.states.labels
    bounds = np.searchsorted(label[order], np.arange(len(states) + 1))
    found = {}
    for k, state in enumerate(states):
        top = range(bounds[k], min(bounds[k] + n, bounds[k + 1]))
        found[state] = [(names[feature[i]], float(weight[i])) for i in top]
    return found


def said_of_hashing(model: ChainLabeler) -> str | None:
    """How many features share buckets, in one sentence; None where features are not hashed."""
    if not isinstance(model.encoder_, HashedEncoder):
        return None
    buckets, used = model.encoder_.buckets, len(np.unique(model.layout_.weight_entries(model.weights_)[0]))
    features, shared = shared_features(buckets, used)
    if used == buckets:
        return f"all {buckets} buckets of hashed features are used; use more buckets"
    return (
        f"features are hashed, and their names not kept: {used} of {buckets} buckets are used, by about "
        f"{features} features, of which about {shared} share one"
    )


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
    the step gives M[j, k] = exp(A[j, k]) sum_x exp(W[k, x]), and P(x | k) = exp(W[k, x]) / sum_x' exp(W[k,
    x']); the backward pass of ``hmm_conversion`` gives the rest, for a given ``length``
    exactly, and with ``length=None`` in the limit of long sequences.
    """
    if model.layout_.n_edge:
        raise UnsupportedError(
            "a chain whose transitions depend on the input is not an HMM; fit it without transition_features"
        )
    if isinstance(model.encoder_, HashedEncoder):
        raise UnsupportedError(
            "hashed features have no names, and buckets are not symbols; fit the chain without hashing"
        )
    if not model.one_symbol_:
        raise UnsupportedError(
            "an HMM needs exactly one symbol per step; fit the chain on sequences of plain strings"
        )
    w, p = model.layout_.views(model.weights_), model.penalties_
    scores = model.layout_.feature_weights(model.weights_).T
    emissions, log_sums = softmax_and_log_sum(scores)
    emission_sum = log_sums[:, 0]
    start = w.start + p.start + emission_sum
    step = model.transition_table() + emission_sum[None, :]
    initial, transitions = normalised_chain(start, step, w.end + p.end, length)
    symbols = model.encoder_.feature_names()
    return HMMProbabilities(list(model.latent_.states.labels), symbols, initial, transitions, emissions)
