"""Looking into a chain: weights by name, and the HMM that it is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tagging import as_dicts, clouds, noisy_words
from trellis import SequenceLabeler
from trellis.core.errors import DataError, UnsupportedError
from trellis.structures.chain.labeler.inspection import HMMProbabilities


@pytest.fixture(scope="module")
def chain() -> SequenceLabeler:
    return SequenceLabeler(l2=0.5).fit(*noisy_words(30))


def joint(model: SequenceLabeler, length: int) -> dict[tuple[tuple[str, ...], tuple[str, ...]], float]:
    """p(x, s) = exp<Phi(x, s), w> / Z over all inputs and labellings, by enumeration."""
    symbols = model.encoder_.feature_names()
    states = [tuple(s) for s in product(model.classes_, repeat=length)]
    found = {}
    for x in product(symbols, repeat=length):
        scores = {tuple(labels): score for labels, score in model.predict_k_best([list(x)], len(states))[0]}
        found.update({(x, s): scores.get(s, -np.inf) for s in states})
    values = np.array(list(found.values()))
    values = np.exp(values - values.max())
    return dict(zip(found, values / values.sum(), strict=True))


def hmm_joint(hmm: HMMProbabilities, x: tuple[str, ...], s: tuple[str, ...]) -> float:
    state, symbol = [hmm.states.index(k) for k in s], [hmm.symbols.index(w) for w in x]
    p = hmm.initial[state[0]] * hmm.emissions[state[0], symbol[0]]
    for t in range(1, len(s)):
        step = hmm.transitions if hmm.transitions.ndim == 2 else hmm.transitions[t - 1]
        p *= step[state[t - 1], state[t]] * hmm.emissions[state[t], symbol[t]]
    return float(p)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("constraints", [None, [("a", "b"), ("b", "a"), ("a", "c"), ("c", "c"), ("b", "b")]])
def test_hmm_of_a_length_is_the_same_distribution(
    length: int, constraints: list[tuple[str, str]] | None
) -> None:
    X = [["u", "v", "u"], ["v", "w"], ["u"], ["w", "w", "v"]]
    y = [["a", "b", "a"], ["a", "c"], ["b"], ["c", "c", "c"]]
    model = SequenceLabeler(l2=0.1, constraints=constraints).fit(X, y)
    hmm = model.to_hmm(length)
    assert hmm.transitions.shape == (length - 1, 3, 3)
    assert hmm.initial.sum() == pytest.approx(1.0)
    assert_allclose(hmm.emissions.sum(axis=1), 1.0)
    assert_allclose(hmm.transitions.sum(axis=2), 1.0)
    for (x, s), p in joint(model, length).items():
        assert hmm_joint(hmm, x, s) == pytest.approx(p, rel=1e-9, abs=1e-300)


def test_long_sequences_have_a_limit(chain: SequenceLabeler) -> None:
    limit, long = chain.to_hmm(), chain.to_hmm(200)
    assert_allclose(limit.transitions.sum(axis=1), 1.0)
    assert_allclose(long.transitions[0], limit.transitions, atol=1e-12)
    assert_allclose(long.initial, limit.initial, atol=1e-12)
    assert_array_equal(long.emissions, limit.emissions)
    assert (limit.states, limit.symbols) == (["a", "b", "c"], chain.encoder_.feature_names())


def test_limits_under_constraints() -> None:
    X, y = [["u", "v", "v"], ["u", "v"]], [["a", "b", "b"], ["a", "b"]]
    onward = SequenceLabeler(constraints=[("a", "b"), ("b", "b")]).fit(X, y).to_hmm()
    assert_allclose(onward.transitions, [[0, 1], [0, 1]])
    ending = SequenceLabeler(constraints=[("a", "b")]).fit([["u", "v"]], [["a", "b"]])
    with pytest.raises(UnsupportedError, match="no long labelling"):
        ending.to_hmm()
    turning = SequenceLabeler(constraints=[("a", "b"), ("b", "a")]).fit(
        [["u", "v"], ["u"]], [["a", "b"], ["a"]]
    )
    with pytest.raises(UnsupportedError, match="alternate forever"):
        turning.to_hmm()
    assert turning.to_hmm(4).transitions.shape == (3, 2, 2)


def test_only_chains_with_one_symbol_per_step_are_hmms(chain: SequenceLabeler) -> None:
    X, y = noisy_words(10)
    with pytest.raises(UnsupportedError, match="exactly one symbol per step"):
        SequenceLabeler(max_iter=2).fit(as_dicts(X), y).to_hmm()
    with pytest.raises(UnsupportedError, match="exactly one symbol per step"):
        SequenceLabeler(max_iter=2).fit(*clouds(5)).to_hmm()
    edges = SequenceLabeler(max_iter=2, transition_features=True).fit(X, y)
    with pytest.raises(UnsupportedError, match="transitions depend on the input"):
        edges.to_hmm()
    with pytest.raises(DataError, match="length is 0; give a whole number of at least 1"):
        chain.to_hmm(0)


def test_strongest_weights(chain: SequenceLabeler) -> None:
    strongest = chain.strongest_weights(4)
    assert list(strongest) == ["a", "b", "c"]
    weights = chain.layout_.feature_weights(chain.weights_)
    names = chain.encoder_.feature_names()
    for k, (label, top) in enumerate(strongest.items()):
        sizes = [abs(w) for _, w in top]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] == np.abs(weights[:, k]).max()
        assert all(weights[names.index(name), k] == w for name, w in top)
        assert top[0][0].startswith(f"w{k}"), label
    assert all(len(top) <= len(names) for top in chain.strongest_weights(1000).values())
    with pytest.raises(DataError, match="n is 0"):
        chain.strongest_weights(0)


def test_transition_table(chain: SequenceLabeler) -> None:
    table = chain.transition_table()
    scores = chain.scores([["w00", "w11"]])
    assert_array_equal(table, scores.transitions[0])
    # a label is followed by itself or by the next one
    assert all(table[k, (k + 1) % 3] > table[k, (k + 2) % 3] for k in range(3))
