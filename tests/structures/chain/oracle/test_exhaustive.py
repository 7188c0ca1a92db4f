"""The reference itself, checked by hand and against itertools before it judges the others."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.scores.chain_scores import ChainScores

TWO_STEPS = ChainScores.of([[1.0, 0.0], [0.0, 2.0]], [[0.5, -1.0], [0.0, 0.25]], [0.0, 3.0], [0.125, 0.0])
BY_HAND = {(0, 0): 1.625, (1, 0): 3.125, (0, 1): 2.0, (1, 1): 5.25}


def test_scores_of_a_chain_worked_by_hand() -> None:
    every = Enumeration.of(TWO_STEPS)
    assert {tuple(y): s for y, s in zip(every.labellings.tolist(), every.scores, strict=True)} == BY_HAND
    labels, score = every.best()
    assert (labels.tolist(), score) == ([1, 1], 5.25)
    labels, score = every.best_different([1, 1])
    assert (labels.tolist(), score) == ([1, 0], 3.125)
    ranked, scores = every.k_best(3)
    assert ranked.tolist() == [[1, 1], [1, 0], [0, 1]]
    assert scores.tolist() == [5.25, 3.125, 2.0]


def test_probabilities_worked_by_hand() -> None:
    every = Enumeration.of(TWO_STEPS)
    z = sum(math.exp(s) for s in BY_HAND.values())
    p = {y: math.exp(s) / z for y, s in BY_HAND.items()}
    assert every.log_partition() == pytest.approx(math.log(z))
    assert every.entropy() == pytest.approx(-sum(q * math.log(q) for q in p.values()))
    marginals = every.marginals()
    assert marginals.unary[0, 1] == pytest.approx(p[1, 0] + p[1, 1])
    assert marginals.transitions[0, 1, 0] == pytest.approx(p[1, 0])
    assert marginals.start[0] == pytest.approx(p[0, 0] + p[0, 1])
    assert marginals.end[1] == pytest.approx(p[0, 1] + p[1, 1])


def test_per_step_transitions_against_itertools() -> None:
    rng = np.random.default_rng(0)
    n, k = 4, 3
    u, a, s, e = (rng.normal(size=shape) for shape in [(n, k), (n, k, k), (k,), (k,)])
    every = Enumeration.of(ChainScores.of(u, a, s, e))
    assert len({tuple(y) for y in every.labellings.tolist()}) == k**n
    by_labels = {tuple(y): v for y, v in zip(every.labellings.tolist(), every.scores, strict=True)}
    for y in itertools.product(range(k), repeat=n):
        by_hand = s[y[0]] + e[y[-1]] + sum(u[t, y[t]] for t in range(n))
        by_hand += sum(a[t, y[t - 1], y[t]] for t in range(1, n))
        assert by_labels[y] == pytest.approx(by_hand)
    pairs = every.marginals(per_step=True).transitions
    np.testing.assert_allclose(pairs[1:].sum(axis=(1, 2)), 1.0)
    np.testing.assert_array_equal(pairs[0], 0.0)


def test_ties_go_to_the_smaller_label_at_the_last_difference() -> None:
    every = Enumeration.of(ChainScores.of(np.zeros((2, 2)), np.zeros((2, 2))))
    assert every.k_best(4)[0].tolist() == [[0, 0], [1, 0], [0, 1], [1, 1]]
    assert every.best_different([0, 0])[0].tolist() == [1, 0]


def test_the_sequence_asked_for_is_the_one_enumerated() -> None:
    batch = ChainScores.of([[0.0, 1.0], [3.0, 0.0], [0.0, 5.0]], np.zeros((3, 2, 2)), lengths=[1, 2])
    assert Enumeration.of(batch, 1).best()[0].tolist() == [0, 1]
    with pytest.raises(DataError, match="no sequence 2; the batch has 2"):
        Enumeration.of(batch, 2)


def test_gradient_of_the_expected_loss_by_finite_differences() -> None:
    rng = np.random.default_rng(3)
    u, a, cost = rng.normal(size=(3, 2)), rng.normal(size=(2, 2)), rng.normal(size=(3, 2))
    value, gradient = Enumeration.of(ChainScores.of(u, a)).expected_loss(cost)
    per_labelling = [
        sum(cost[t, k] for t, k in enumerate(y)) for y in Enumeration.of(ChainScores.of(u, a)).labellings
    ]
    assert value == pytest.approx(Enumeration.of(ChainScores.of(u, a)).expected_loss(per_labelling)[0])
    h = 1e-5
    for index in np.ndindex(2, 2):
        up, down = a.copy(), a.copy()
        up[index] += h
        down[index] -= h
        change = [Enumeration.of(ChainScores.of(u, moved)).expected_loss(cost)[0] for moved in (up, down)]
        assert gradient.transitions[0][index] == pytest.approx((change[0] - change[1]) / (2 * h), abs=1e-8)


def test_any_objective_can_be_maximised() -> None:
    every = Enumeration.of(TWO_STEPS)
    labels, value = every.maximum(lambda y, score: score * (1 + np.sum(y == 0)))
    assert (labels.tolist(), value) == ([1, 0], 6.25)


def test_an_empty_sequence_has_one_labelling() -> None:
    every = Enumeration.of(ChainScores.of(np.zeros((0, 3)), np.zeros((3, 3))))
    assert every.labellings.shape == (1, 0)
    assert every.log_partition() == 0.0
    assert every.entropy() == 0.0
    assert every.best_different([])[1] == -np.inf


def test_refusals() -> None:
    with pytest.raises(UnsupportedError, match=r"10 \*\* 6 labellings.*trellis.structures.chain.Chain"):
        Enumeration.of(ChainScores.of(np.zeros((6, 10)), np.zeros((10, 10))))
    forbidden = Enumeration.of(ChainScores.of([[-np.inf, -np.inf]], np.zeros((2, 2))))
    for question in (forbidden.best, forbidden.log_partition, forbidden.entropy, forbidden.marginals):
        with pytest.raises(InfeasibleError, match="no allowed labelling"):
            question()
    with pytest.raises(DataError, match="one cost per step and label"):
        Enumeration.of(TWO_STEPS).expected_loss(np.zeros((3, 2)))
