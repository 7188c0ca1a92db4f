"""What labels and their probabilities say about a labeller: confusions, calibration, worst errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError

Labels = Sequence[Sequence[Any]]


@dataclass(frozen=True, eq=False)
class Confusion:
    """``counts[i, j]``: how many steps with label ``labels[i]`` were given ``labels[j]``."""

    labels: list[Any]
    counts: NDArray[np.int64]

    def most_frequent(self, n: int) -> list[tuple[Any, Any, int]]:
        """The ``n`` most frequent pairs of different labels, as (gold, predicted, count)."""
        wrong = self.counts.copy()
        np.fill_diagonal(wrong, 0)
        order = np.argsort(-wrong, axis=None, kind="stable")[:n]
        pairs = zip(*np.unravel_index(order, wrong.shape), strict=True)
        return [(self.labels[i], self.labels[j], int(wrong[i, j])) for i, j in pairs if wrong[i, j]]


def confusion(gold: Labels, predicted: Labels) -> Confusion:
    """Counts of all pairs of labels, the most frequent gold labels first."""
    true, answers = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    if not true or len(true) != len(answers):
        raise DataError(f"{len(true)} labels cannot be compared with {len(answers)}; give one for each step")
    names = list(dict.fromkeys(chain(true, answers)))
    code = {name: i for i, name in enumerate(names)}
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, ([code[a] for a in true], [code[b] for b in answers]), 1)
    order = np.argsort(-counts.sum(axis=1), kind="stable")
    return Confusion([names[i] for i in order], counts[np.ix_(order, order)])


@dataclass(frozen=True, eq=False)
class Calibration:
    """Steps in bins of the probability of their predicted label.

    ``counts``, ``confidence`` (its mean) and ``accuracy`` of each bin, NaN in empty ones; ``error`` is the
    expected calibration error, sum_b (n_b / n) |accuracy_b - confidence_b|.
    """

    edges: FloatArray
    counts: IntArray
    confidence: FloatArray
    accuracy: FloatArray
    error: float


def calibration(probabilities: FloatArray, right: NDArray[np.bool_], n_bins: int = 10) -> Calibration:
    """The calibration of the probabilities (N,) of predicted labels, some of which are right."""
    n_bins = check_int("n_bins", n_bins, 1)
    if not len(probabilities):
        raise DataError("there are no steps to calibrate on; give at least one")
    edges = np.linspace(0.0, 1.0, n_bins + 1)
    place = np.clip(np.searchsorted(edges, probabilities, side="right") - 1, 0, n_bins - 1)
    counts = np.bincount(place, minlength=n_bins)
    some = np.maximum(counts, 1)
    confidence = np.bincount(place, probabilities, n_bins) / some
    accuracy = np.bincount(place, right.astype(np.float64), n_bins) / some
    error = float((counts * np.abs(accuracy - confidence)).sum() / len(probabilities))
    empty = counts == 0
    confidence[empty] = accuracy[empty] = np.nan
    return Calibration(edges, counts, confidence, accuracy, error)


def label_probabilities(
    labels: Labels, marginals: Sequence[FloatArray], classes: Sequence[Any]
) -> list[FloatArray]:
    """The probability of each given label; 0 for labels that the model does not know."""
    code = {name: i for i, name in enumerate(classes)}
    found = []
    for row, shares in zip(labels, marginals, strict=True):
        codes = np.array([code.get(label, -1) for label in row], np.int64)
        found.append(np.where(codes >= 0, shares[np.arange(len(row)), codes], 0.0))
    return found


def worst_sequences(
    gold: Labels, predicted: Labels, sure: Sequence[FloatArray], truth: Sequence[FloatArray], n: int
) -> list[int]:
    """The ``n`` sequences with the most confident errors: the largest sum over wrong steps of P(predicted) -
    P(gold). Sequences without an error are left out."""
    confidence = {}
    for i, (a, b) in enumerate(zip(gold, predicted, strict=True)):
        wrong = np.array([x != y for x, y in zip(a, b, strict=True)], np.bool_)
        if wrong.any():
            confidence[i] = float((sure[i] - truth[i])[wrong].sum())
    return sorted(confidence, key=lambda i: -confidence[i])[:n]
