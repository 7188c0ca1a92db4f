"""Span scores against a plain state machine that walks the tokens as conlleval does."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from trellis.core.errors import DataError
from trellis.losses.metrics import sequence_accuracy, span_f1, span_report, token_accuracy

LABELS = ["O", "B-x", "I-x", "E-x", "S-x", "B-y", "I-y", "E-y", "S-y", "I", "B"]

labels = st.sampled_from(LABELS)
pairs = st.lists(st.lists(st.tuples(labels, labels), max_size=9), min_size=1, max_size=4).filter(
    lambda p: any(p)
)


def parts(label: str) -> tuple[str, str]:
    return (label[0], label[2:]) if "-" in label else (label, "")


def begins(previous: str, label: str) -> bool:
    (a, s), (b, t) = parts(previous), parts(label)
    starts = (a, b) in {("B", "B"), ("I", "B"), ("O", "B"), ("O", "I"), ("E", "E"), ("E", "I"), ("O", "E")}
    starts |= b == "S" or (a == "S" and b in "BIE") or (a, b) == ("E", "B")
    return starts or (b != "O" and s != t)


def ends(previous: str, label: str) -> bool:
    (a, s), (b, t) = parts(previous), parts(label)
    stops = (a, b) in {("B", "B"), ("B", "O"), ("I", "B"), ("I", "O"), ("B", "S"), ("I", "S")} or a in "ES"
    return stops or (a != "O" and s != t)


def count_by_walking(gold: list[list[str]], guess: list[list[str]]) -> dict[str, list[int]]:
    """correct, guessed, gold spans of each type: one pass with an "inside a correct span" flag."""
    counts: dict[str, list[int]] = {}
    for g_sequence, p_sequence in zip(gold, guess, strict=True):
        matching = ""
        last_g = last_p = "O"
        inside = False
        for g, p in zip([*g_sequence, "O"], [*p_sequence, "O"], strict=True):
            end_g, end_p = ends(last_g, g), ends(last_p, p)
            if inside:
                if end_g and end_p and parts(last_g)[1] == parts(last_p)[1]:
                    counts[matching][0] += 1
                    inside = False
                elif end_g != end_p or parts(g)[1] != parts(p)[1]:
                    inside = False
            start_g, start_p = begins(last_g, g), begins(last_p, p)
            if start_g and start_p and parts(g)[1] == parts(p)[1]:
                inside, matching = True, parts(g)[1]
            if start_g:
                counts.setdefault(parts(g)[1], [0, 0, 0])[2] += 1
            if start_p:
                counts.setdefault(parts(p)[1], [0, 0, 0])[1] += 1
            last_g, last_p = g, p
    return counts


@given(pairs)
def test_counts_equal_those_of_the_walk(sequences) -> None:
    gold = [[g for g, _ in s] for s in sequences]
    guess = [[p for _, p in s] for s in sequences]
    report = span_report(gold, guess)
    expected = count_by_walking(gold, guess)
    assert {t: [s.correct, s.predicted, s.gold] for t, s in report.by_type.items()} == expected
    total = [sum(c) for c in zip(*expected.values(), strict=True)] or [0, 0, 0]
    assert [report.overall.correct, report.overall.predicted, report.overall.gold] == total
    assert report.counts.sum(axis=0).tolist() == total
    flat = [g == p for s in sequences for g, p in s]
    assert report.token_accuracy == token_accuracy(gold, guess) == sum(flat) / len(flat)
    right = [all(g == p for g, p in s) for s in sequences]
    assert report.sequence_accuracy == sequence_accuracy(gold, guess) == sum(right) / len(right)


@pytest.mark.parametrize(
    ("gold", "guess", "counts"),
    [
        (["B-x", "I-x", "O"], ["B-x", "I-x", "O"], (1, 1, 1)),
        (["B-x", "I-x", "O"], ["B-x", "O", "O"], (0, 1, 1)),  # too short
        (["O", "B-x", "O"], ["O", "I-x", "O"], (1, 1, 1)),  # I after O begins a span
        (["B-x", "B-x"], ["I-x", "I-x"], (0, 1, 2)),  # IOB1: two I make one span
        (["B-x", "B-y"], ["I-x", "I-y"], (2, 2, 2)),  # a change of type ends a span
        (["B-x", "I-y", "I-y"], ["B-x", "B-y", "I-y"], (2, 2, 2)),
        (["B-x", "I-x", "E-x"], ["B-x", "I-x", "I-x"], (1, 1, 1)),
        (["S-x", "S-x"], ["B-x", "B-x"], (2, 2, 2)),
        (["U-x", "B-y", "L-y"], ["S-x", "B-y", "E-y"], (2, 2, 2)),
        (["E-x", "E-x"], ["S-x", "S-x"], (2, 2, 2)),
        (["B-x", "I-x"], ["B-y", "I-y"], (0, 1, 1)),
        (["O", "O"], ["O", "O"], (0, 0, 0)),
        (["B-a-b"], ["B-a-c"], (0, 1, 1)),  # the type is all that follows the first hyphen
    ],
)
def test_cases_by_hand(gold, guess, counts) -> None:
    overall = span_report([gold], [guess]).overall
    assert (overall.correct, overall.predicted, overall.gold) == counts


def test_a_span_does_not_cross_sequences() -> None:
    overall = span_report([["B-x"], ["I-x"]], [["B-x"], ["I-x"]]).overall
    assert (overall.correct, overall.gold) == (2, 2)


def test_scores() -> None:
    gold, guess = [["B-x", "O", "B-y", "B-x"]], [["B-x", "B-x", "O", "O"]]
    report = span_report(gold, guess)
    assert report.overall.precision == 1 / 2
    assert report.overall.recall == 1 / 3
    assert report.overall.f1 == pytest.approx(2 / 5)
    assert span_f1(gold, guess) == report.overall.f1
    assert report.by_type["y"].f1 == 0.0
    assert span_f1([["O"]], [["O"]]) == 0.0


def test_the_report_is_shown() -> None:
    report = span_report([["B-NP", "O"]], [["B-NP", "B-VP"]])
    console = Console(file=io.StringIO(), width=100)
    console.print(report.table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "NP" in text
    assert "66.67" in text
    low, high = report.f1_interval()  # of one sequence, which says little
    assert low < 0.1
    assert high > 0.9
    interval = f"{100 * low:.1f} to {100 * high:.1f}"
    assert str(report).startswith(f"span F1 66.67 (95% interval {interval}, precision 50.00, recall 100.00)")


def test_the_interval_covers_the_score_and_shrinks() -> None:
    rng = np.random.default_rng(0)
    gold = [["B-x"] * 5 for _ in range(400)]
    guess = [["B-x" if rng.random() < 0.8 else "O" for _ in range(5)] for _ in range(400)]
    wide = span_report(gold[:25], guess[:25]).f1_interval()
    report = span_report(gold, guess)
    narrow = report.f1_interval()
    assert narrow[0] < report.overall.f1 < narrow[1]
    assert narrow[1] - narrow[0] < 0.5 * (wide[1] - wide[0])
    # F1 = 2c / (c + n) with c hits of n = 2000: the standard error by the delta method
    p, n = report.overall.recall, 2000
    error = 2 / (1 + p) ** 2 * np.sqrt(p * (1 - p) / n)
    assert (narrow[1] - narrow[0]) / (2 * 1.96 * error) == pytest.approx(1, abs=0.15)
    with pytest.raises(DataError, match="confidence"):
        report.f1_interval(1.5)


def test_bad_input() -> None:
    with pytest.raises(DataError, match="y_true has 1 sequences, but y_pred has 2"):
        token_accuracy([["a"]], [["a"], ["b"]])
    with pytest.raises(DataError, match="sequence 1 has 2 steps in y_true, but 1 in y_pred"):
        token_accuracy([["a"], ["a", "b"]], [["a"], ["b"]])
    with pytest.raises(DataError, match="'NOUN' is not a span label"):
        span_report([["NOUN"]], [["O"]])
    with pytest.raises(DataError, match="step 0 of sequence 1 is None"):
        token_accuracy([["a"], [None]], [["a"], ["a"]])
    with pytest.raises(DataError, match="no labels to compare"):
        sequence_accuracy([[]], [[]])
    assert token_accuracy([[1, 2]], [np.array([1, 3])]) == 0.5
