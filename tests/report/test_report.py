"""Reports: figures that can be opened, evaluations that agree with counting by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from trellis.core.errors import DataError, MissingExtraError
from trellis.report.evaluation import evaluate_labels
from trellis.report.figures import figure_file, new_figure


@pytest.mark.parametrize(("ending", "first"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_ending_of_a_figure_says_its_format(tmp_path: Path, ending: str, first: bytes) -> None:
    with figure_file(tmp_path / f"p.{ending}", 1, 1) as figure:
        figure.subplots()
    assert (tmp_path / f"p.{ending}").read_bytes().startswith(first)


def test_a_format_that_cannot_be_drawn_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"cannot be written as \.doc"), figure_file(tmp_path / "p.doc", 1, 1):
        pass
    assert not list(tmp_path.iterdir())


def test_matplotlib_is_an_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"trellis-learn\[plot\]"):
        new_figure(1, 1)


def test_spans_are_scored_as_spans() -> None:
    gold = [["B-X", "I-X", "O"], ["B-Y", "O"], ["O"]]
    predicted = [["B-X", "I-X", "O"], ["B-X", "O"], ["O"]]
    found = evaluate_labels(gold, predicted)
    assert found.span_f1 is not None
    assert found.span_f1.value == pytest.approx(1 / 2)  # one of two gold spans, one of two predicted
    assert found.tokens_right.value == pytest.approx(5 / 6)
    assert found.sequences_right.value == pytest.approx(2 / 3)
    assert found.by_type["X"].precision == pytest.approx(1 / 2)
    assert found.by_type["Y"].recall == 0
    assert 0 <= found.span_f1.low <= found.span_f1.value <= found.span_f1.high <= 1
    assert (found.n_sequences, found.n_tokens) == (3, 6)
    assert found.headline().startswith("span F1  50.00  (95% interval ")


def test_the_tags_of_bilou_are_span_tags_too() -> None:
    found = evaluate_labels([["B-X", "L-X", "U-Y"]], [["B-X", "L-X", "O"]])
    assert found.span_f1 is not None
    assert found.span_f1.value == pytest.approx(2 / 3)  # one span right of one predicted and two true
    assert set(found.by_type) == {"X", "Y"}


def test_other_labels_are_scored_by_token() -> None:
    found = evaluate_labels([["N", "V"], ["N"], ["B"]], [["N", "N"], ["N"], ["B"]])
    assert found.span_f1 is None
    assert found.tokens_right.value == pytest.approx(3 / 4)
    assert found.by_type["N"].precision == pytest.approx(2 / 3)
    assert found.by_type["N"].recall == 1
    assert found.headline().startswith("tokens right  75.00  (95% interval ")


def test_only_outside_labels_are_no_spans() -> None:
    assert evaluate_labels([["O", "O"]], [["O", "O"]]).span_f1 is None


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    # sequences of 5 tokens, each right with probability 0.8: about 5 of 100 intervals should miss 0.8
    rng = np.random.default_rng(0)
    missed = 0
    for _ in range(40):
        right = rng.random((60, 5)) < 0.8
        predicted = np.where(right, "a", "b").tolist()
        missed += 0.8 not in evaluate_labels([["a"] * 5] * 60, predicted).tokens_right
    assert missed <= 8
