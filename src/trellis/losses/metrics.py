"""Scores of predicted labels: tokens, whole sequences, and spans as conlleval counts them.

Spans are read from tags ``B- I- E- S- O`` by conlleval's rules, which also make sense of IOB1 and of illegal
sequences: two steps belong to different spans if the second is B or S, the first is E or S, their types
differ, or one of them is O. (For IOB these are exactly conlleval's rules; it misses that B after E begins a
span, and does not know S.) ``L-`` and ``U-`` are synonyms of E and S.

    precision = correct / predicted,   recall = correct / gold,   F1 = 2 correct / (predicted + gold)

A span is correct if a gold span has the same first step, last step and type. Where a denominator is 0 the
score is 0.

Examples
--------
>>> from trellis import metrics
>>> metrics.token_accuracy([["A", "B"]], [["A", "A"]])
0.5
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arguments import check_fraction
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.share_intervals import examples_interval
from trellis.data.constraints import split_tag
from trellis.data.flatten import flatten
from trellis.data.sequences import check_same_lengths, step_name

if TYPE_CHECKING:
    from rich.table import Table

_OUT, _BEGIN, _INSIDE, _END, _SINGLE = range(5)
_TAGS = {"O": _OUT, "B": _BEGIN, "I": _INSIDE, "E": _END, "S": _SINGLE, "L": _END, "U": _SINGLE}
SPAN_TAGS = frozenset(_TAGS)


@dataclass(frozen=True)
class SpanScore:
    """Counts of spans, and the scores that follow from them.

    Examples
    --------
    >>> from trellis.losses.metrics import SpanScore
    >>> score = SpanScore(correct=1, predicted=2, gold=4)
    >>> score.precision, score.recall, round(score.f1, 3)
    (0.5, 0.25, 0.333)
    """

    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        return _ratio(self.correct, self.predicted)

    @property
    def recall(self) -> float:
        return _ratio(self.correct, self.gold)

    @property
    def f1(self) -> float:
        return _ratio(2 * self.correct, self.predicted + self.gold)


@dataclass(frozen=True, eq=False)
class SpanReport:
    """Span scores overall and by type. ``counts`` (S, 3): correct, predicted and gold spans by sequence.

    Examples
    --------
    >>> from trellis.losses.metrics import span_report
    >>> report = span_report([["B-X", "I-X", "O"]], [["B-X", "O", "O"]])
    >>> report.overall.f1, report.by_type["X"].gold, round(report.token_accuracy, 3)
    (0.0, 1, 0.667)
    """

    overall: SpanScore
    by_type: dict[str, SpanScore]
    counts: NDArray[np.int64]
    token_accuracy: float
    sequence_accuracy: float

    def f1_parts(self) -> tuple[FloatArray, FloatArray]:
        """2 correct, and predicted + gold - 2 correct, by sequence: F1 is the share of the first in both."""
        correct, predicted, gold = self.counts.T.astype(np.float64)
        return 2.0 * correct, predicted + gold - 2.0 * correct

    def f1_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The interval of the overall F1 over sequences: see ``trellis.core.share_intervals``."""
        return examples_interval(*self.f1_parts(), 1 - check_fraction("confidence", confidence))

    def table(self) -> Table:
        """One row for each type, and one for all."""
        return score_table({**dict(sorted(self.by_type.items())), "all": self.overall})

    def __str__(self) -> str:
        low, high = self.f1_interval()
        return (
            f"span F1 {100 * self.overall.f1:.2f} (95% interval {100 * low:.1f} to {100 * high:.1f}, "
            f"precision {100 * self.overall.precision:.2f}, recall {100 * self.overall.recall:.2f}), tokens "
            f"right {100 * self.token_accuracy:.2f}, sequences right {100 * self.sequence_accuracy:.2f}"
        )


