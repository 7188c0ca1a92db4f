"""Data as users hold them: generators, frames, series, masks, empty lists."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trellis import HMM, SequenceLabeler, emissions, metrics
from trellis.core.errors import DataError
from trellis.features import Template

WORDS = [["a", "b", "a"], ["b"], ["c", "a"], ["b", "c", "b", "a"]]
LABELS = [["X", "Y", "X"], ["Y"], ["Z", "X"], ["Y", "Z", "Y", "X"]]
ARRAYS = [np.random.default_rng(i).normal(size=(len(row), 3)) for i, row in enumerate(WORDS)]


class Frame:
    """What pandas and polars have in common: ``to_numpy``, a number of rows, columns to iterate over."""

    def __init__(self, values: Any, columns: str) -> None:
        self.values, self.columns = np.asarray(values), columns

    def to_numpy(self) -> Any:
        return self.values

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Any:
        return iter(self.columns)


class Series(Frame):
    def __init__(self, values: Any) -> None:
        super().__init__(values, "")
        del self.columns

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)  # as for an index that does not begin at 0


def labeler() -> SequenceLabeler:
    return SequenceLabeler(max_iter=10)


def test_generators_are_read_once_and_whole() -> None:
    expected = labeler().fit(WORDS, LABELS).weights_
    found = labeler().fit((row for row in WORDS), (row for row in LABELS)).weights_
    np.testing.assert_array_equal(found, expected)
    online = SequenceLabeler("perceptron", random_state=0)
    expected = online.partial_fit(WORDS, LABELS).weights_
    again = SequenceLabeler("perceptron", random_state=0)
    np.testing.assert_array_equal(again.partial_fit(iter(WORDS), iter(LABELS)).weights_, expected)


def test_a_frame_is_its_values_and_not_the_names_of_its_columns() -> None:
    square = [np.random.default_rng(i).normal(size=(3, 3)) for i in range(4)]
    labels = [["X", "Y", "X"]] * 4
    expected = labeler().fit(square, labels)
    frames = [Frame(values, "pqr") for values in square]
    found = labeler().fit(frames, [Series(row) for row in labels])
    np.testing.assert_array_equal(found.weights_, expected.weights_)
    np.testing.assert_array_equal(
        np.concatenate(found.predict_marginals(frames)), np.concatenate(expected.predict_marginals(square))
    )


def test_one_frame_with_lengths() -> None:
    lengths = [len(row) for row in WORDS]
    flat, labels = np.concatenate(ARRAYS), [label for row in LABELS for label in row]
    expected = labeler().fit(flat, labels, lengths=lengths).weights_
    found = labeler().fit(Frame(flat, "pqr"), Series(labels), lengths=Series(lengths).to_numpy()).weights_
    np.testing.assert_array_equal(found, expected)


def test_series_of_strings_are_steps() -> None:
    expected = labeler().fit(WORDS, LABELS)
    found = labeler().fit([Series(row) for row in WORDS], LABELS)
    np.testing.assert_array_equal(found.weights_, expected.weights_)
    assert found.predict([Series(row) for row in WORDS]) == expected.predict(WORDS)


def test_arrays_of_other_things_than_numbers_say_what_to_do() -> None:
    rows = np.array([["a", 1.0], ["b", 2.0], ["c", 1.0]], dtype=object)
    with pytest.raises(DataError, match=r"X holds values of type object.*dictionaries"):
        labeler().fit([rows], [["X", "Y", "X"]])


@pytest.mark.parametrize("one", [SequenceLabeler(max_iter=2), HMM(2, emissions.Gaussian())])
def test_lengths_that_do_not_fit_get_a_suggestion(one: Any) -> None:
    rows, y = np.concatenate(ARRAYS), [0, 1] * 5
    lengths = [len(row) for row in ARRAYS]
    with pytest.raises(DataError, match=r"^lengths add up to 9, but [Xy] has 10 .*; they must be equal$"):
        one.fit(rows, y, lengths=[*lengths[1:], 2])
    with pytest.raises(DataError, match=r"they look like offsets: .* numpy.diff\(lengths\)"):
        one.fit(rows, y, lengths=np.cumsum([0, *lengths]))
    with pytest.raises(DataError, match=r"columns: give X.T"):
        one.fit(rows.T, y, lengths=lengths)


def test_lists_of_sequences_need_no_lengths() -> None:
    with pytest.raises(DataError, match="X is a list of sequences already: leave lengths out"):
        labeler().fit(WORDS, LABELS, lengths=[3, 1, 2, 4])
    with pytest.raises(
        DataError, match=r"sequence 0 of X is 'a'.*\(a single one is \[X\]; several end to end"
    ):
        labeler().fit(WORDS[0], LABELS[0])


def test_frames_of_strings_are_columns_of_a_template() -> None:
    rows = [[("a", "N"), ("b", "V")], [("b", "V")]]
    labels = [["X", "Y"], ["Y"]]
    template = Template.parse("U0:%x[0,0]\nU1:%x[-1,0]/%x[0,1]\n")
    expected = SequenceLabeler(template=template, max_iter=10).fit(rows, labels)
    frames = [Frame(np.array(part, dtype=object), "pq") for part in rows]
    found = SequenceLabeler(template=template, max_iter=10).fit(frames, labels)
    np.testing.assert_array_equal(found.weights_, expected.weights_)
    flat = Frame(np.array(rows[0] + rows[1]), "pq")
    assert found.predict(flat, lengths=[2, 1]) == expected.predict(rows)


def test_a_set_with_none_is_not_taken_for_the_rest_of_it() -> None:
    for known in ({"Y", None}, frozenset({"Y", None})):
        with pytest.raises(
            DataError, match=r"step 1 of sequence 0 has the set of labels.*None is not a label"
        ):
            labeler().fit([["a", "b"]], [["X", known]])


def test_masked_values_are_not_taken_for_data() -> None:
    masked = [np.ma.masked_greater(values, 0.0) for values in ARRAYS]
    with pytest.raises(DataError, match=r"step . of sequence 0: column . of X is masked"):
        labeler().fit(masked, LABELS)
    unmasked = [np.ma.masked_greater(values, 1e9) for values in ARRAYS]
    np.testing.assert_array_equal(
        labeler().fit(unmasked, LABELS).weights_, labeler().fit(ARRAYS, LABELS).weights_
    )


def test_empty_lists_among_arrays_are_sequences_of_no_steps() -> None:
    model = labeler().fit([[], *ARRAYS], [[], *LABELS])
    np.testing.assert_allclose(model.weights_, labeler().fit(ARRAYS, LABELS).weights_, atol=1e-12)
    assert model.predict([[], ARRAYS[1]])[0] == []
    with pytest.raises(
        DataError,
        match=r"sequence 2 of X has shape \(2, 2\); every sequence must have shape \(length, 3\)",
    ):
        labeler().fit([[], ARRAYS[1], ARRAYS[2][:, :2]], [[], LABELS[1], LABELS[2]])


@pytest.mark.parametrize("labels", [[float("nan"), 1.0, 2.0], np.array([1.0, np.nan, np.nan])])
def test_nan_is_no_label(labels: Any) -> None:
    with pytest.raises(DataError, match=r"a label is NaN.*None"):
        labeler().fit([["a", "b", "c"]], [labels])


def test_scores_take_lists_of_lists() -> None:
    gold, found = [["B-x", "O"], ["O"]], [["B-x", "B-x"], ["O"]]
    assert metrics.token_accuracy(map(list, gold), [Series(row) for row in found]) == pytest.approx(2 / 3)
    # the characters of strings are no labels: of these two labels one is right, not three of four
    with pytest.raises(DataError, match=r"sequence 0 of y_true is 'B-x'"):
        metrics.token_accuracy(["B-x", "O"], ["B-y", "O"])
    with pytest.raises(DataError, match="sequence 0 of y_true is 1"):
        metrics.token_accuracy([1, 2], [1, 2])
