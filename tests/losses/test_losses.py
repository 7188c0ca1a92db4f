"""Task losses against their formulas, conlleval's counts, and clear errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.class_weight import compute_class_weight

from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import LabelSet
from trellis.losses.labelings import (
    Custom,
    Hamming,
    SpanF1,
    WeightedHamming,
    ZeroOne,
    class_weights,
    get_loss,
)
from trellis.losses.metrics import span_report

ABC = LabelSet("abc")
Y = [["a", "b", "b"], [], ["c"]]
Z = [["a", "c", "a"], [], ["c"]]


def codes(y: list[list[str]], labels: LabelSet = ABC) -> np.ndarray:
    return labels.encode(y).codes


def test_hamming_counts_wrong_steps() -> None:
    gold = ABC.encode(Y)
    assert Hamming().per_sequence(gold, codes(Z), ABC).tolist() == [2, 0, 0]
    assert ZeroOne().per_sequence(gold, codes(Z), ABC).tolist() == [1, 0, 0]
    np.testing.assert_array_equal(Hamming().costs(gold, ABC)[0], [0, 1, 1])


def test_cost_matrix_and_dict_are_the_same() -> None:
    gold = ABC.encode(Y)
    matrix = [[0, 1, 1], [5, 0, 2], [1, 1, 0]]
    named = {("b", "a"): 5.0, ("b", "c"): 2.0}
    for loss in (WeightedHamming(matrix), WeightedHamming(named)):
        np.testing.assert_array_equal(loss.costs(gold, ABC)[:3], [[0, 1, 1], [5, 0, 2], [5, 0, 2]])
        assert loss.per_sequence(gold, codes(Z), ABC).tolist() == [7, 0, 0]


def test_weights_of_classes_and_positions_multiply() -> None:
    gold = ABC.encode(Y)
    loss = WeightedHamming(class_weight={"b": 3}, position_weight=lambda n: np.arange(1, n + 1))
    assert loss.per_sequence(gold, codes(Z), ABC).tolist() == [2 * 3 + 3 * 3, 0, 0]
    listed = WeightedHamming(class_weight={"b": 3}, position_weight=[[1, 2, 3], [], [1]])
    np.testing.assert_array_equal(listed.costs(gold, ABC), loss.costs(gold, ABC))


def test_balanced_is_that_of_scikit_learn() -> None:
    y = [["a"] * 7, ["b", "a", "c", "b"]]
    flat = [label for row in y for label in row]
    expected = compute_class_weight("balanced", classes=np.array(["a", "b", "c"]), y=np.array(flat))
    np.testing.assert_allclose(class_weights("balanced", ABC.encode(y), ABC), expected)


@given(st.integers(0, 2**32 - 1))
def test_partial_labels_cost_what_the_cheapest_member_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(size=(3, 3))
    np.fill_diagonal(matrix, 0.0)
    members = [{x for x in "abc" if rng.random() < 0.5} or None for _ in range(6)]
    gold = ABC.encode([members])
    costs = WeightedHamming(matrix).costs(gold, ABC)
    for t, known in enumerate(members):
        rows = [matrix["abc".index(x)] for x in known or "abc"]
        np.testing.assert_array_equal(costs[t], np.min(rows, axis=0))
        assert all(costs[t, "abc".index(x)] == 0 for x in known or "abc")
    ours = ZeroOne().per_sequence(gold, codes([["a"] * 6]), ABC)
    assert ours[0] == any(known is not None and "a" not in known for known in members)


BIO = LabelSet(["B-x", "B-y", "I-x", "I-y", "O"])
sentences = st.lists(st.lists(st.sampled_from(BIO.labels), max_size=6), min_size=1, max_size=4)


@given(sentences, st.integers(0, 2**32 - 1))
def test_span_f1_is_that_of_the_metrics(y: list[list[str]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = [[x if rng.random() < 0.6 else str(rng.choice(BIO.labels)) for x in row] for row in y]
    ours = SpanF1().per_sequence(BIO.encode(y), codes(z, BIO), BIO)
    for row, guess, loss in zip(y, z, ours, strict=True):
        if not row:
            assert loss == 0
            continue
        score = span_report([row], [guess]).overall
        nothing = score.gold + score.predicted == 0
        assert loss == pytest.approx(0.0 if nothing else 1 - score.f1)


def test_custom_gets_lists_of_labels() -> None:
    seen = []

    def function(gold: list[str], predicted: list[str]) -> float:
        seen.append((gold, predicted))
        return abs(gold.count("b") - predicted.count("b")) / 2

    assert get_loss(function).per_sequence(ABC.encode(Y), codes(Z), ABC).tolist() == [1, 0, 0]
    assert seen == list(zip(Y, Z, strict=True))


def test_losses_by_name() -> None:
    assert isinstance(get_loss("hamming"), Hamming)
    assert isinstance(get_loss("zero_one"), ZeroOne)
    assert get_loss(SpanF1(n_candidates=4)).n_candidates == 4
    with pytest.raises(DataError, match="loss='accuracy' is not known; choose one of hamming"):
        get_loss("accuracy")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WeightedHamming(np.ones((2, 2))), r"shape \(2, 2\); for the 3 labels it must be \(3, 3\)"),
        (lambda: WeightedHamming(np.ones((3, 3))), "0 for the right label"),
        (lambda: WeightedHamming({("a", "b"): -1}), "at least 0"),
        (lambda: WeightedHamming({"ab": 1}), "the cost matrix names 'ab'; give costs by"),  # type: ignore[dict-item]
        (lambda: WeightedHamming(class_weight={"a": np.nan}), "class weight of 'a' is nan"),
        (lambda: WeightedHamming(class_weight="even"), "class_weight is 'even'"),  # type: ignore[arg-type]
        (lambda: WeightedHamming(position_weight=[[1.0]]), "X has 3 sequences, but position_weight has 1"),
        (
            lambda: WeightedHamming(position_weight=[[1, 1], [], [1]]),
            "sequence 0 has 3 steps in X, but 2 in position_weight",
        ),
        (lambda: WeightedHamming(position_weight=lambda n: -np.ones(n)), "not negative and not NaN"),
    ],
)
def test_unusable_options_are_named(make: Callable[[], WeightedHamming], message: str) -> None:
    with pytest.raises(DataError, match=message):
        make().costs(ABC.encode(Y), ABC)


def test_candidate_losses_refuse_what_they_cannot_do() -> None:
    gold = ABC.encode(Y)
    with pytest.raises(UnsupportedError, match="not a sum over steps"):
        SpanF1().costs(gold, ABC)
    with pytest.raises(DataError, match="n_candidates is 1; give a whole number of at least 2"):
        SpanF1(n_candidates=1)
    with pytest.raises(DataError, match="candidates is 'all'; give 'k_best' or 'samples'"):
        SpanF1(candidates="all")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="set it again"):
        Custom().per_sequence(gold, codes(Z), ABC)
    with pytest.raises(DataError, match=r"returned nan for the gold labels \['a', 'b', 'b'\]"):
        Custom(lambda gold, predicted: float("nan")).per_sequence(gold, codes(Z), ABC)
    partial = BIO.encode([["O", None]])
    for loss in (SpanF1(), Custom(lambda gold, predicted: 0.0)):
        with pytest.raises(UnsupportedError, match="step 1 of sequence 0 is unknown, so use loss='hamming'"):
            loss.per_sequence(partial, codes([["O", "O"]], BIO), BIO)
    with pytest.raises(DataError, match="not a span label"):
        SpanF1().per_sequence(gold, codes(Z), ABC)