def score_table(scores: Mapping[str, SpanScore]) -> Table:
    """A table for the console: precision, recall, F1 and the counts behind them, in percent.

    Examples
    --------
    >>> from trellis.losses.metrics import SpanScore, score_table
    >>> score_table({"X": SpanScore(correct=1, predicted=2, gold=4)}).row_count
    1
    """
    from rich import box
    from rich.table import Table

    table = Table("type", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("precision", "recall", "F1", "gold", "predicted", "correct"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, score in scores.items():
        fractions = (f"{100 * value:.2f}" for value in (score.precision, score.recall, score.f1))
        counts = map(str, (score.gold, score.predicted, score.correct))
        table.add_row(name or "(no type)", *fractions, *counts)
    return table


def token_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """The fraction of steps with the right label, over lists of label sequences.

    Examples
    --------
    >>> from trellis.losses.metrics import token_accuracy
    >>> token_accuracy([["A", "B"], ["A", "A"]], [["A", "A"], ["A", "A"]])
    0.75
    """
    gold, predicted, _, _ = _packed(y_true, y_pred)
    return _ratio(int((gold == predicted).sum()), len(gold))


def sequence_accuracy(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """The fraction of sequences with every label right.

    Examples
    --------
    >>> from trellis.losses.metrics import sequence_accuracy
    >>> sequence_accuracy([["A", "B"], ["A"]], [["A", "A"], ["A"]])
    0.5
    """
    gold, predicted, offsets, _ = _packed(y_true, y_pred)
    return _sequence_accuracy(gold, predicted, offsets)


def errors_by_sequence(y_true: Sequence[Any], y_pred: Sequence[Any]) -> tuple[IntArray, IntArray]:
    """The number of wrong steps and of all steps of each sequence.

    Examples
    --------
    >>> from trellis.losses.metrics import errors_by_sequence
    >>> wrong, steps = errors_by_sequence([["A", "B"], ["A"]], [["A", "A"], ["A"]])
    >>> wrong.tolist(), steps.tolist()
    ([1, 0], [2, 1])
    """
    gold, predicted, offsets, _ = _packed(y_true, y_pred)
    wrong = np.concatenate([[0], np.cumsum(gold != predicted)])
    return np.diff(wrong[offsets]), np.diff(offsets)


def span_report(y_true: Sequence[Any], y_pred: Sequence[Any]) -> SpanReport:
    """Span precision, recall and F1 of lists of label sequences, as conlleval counts them.

    Examples
    --------
    >>> from trellis.losses.metrics import span_report
    >>> span_report([["B-X", "O", "B-X"]], [["B-X", "O", "O"]]).overall
    SpanScore(correct=1, predicted=1, gold=2)
    """
    return packed_span_report(*_packed(y_true, y_pred))


def span_f1(y_true: Sequence[Any], y_pred: Sequence[Any]) -> float:
    """The overall span F1, as conlleval counts it.

    Examples
    --------
    >>> from trellis.losses.metrics import span_f1
    >>> round(span_f1([["B-X", "O", "B-X"]], [["B-X", "O", "O"]]), 3)
    0.667
    """
    return span_report(y_true, y_pred).overall.f1


def packed_span_report(
    gold: NDArray[np.integer], predicted: NDArray[np.integer], offsets: IntArray, labels: Sequence[Any]
) -> SpanReport:
    """The same for labellings as codes (N,) into ``labels``, packed."""
    tags, types, names = span_tags(labels)
    gold_spans = spans(tags[gold], types[gold], offsets)
    predicted_spans = spans(tags[predicted], types[predicted], offsets)
    _, i, j = np.intersect1d(gold_spans[0], predicted_spans[0], assume_unique=True, return_indices=True)
    same = (gold_spans[1][i] == predicted_spans[1][j]) & (gold_spans[2][i] == predicted_spans[2][j])
    correct_spans = tuple(part[i[same]] for part in gold_spans)

    n_types, n_sequences = len(names), len(offsets) - 1
    columns = []
    per_type = []
    for first, _, kind in (correct_spans, predicted_spans, gold_spans):
        sequence = np.searchsorted(offsets, first, side="right") - 1
        columns.append(np.bincount(sequence, minlength=n_sequences))
        per_type.append(np.bincount(kind, minlength=n_types).tolist())
    by_type = {
        name: SpanScore(*counts) for name, *counts in zip(names, *per_type, strict=True) if any(counts)
    }
    return SpanReport(
        SpanScore(len(correct_spans[0]), len(predicted_spans[0]), len(gold_spans[0])),
        by_type,
        np.stack(columns, axis=1),
        _ratio(int((gold == predicted).sum()), len(gold)),
        _sequence_accuracy(gold, predicted, offsets),
    )


def spans(
    tags: NDArray[np.integer], types: NDArray[np.integer], offsets: IntArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.integer]]:
    """First steps, last steps and types of all spans, in order; ``tags`` are 0 to 4 for O, B, I, E, S."""
    n = len(tags)
    # boundary[t] lies before step t, boundary[n] after the last; sequences end all spans
    boundary = np.ones(n + 1, np.bool_)
    boundary[1:-1] = ~in_one_span(tags[:-1], types[:-1], tags[1:], types[1:])
    boundary[offsets] = True
    inside = in_spans(tags)
    first = np.flatnonzero(boundary[:-1] & inside)
    last = np.flatnonzero(boundary[1:] & inside)
    return first, last, types[first]


def in_spans(tags: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Whether steps with these tags belong to a span at all."""
    inside: NDArray[np.bool_] = tags != _OUT
    return inside


def in_one_span(
    tags: NDArray[np.integer],
    types: NDArray[np.integer],
    next_tags: NDArray[np.integer],
    next_types: NDArray[np.integer],
) -> NDArray[np.bool_]:
    """Whether a step and the next one belong to the same span."""
    goes_on: NDArray[np.bool_] = (
        in_spans(tags)
        & in_spans(next_tags)
        & (types == next_types)
        & (tags != _END)
        & (tags != _SINGLE)
        & (next_tags != _BEGIN)
        & (next_tags != _SINGLE)
    )
    return goes_on


def span_tags(labels: Sequence[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64], list[str]]:
    """Tag and type codes of each label, and the names of the types; ``tags`` are 0 to 4 for O, B, I, E, S."""
    names: dict[str, int] = {}
    tags = np.empty(len(labels), np.int64)
    types = np.empty(len(labels), np.int64)
    for code, label in enumerate(labels):
        tag, kind = split_tag(label) if isinstance(label, str) else ("", "")
        if tag not in _TAGS:
            raise DataError(
                f"label {label!r} is not a span label; span scores need O and labels like "
                "B-type, I-type, E-type, S-type"
            )
        tags[code] = _TAGS[tag]
        types[code] = names.setdefault(kind, len(names))
    return tags, types, list(names)


def _packed(
    y_true: Sequence[Any], y_pred: Sequence[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64], IntArray, list[Any]]:
    """Both labellings as codes over the labels that occur in either."""
    (true, offsets), (guessed, others) = (
        flatten(name, y, item="label") for name, y in (("y_true", y_true), ("y_pred", y_pred))
    )
    check_same_lengths(offsets, others, "y_pred", of="y_true")
    if not true:
        raise DataError("there are no labels to compare; at least one step is needed")
    table = {label: code for code, label in enumerate(dict.fromkeys(chain(true, guessed)))}
    if None in table:
        step = (true if None in true else guessed).index(None)
        raise DataError(f"the label of {step_name(offsets, step)} is None; scores need known labels")
    gold, predicted = (np.fromiter(map(table.__getitem__, y), np.int64, len(y)) for y in (true, guessed))
    return gold, predicted, offsets, list(table)


def _sequence_accuracy(gold: NDArray[Any], predicted: NDArray[Any], offsets: IntArray) -> float:
    wrong = np.concatenate([[0], np.cumsum(gold != predicted)])
    return _ratio(int((np.diff(wrong[offsets]) == 0).sum()), len(offsets) - 1)


def _ratio(numerator: int, denominator: int) -> float:
    return numerator / denominator if denominator else 0.0
