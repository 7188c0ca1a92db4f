"""What an aligner's answers on referenced recordings say about it: boundaries with their confidence, and
errors by the classes on both sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray
from trellis.core.errors import DataError
from trellis.report.label_statistics import Calibration, calibration
from trellis.speech.align.doubt.calibration import CONFIDENCE_SECONDS
from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation
from trellis.speech.evaluate.boundary_figures import ALLOWANCE
from trellis.speech.formats.alignment import Alignment


@dataclass(frozen=True, eq=False)
class AlignedStarts:
    """Starts of all phones but the first of a recording, which is given: where they are and should be (s),
    how sure the aligner is, the phones before and after, and the recording of each."""

    ids: tuple[str, ...]
    reference: FloatArray
    predicted: FloatArray
    confidence: FloatArray
    left: tuple[str, ...]
    right: tuple[str, ...]

    @property
    def errors_ms(self) -> FloatArray:
        """Predicted minus reference."""
        return 1e3 * (self.predicted - self.reference)

    @property
    def right_enough(self) -> BoolArray:
        """Within the 20 ms of which a confidence is the probability."""
        return np.abs(self.predicted - self.reference) <= CONFIDENCE_SECONDS + ALLOWANCE

    def calibration(self, n_bins: int = 10) -> Calibration:
        """How often each confidence comes true."""
        return calibration(self.confidence, self.right_enough, n_bins)


def aligned_starts(
    references: Mapping[str, Alignment], predictions: Mapping[str, Alignment]
) -> AlignedStarts:
    """Pair the starts of alignments with confidences with those of references to the same phones."""
    ids: list[str] = []
    columns: list[list[float]] = [[], [], []]
    labels: list[list[str]] = [[], []]
    for name, ours in predictions.items():
        true = references[name]
        if ours.labels != true.labels or ours.confidence is None:
            raise DataError(f"{name}: the alignment has other phones than its reference, or no confidences")
        n = len(ours.phones) - 1
        ids += [name] * n
        given = true.starts.tolist(), ours.starts.tolist(), list(ours.confidence)
        for column, values in zip(columns, given, strict=True):
            column += values[1:]
        labels[0] += ours.labels[:-1]
        labels[1] += ours.labels[1:]
    reference, predicted, confidence = (np.array(column) for column in columns)
    return AlignedStarts(tuple(ids), reference, predicted, confidence, tuple(labels[0]), tuple(labels[1]))


@dataclass(frozen=True, eq=False)
class ClassErrors:
    """Boundaries between classes of phones: how many, and their mean absolute error (NaN where none)."""

    classes: list[str]
    counts: FloatArray
    mean_ms: FloatArray


def class_errors(evaluation: AlignmentEvaluation, fold: Callable[[str], str]) -> ClassErrors:
    """Tables (left class, right class), the most frequent classes first."""
    pairs: list[tuple[str, str]] = []
    for one in evaluation.utterances:
        pairs += [(fold(a), fold(b)) for a, b in zip(one.left, one.right, strict=True)]
    sizes = _absolute(evaluation)
    names = [name for pair in pairs for name in pair]
    classes = sorted(set(names), key=lambda name: (-names.count(name), name))
    place = {name: k for k, name in enumerate(classes)}
    at = tuple(np.array([[place[a], place[b]] for a, b in pairs], np.int64).reshape(-1, 2).T)
    counts, sums = np.zeros((2, len(classes), len(classes)))
    np.add.at(counts, at, 1.0)
    np.add.at(sums, at, sizes)
    return ClassErrors(classes, counts, np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan))


def _absolute(evaluation: AlignmentEvaluation) -> FloatArray:
    """|error| of all boundaries in ms, in order."""
    parts: Sequence[FloatArray] = [1e3 * np.abs(one.seconds) for one in evaluation.utterances]
    return np.concatenate(parts) if parts else np.zeros(0)
