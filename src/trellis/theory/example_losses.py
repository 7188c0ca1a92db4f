"""Losses of predictions, example by example: what intervals, tests and simulations are made of.

    zero_one   1 if the example is wrong; a sequence is wrong if any of its steps is
    hamming    wrong steps; the loss of a data set is their share of all steps, that of one example
               their share of its own steps
    span_f1    1 - F1 over all spans of a data set (as conlleval counts them), which is no mean over examples
    others     a function of two labels (or label sequences), or an object of ``labelings``: the mean

An example is one label, or one sequence of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from trellis.core.arguments import check_choice
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import LabelSet
from trellis.losses.labelings import Loss
from trellis.losses.metrics import errors_by_sequence, span_report
from trellis.theory.share_statistics import Share, f1_loss, ratio

LossLike = str | Loss | Callable[[Any, Any], float]
NAMES = ("zero_one", "hamming", "span_f1")


@dataclass(frozen=True, eq=False)
class ExampleLosses:
    """``rows`` (n, k) add up over examples, and ``statistic`` of the sums is the loss of them all.

    ``per_example`` (n,) are losses of single examples, ``None`` where there are none (F1).
    """

    rows: FloatArray
    statistic: Share
    per_example: FloatArray | None

    @property
    def parts(self) -> tuple[FloatArray, FloatArray] | None:
        """Wrong and right units of each example, where the loss is a share; else ``None``."""
        return self.statistic.parts(self.rows)

    @property
    def value(self) -> float:
        return float(self.statistic(self.rows.sum(axis=0)))

    @property
    def binary(self) -> bool:
        """Whether every loss is 0 or 1."""
        return self.per_example is not None and bool(np.isin(self.per_example, (0.0, 1.0)).all())


def measure_losses(gold: Any, predicted: Any, loss: LossLike = "zero_one") -> ExampleLosses:
    """The losses of ``predicted`` against ``gold``: labels (array, list, series) or label sequences."""
    gold, predicted = _in_order(gold), _in_order(predicted)
    if len(gold) != len(predicted):
        raise DataError(
            f"there are {len(gold)} true labels or sequences, but {len(predicted)} predicted ones"
        )
    if not len(gold):
        raise DataError("there are no examples to compare; at least one is needed")
    structured = is_structured(gold)
    if structured != is_structured(predicted):
        kinds = ("sequences", "single labels")
        true, found = kinds if structured else reversed(kinds)
        raise DataError(
            f"the true labels are {true} and the predicted ones {found}; give both alike (single labels have "
            "the shape (n,), not (n, 1))"
        )
    if isinstance(loss, Loss):
        return _mean(_of_loss_object(gold, predicted, loss))
    if callable(loss):
        return _mean(np.array([loss(g, p) for g, p in zip(gold, predicted, strict=True)], dtype=np.float64))
    check_choice("loss", loss, NAMES)
    if loss == "span_f1":
        if not structured:
            raise UnsupportedError("span_f1 is for sequences of labels, and these are single labels")
        rows = span_report(gold, predicted).counts.astype(np.float64)
        return ExampleLosses(rows, f1_loss, None)
    if not structured:
        return _mean((np.asarray(gold) != np.asarray(predicted)).astype(np.float64))
    wrong, steps = errors_by_sequence(gold, predicted)
    if loss == "zero_one":
        return _mean((wrong > 0).astype(np.float64))
    rows = np.stack([wrong, steps], axis=1).astype(np.float64)
    return ExampleLosses(rows, ratio, wrong / np.maximum(steps, 1))


def _in_order(labels: Any) -> Any:
    """Labels that can be asked for by their place: the first label of a series need not be called 0."""
    if hasattr(labels, "to_numpy"):
        return labels.to_numpy()
    return labels if isinstance(labels, Sequence | np.ndarray) else list(labels)


def is_structured(labels: Any) -> bool:
    """Whether examples are sequences of labels, and not single labels."""
    return isinstance(labels[0], Sequence | np.ndarray) and not isinstance(labels[0], str | bytes)


def loss_name(loss: LossLike) -> str:
    if isinstance(loss, str):
        return loss
    return loss.name if isinstance(loss, Loss) else getattr(loss, "__qualname__", type(loss).__name__)


def _mean(losses: FloatArray) -> ExampleLosses:
    if losses.ndim != 1 or not np.isfinite(losses).all():
        raise DataError("a loss must give one finite number for each example")
    return ExampleLosses(np.stack([losses, np.ones(len(losses))], axis=1), ratio, losses)


def _of_loss_object(gold: Any, predicted: Any, loss: Loss) -> FloatArray:
    if not is_structured(gold):
        raise UnsupportedError(
            f"the loss {loss.name!r} is for sequences of labels, and these are single labels"
        )
    names = LabelSet(dict.fromkeys(chain(*gold, *predicted)))
    encoded = names.encode(gold)
    return loss.per_sequence(encoded, names.encode(predicted, like=encoded.offsets).codes, names)
