"""Ready-made networks against the formulas that they stand for."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from small_networks import joint
from trellis import HMM, emissions
from trellis.bayesnet import from_hmm, full_bayes, markov_chain, naive_bayes
from trellis.core.errors import DataError, UnsupportedError


def test_naive_bayes() -> None:
    net = naive_bayes(
        "Spam",
        ["yes", "no"],
        {"offer": ["in", "out"], "meeting": ["in", "out"]},
        prior=[0.4, 0.6],
        tables={"offer": {"yes": [0.5, 0.5], "no": [0.1, 0.9]}, "meeting": [[0.05, 0.95], [0.3, 0.7]]},
    )
    assert net.factorisation == "P(Spam) P(offer | Spam) P(meeting | Spam)"
    scores = joint(net)[:, 0, 1]  # by hand: 0.4 0.5 0.95 and 0.6 0.1 0.7
    np.testing.assert_allclose(scores, [0.19, 0.042])
    assert net.d_separated("offer", "meeting", "Spam")
    assert not net.d_separated("offer", "meeting")
    with pytest.raises(DataError, match="'word', which is not one of the features"):
        naive_bayes("c", [0, 1], {}, tables={"word": [1]})


def test_full_bayes_is_any_distribution() -> None:
    rng = np.random.default_rng(0)
    table = rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    table[1] = 0.0  # a condition that never holds
    table /= table.sum()
    net = full_bayes({"A": range(2), "B": range(3), "C": range(4)}, table)
    assert net.factorisation == "P(A) P(B | A) P(C | A, B)"
    np.testing.assert_allclose(joint(net), table, atol=1e-15)
    assert net.n_parameters == 23
    assert net.independencies() == []
    with pytest.raises(DataError, match="must sum to 1"):
        full_bayes({"A": range(2)}, [0.5, 0.6])


@pytest.mark.parametrize("order", [0, 1, 2])
def test_markov_chain(order: int) -> None:
    rng = np.random.default_rng(order)
    transitions = rng.dirichlet(np.ones(2), size=(2,) * order)
    initial = rng.dirichlet(np.ones(2**order)).reshape((2,) * order)
    net = markov_chain(["a", "b"], 5, order, transitions=transitions, initial=initial)
    for x in product(range(2), repeat=5):
        expected = initial[x[:order]] * np.prod([transitions[x[t - order : t + 1]] for t in range(order, 5)])
        assert joint(net)[x] == pytest.approx(expected)
    assert net.d_separated("x1", "x5", [f"x{t}" for t in range(5 - order, 5)])
    if order:
        assert not net.d_separated("x1", "x5")
    with pytest.raises(DataError, match=r"length is .*; give a whole number"):
        markov_chain([0, 1], 1, 2)


def test_an_hmm_as_network_agrees_with_the_hmm() -> None:
    rng = np.random.default_rng(5)
    hmm = HMM(
        3,
        emissions.Categorical(4, rng.dirichlet(np.ones(4), size=3)),
        initial=rng.dirichlet(np.ones(3)),
        transitions=rng.dirichlet(np.ones(3), size=3),
    )
    net = from_hmm(hmm, 4, symbols="acgt")
    assert net.names == ("y1", "x1", "y2", "x2", "y3", "x3", "y4", "x4")
    assert net.states[1] == ("a", "c", "g", "t")
    observed = np.array([2, 0, 3, 1])
    slices = (slice(None), 2, slice(None), 0, slice(None), 3, slice(None), 1)
    weights = joint(net)[slices]
    assert np.log(weights.sum()) == pytest.approx(hmm.log_likelihood([observed])[0])
    posterior = np.stack([weights.sum(axis=tuple(a for a in range(4) if a != t)) for t in range(4)])
    np.testing.assert_allclose(posterior / weights.sum(), hmm.smooth([observed])[0], atol=1e-12)


def test_only_symbols_make_a_network() -> None:
    hmm = HMM(2, emissions.Gaussian("diag"), random_state=0).fit(
        np.random.default_rng(0).normal(size=(50, 1))
    )
    with pytest.raises(UnsupportedError, match="emissions of this model are Gaussian"):
        from_hmm(hmm, 3)


def test_builders_refuse_what_has_no_network() -> None:
    wide = {f"v{i}": [0, 1] for i in range(40)}
    for build, message in [
        (lambda: markov_chain(["a", "b"], "x"), "length is 'x'; give a whole number of at least 1"),
        (lambda: markov_chain(["a", "b"], 50, 40), "the table of 'x41' with its 40 parents would have"),
        (lambda: markov_chain([], 3), "the variable 'x1' has no states"),
        (lambda: markov_chain(3, 3), "the states of 'x1' are 3"),
        (lambda: markov_chain(["a", "b"], 3, transitions=[[1], [0, 1]]), "'x2' is not an array of numbers"),
        (lambda: full_bayes(wide), "the table of 'v39' with its 39 parents would have"),
        (lambda: full_bayes({"A": [0, 1], "B": [0, 1]}, [[1], [0, 1]]), "joint is not an array of numbers"),
        (lambda: naive_bayes("c", [0, 1], ["d"]), "features must be a dictionary"),
    ]:
        with pytest.raises(DataError, match=re.escape(message)):
            build()
