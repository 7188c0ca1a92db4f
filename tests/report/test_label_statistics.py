"""Confusions, calibration and the choice of errors against plain counting, and figures that show them."""

from __future__ import annotations

from collections import Counter
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import SequenceLabeler
from trellis.core.errors import DataError
from trellis.report.label_statistics import calibration, confusion, label_probabilities, worst_sequences
from trellis.report.plots import plot_calibration, plot_confusion, plot_training, plot_transitions

steps = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abd")), min_size=1, max_size=6)
labellings = st.lists(steps, min_size=1, max_size=6)


@given(labellings)
def test_confusion_counts_pairs(data: list[list[tuple[str, str]]]) -> None:
    gold, predicted = [[a for a, _ in row] for row in data], [[b for _, b in row] for row in data]
    found, expected = confusion(gold, predicted), Counter(chain.from_iterable(data))
    for i, a in enumerate(found.labels):
        for j, b in enumerate(found.labels):
            assert found.counts[i, j] == expected[a, b]
    assert found.counts.sum() == expected.total()
    wrong = {pair: n for pair, n in expected.items() if pair[0] != pair[1]}
    listed = found.most_frequent(100)
    assert {(a, b): n for a, b, n in listed} == wrong
    assert [n for *_, n in listed] == sorted(wrong.values(), reverse=True)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60), st.integers(1, 12))
def test_calibration_is_that_of_plain_loops(data: list[tuple[float, bool]], n_bins: int) -> None:
    found = calibration(np.array([p for p, _ in data]), np.array([r for _, r in data]), n_bins)
    error = 0.0
    for b in range(n_bins):
        low, high = found.edges[b], found.edges[b + 1]
        inside = [(p, r) for p, r in data if low <= p < high or (b == n_bins - 1 and p == 1.0)]
        assert found.counts[b] == len(inside)
        if not inside:
            assert np.isnan(found.accuracy[b])
            continue
        assert found.confidence[b] == pytest.approx(np.mean([p for p, _ in inside]))
        assert found.accuracy[b] == pytest.approx(np.mean([r for _, r in inside]))
        error += len(inside) * abs(found.confidence[b] - found.accuracy[b])
    assert found.error == pytest.approx(error / len(data))


def test_the_most_confident_errors_come_first() -> None:
    gold, predicted = [["a", "b"], ["a"], ["z"]], [["a", "a"], ["a"], ["b"]]
    marginals = [np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.5, 0.5]]), np.array([[0.1, 0.9]])]
    sure = label_probabilities(predicted, marginals, ["a", "b"])
    truth = label_probabilities(gold, marginals, ["a", "b"])
    assert truth[2].tolist() == [0.0]  # a label that the model does not know
    assert worst_sequences(gold, predicted, sure, truth, 9) == [2, 0]
    assert worst_sequences(gold, predicted, sure, truth, 1) == [2]


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(DataError, match="1 labels cannot be compared with 2"):
        confusion([["a"]], [["a", "b"]])
    with pytest.raises(DataError, match="no steps"):
        calibration(np.zeros(0), np.zeros(0, np.bool_))


def test_figures_show_the_numbers() -> None:
    X, y = [["u", "v", "u"], ["v", "v"]] * 3, [["A", "B", "A"], ["B", "B"]] * 3
    model = SequenceLabeler(max_iter=5).fit(X, y)
    line = plot_training(model).get_lines()[0]
    assert line.get_ydata().tolist() == model.history_["objective"]
    assert plot_training(model, measure="gap").get_yscale() == "log"
    with pytest.raises(DataError, match="has no holdout"):
        plot_training(model, measure="holdout")
    axes = plot_confusion([["a", "b", "b"]], [["a", "b", "a"]])
    assert [text.get_text() for text in axes.texts] == ["1", "1", "", "1"]
    scores = model.transition_table()
    texts = [text.get_text() for text in plot_transitions(model).texts]
    assert [float(text) for text in texts] == pytest.approx(scores.ravel().tolist(), abs=0.051)
    found = calibration(np.array([0.05, 0.95, 0.99]), np.array([False, True, True]))
    assert plot_calibration(found).get_lines()[1].get_ydata().tolist() == [0.0, 1.0]
