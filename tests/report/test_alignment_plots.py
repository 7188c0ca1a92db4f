"""Figures of an aligner: what is drawn is what the evaluation says."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.core.errors import DataError
from trellis.report.alignment_plots import plot_boundary_errors, plot_class_errors, plot_tolerances
from trellis.report.alignment_statistics import aligned_starts, class_errors
from trellis.speech import Alignment
from trellis.speech.evaluate.boundary_evaluation import evaluate_alignments

TRUE = Alignment.from_starts([0.0, 0.10, 0.30, 0.50], ["sil", "t", "a", "t"], duration=0.9)
OURS = Alignment.from_starts(
    [0.0, 0.11, 0.33, 0.42], ["sil", "t", "a", "t"], duration=0.9, confidence=(1.0, 0.9, 0.6, 0.2)
)
FOUND = evaluate_alignments({"talk": TRUE}, {"talk": OURS})


def test_starts_with_their_confidence() -> None:
    starts = aligned_starts({"talk": TRUE}, {"talk": OURS})
    assert starts.ids == ("talk",) * 3
    assert starts.errors_ms.round(6).tolist() == [10.0, 30.0, -80.0]
    assert starts.right_enough.tolist() == [True, False, False]
    assert (starts.left, starts.right) == (("sil", "t", "a"), ("t", "a", "t"))
    assert starts.calibration().error == pytest.approx((0.1 + 0.6 + 0.2) / 3)
    with pytest.raises(DataError, match="other phones than its reference"):
        aligned_starts({"talk": TRUE}, {"talk": TRUE})


def test_errors_by_class() -> None:
    found = class_errors(FOUND, lambda label: "stop" if label == "t" else label)
    assert found.classes == ["stop", "a", "sil"]
    assert found.counts.astype(int).tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
    assert found.mean_ms[0, 1] == pytest.approx(30.0)
    assert found.mean_ms[1, 0] == pytest.approx(80.0)
    assert np.isnan(found.mean_ms[0, 0])
    texts = [text.get_text() for text in plot_class_errors(found).texts]
    assert texts == ["", "30", "", "80", "", "", "10", "", ""]


def test_tolerances_and_signed_errors() -> None:
    line = plot_tolerances(FOUND).lines[0]
    np.testing.assert_allclose(line.get_xdata(), [0, 10, 20, 30, 40, 50, 100])
    np.testing.assert_allclose(line.get_ydata(), [0, *(100 * one.value for one in FOUND.within.values())])
    bars = plot_boundary_errors(FOUND).patches
    assert sum(bar.get_height() for bar in bars) == FOUND.n_boundaries
    assert bars[0].get_height() == 1  # 80 ms early, at the end
