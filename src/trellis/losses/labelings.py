"""Task losses: what a wrong labelling costs, and how inference takes account of it.

    Hamming            number of wrong steps
    WeightedHamming    sum_t position_t class_weight[y*_t] costs[y*_t, y_t]
    ZeroOne            1 if any step is wrong
    SpanF1             1 - F1 of the spans of the sequence (conlleval's rules)
    Custom             any Python function of (gold labels, predicted labels)

The first two decompose into sums over steps: a table of costs (N, K) that inference adds to the scores,
exactly. For the 0-1 loss, inference finds the best labelling other than the gold one, exactly. The last two
do not decompose: they re-rank candidate labellings (the k best, or samples of the current model), and are
marked as approximate.

A step whose gold label is unknown costs nothing; where a set of labels is known, a label outside it costs the
least that any member of the set would make it cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arguments import as_floats, check_choice, check_int, is_number
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.foreign_names import unknown_choice
from trellis.core.registration import register
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.sequences import Sequences, check_same_lengths, step_name, sum_by_sequence
from trellis.losses.metrics import packed_span_report

Codes = NDArray[np.int32]
DECODINGS = ("best", "minimum_risk")  # by the highest score, or by the smallest expected loss


@dataclass(frozen=True, eq=False)
class Loss:
    """``kind``: "costs", "zero_one" or "candidates", how inference takes the loss into account.

    Examples
    --------
    >>> from trellis import losses
    >>> isinstance(losses.get_loss("hamming"), losses.Loss)
    True
    """

    name: ClassVar[str]
    kind: ClassVar[Literal["costs", "zero_one", "candidates"]]

    def costs(self, gold: EncodedLabels, labels: LabelSet) -> FloatArray:
        """The table of costs (N, K) of a loss that is a sum over steps."""
        raise UnsupportedError(f"loss {self.name!r} is not a sum over steps")

    def risks(self, marginals: FloatArray, offsets: IntArray, labels: LabelSet) -> FloatArray:
        """sum_j P(y*_t = j) cost_t[j, k] (N, K): what label k is expected to cost at step t, up to a constant
        of the step, of a loss that is a sum over steps; ``marginals`` (N, K) are P."""
        risks = np.zeros_like(marginals)
        for j in range(len(labels)):
            gold = EncodedLabels(np.full(len(marginals), j, dtype=np.int32), None, offsets)
            risks += marginals[:, j : j + 1] * self.costs(gold, labels)
        return risks

    def per_sequence(self, gold: EncodedLabels, predicted: Codes, labels: LabelSet) -> FloatArray:
        """L(y*, y) of each sequence (S,)."""
        return sum_by_sequence(self.costs(gold, labels)[np.arange(len(predicted)), predicted], gold.offsets)

    def __repr__(self) -> str:
        return f"losses.{type(self).__name__}()"


@dataclass(frozen=True, eq=False, repr=False)
class Hamming(Loss):
    """The number of wrong steps.

    Examples
    --------
    >>> from trellis.data import LabelSet
    >>> from trellis.losses import Hamming
    >>> labels = LabelSet(["A", "B"])
    >>> gold, predicted = labels.encode([["A", "B", "B"]]), labels.encode([["A", "A", "A"]])
    >>> Hamming().per_sequence(gold, predicted.codes, labels).tolist()
    [2.0]
    """

    name = "hamming"
    kind = "costs"

    def costs(self, gold: EncodedLabels, labels: LabelSet) -> FloatArray:
        return _cost_table(gold, 1.0 - np.eye(len(labels)))

    def risks(self, marginals: FloatArray, offsets: IntArray, labels: LabelSet) -> FloatArray:
        return -marginals  # 1 - P, up to a constant: small differences survive

    def per_sequence(self, gold: EncodedLabels, predicted: Codes, labels: LabelSet) -> FloatArray:
        wrong = (gold.codes != predicted) & ((gold.codes >= 0) | (gold.allowed is not None))
        if gold.allowed is not None:  # no table of costs here: labels may be many
            wrong &= ~gold.allowed[np.arange(len(predicted)), predicted]
        return sum_by_sequence(wrong.astype(np.float64), gold.offsets)


@dataclass(frozen=True, eq=False)
class WeightedHamming(Loss):
    """sum_t position_t * class_weight[y*_t] * costs[y*_t, y_t].

    ``matrix``, the costs: (K, K) in the order of the labels (rows: gold), or a dict ``{(gold, predicted):
    cost}`` (a pair that is not named costs 1, a right label 0); default 1 for every wrong label.
    ``class_weight``: a dict ``{label: weight}`` (default 1) or ``"balanced"``, n / (K n_k).
    ``position_weight``: one array per training sequence, or a function of the length that gives one.

    Examples
    --------
    >>> from trellis.data import LabelSet
    >>> from trellis.losses import WeightedHamming
    >>> labels = LabelSet(["A", "B"])
    >>> gold, predicted = labels.encode([["A", "B"]]), labels.encode([["B", "A"]])
    >>> loss = WeightedHamming(class_weight={"A": 5.0, "B": 1.0})
    >>> loss.per_sequence(gold, predicted.codes, labels).tolist()
    [6.0]
    """

    matrix: ArrayLike | Mapping[tuple[Any, Any], float] | None = None
    class_weight: Mapping[Any, float] | Literal["balanced"] | None = None
    position_weight: Sequence[ArrayLike] | Callable[[int], ArrayLike] | None = None
    name = "weighted_hamming"
    kind = "costs"

    def costs(self, gold: EncodedLabels, labels: LabelSet) -> FloatArray:
        table = cost_matrix(self.matrix, labels) * class_weights(self.class_weight, gold, labels)[:, None]
        costs = _cost_table(gold, table)
        if self.position_weight is not None:
            costs *= self._positions(gold.offsets)[:, None]
        return costs

    def risks(self, marginals: FloatArray, offsets: IntArray, labels: LabelSet) -> FloatArray:
        if isinstance(self.class_weight, str):
            raise UnsupportedError(
                f"class_weight={self.class_weight!r} of the loss depends on the gold labels, which are not "
                "known in prediction; give a dictionary {label: weight}"
            )
        if self.position_weight is not None and not callable(self.position_weight):
            raise UnsupportedError(
                "position_weight holds arrays for the training sequences; for expected losses of others give "
                "a function of the length"
            )
        nothing = EncodedLabels(np.zeros(0, np.int32), None, np.zeros(1, np.int64))
        weights = class_weights(self.class_weight, nothing, labels)
        risks: FloatArray = (marginals * weights) @ cost_matrix(self.matrix, labels)
        return risks if self.position_weight is None else risks * self._positions(offsets)[:, None]

    def _positions(self, offsets: IntArray) -> FloatArray:
        lengths = np.diff(offsets)
        given: Any = self.position_weight
        if callable(given):
            of_length = {int(n): given(int(n)) for n in np.unique(lengths)}
            given = [of_length[int(n)] for n in lengths]
        if not len(lengths):
            return np.zeros(0)
        weights = Sequences.from_list(given, np.float64, "position_weight")
        check_same_lengths(offsets, weights.offsets, "position_weight")
        if weights.values.ndim != 1 or not (weights.values >= 0).all():
            raise DataError("position_weight must hold one number for each step, not negative and not NaN")
        return weights.values


@dataclass(frozen=True, eq=False, repr=False)
class ZeroOne(Loss):
    """1 if any step of the sequence is wrong.

    Examples
    --------
    >>> from trellis.data import LabelSet
    >>> from trellis.losses import ZeroOne
    >>> labels = LabelSet(["A", "B"])
    >>> gold, predicted = labels.encode([["A", "B"], ["A"]]), labels.encode([["B", "A"], ["A"]])
    >>> ZeroOne().per_sequence(gold, predicted.codes, labels).tolist()
    [1.0, 0.0]
    """

    name = "zero_one"
    kind = "zero_one"

    def per_sequence(self, gold: EncodedLabels, predicted: Codes, labels: LabelSet) -> FloatArray:
        return (Hamming().per_sequence(gold, predicted, labels) > 0).astype(np.float64)


@dataclass(frozen=True, eq=False, kw_only=True)
class CandidateLoss(Loss):
    """A loss that is evaluated on ``n_candidates`` labellings of each sequence: the best ones, or samples.

    Examples
    --------
    >>> from trellis import losses
    >>> loss = losses.SpanF1(candidates="samples", n_candidates=8)
    >>> isinstance(loss, losses.CandidateLoss), loss.kind
    (True, 'candidates')
    """

    candidates: Literal["k_best", "samples"] = "k_best"
    n_candidates: int = 16
    kind = "candidates"

    def __post_init__(self) -> None:
        check_choice("candidates", self.candidates, ("k_best", "samples"))
        check_int("n_candidates", self.n_candidates, 2)

    def check_known(self, gold: EncodedLabels) -> None:
        unknown = np.flatnonzero(gold.codes < 0)
        if unknown.size:
            step = step_name(gold.offsets, int(unknown[0]))
            raise UnsupportedError(
                f"loss {self.name!r} needs every gold label; that of {step} is unknown, so use loss='hamming'"
            )


@dataclass(frozen=True, eq=False)
class SpanF1(CandidateLoss):
    """1 - F1 of the spans of one sequence; 0 for a sequence without spans in which none is predicted.

    Examples
    --------
    >>> from trellis.data import LabelSet
    >>> from trellis.losses import SpanF1
    >>> labels = LabelSet(["B-X", "I-X", "O"])
    >>> gold, predicted = labels.encode([["B-X", "O", "B-X"]]), labels.encode([["B-X", "O", "O"]])
    >>> SpanF1().per_sequence(gold, predicted.codes, labels).round(3).tolist()
    [0.333]
    """

    name = "span_f1"

    def per_sequence(self, gold: EncodedLabels, predicted: Codes, labels: LabelSet) -> FloatArray:
        self.check_known(gold)
        report = packed_span_report(gold.codes, predicted, gold.offsets, labels.labels)
        correct, guessed, true = report.counts.T
        return 1.0 - np.where(guessed + true > 0, 2.0 * correct / np.maximum(guessed + true, 1), 1.0)


@dataclass(frozen=True, eq=False)
class Custom(CandidateLoss):
    """Any ``function(gold, predicted) -> float`` of two lists of labels: at least 0, and 0 if they agree.

    Examples
    --------
    >>> from trellis.losses import Custom
    >>> def more_than_one_wrong(gold, predicted):
    ...     return float(sum(a != b for a, b in zip(gold, predicted, strict=True)) > 1)
    ...
    >>> Custom(more_than_one_wrong).function(["A", "B"], ["B", "A"])
    1.0
    """

    function: Callable[[list[Any], list[Any]], float] | None = None
    name = "custom"

    def per_sequence(self, gold: EncodedLabels, predicted: Codes, labels: LabelSet) -> FloatArray:
        if self.function is None:
            raise UnsupportedError(
                "the loss of this model was a Python function, which model files do not store; "
                "set it again with model.set_params(loss=...)"
            )
        self.check_known(gold)
        true, guessed = labels.decode(gold.codes, gold.offsets), labels.decode(predicted, gold.offsets)
        given: list[Any] = [self.function(t, g) for t, g in zip(true, guessed, strict=True)]
        values = np.array([v if isinstance(v, Real | np.bool_) else np.nan for v in given], dtype=np.float64)
        bad = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if bad.size:
            i = int(bad[0])
            raise DataError(
                f"the loss function returned {given[i]!r} for the gold labels {true[i]} and the labels "
                f"{guessed[i]}; it must return a finite number of at least 0"
            )
        return values


LOSSES: dict[str, type[Loss]] = {c.name: c for c in (Hamming, WeightedHamming, ZeroOne, SpanF1)}

for _record in (*LOSSES.values(), Custom):
    register(_record)


def get_loss(loss: str | Loss | Callable[[list[Any], list[Any]], float]) -> Loss:
    """A loss by name, as given, or from a Python function.

    Examples
    --------
    >>> from trellis.losses import get_loss
    >>> get_loss("hamming"), get_loss(lambda gold, predicted: float(gold != predicted)).name
    (losses.Hamming(), 'custom')
    """
    if isinstance(loss, Loss):
        return loss
    if callable(loss) and not isinstance(loss, type):
        return Custom(function=loss)
    if not isinstance(loss, str) or loss not in LOSSES:
        raise DataError(
            unknown_choice("loss", loss, LOSSES, ", or give an object of trellis.losses or a function")
        )
    return LOSSES[loss]()


def cost_matrix(matrix: ArrayLike | Mapping[tuple[Any, Any], float] | None, labels: LabelSet) -> FloatArray:
    """(K, K) costs, rows by gold label, zero on the diagonal."""
    k = len(labels)
    costs = 1.0 - np.eye(k)
    if isinstance(matrix, Mapping):
        for pair, cost in matrix.items():
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise DataError(
                    f"the cost matrix names {pair!r}; give costs by (gold label, predicted label)"
                )
            if not is_number(cost):
                raise DataError(f"the cost of {pair!r} is {cost!r}; give a finite number of at least 0")
            gold, predicted = (labels.find(label, "the cost matrix") for label in pair)
            if gold is not None and predicted is not None:
                costs[gold, predicted] = cost
    elif matrix is not None:
        costs = as_floats("the cost matrix", matrix)
        if costs.shape != (k, k):
            raise DataError(
                f"the cost matrix has shape {costs.shape}; for the {k} labels it must be ({k}, {k})"
            )
    if not (np.isfinite(costs).all() and (costs >= 0).all() and (np.diag(costs) == 0).all()):
        raise DataError("costs must be finite, at least 0, and 0 for the right label")
    return costs


def class_weights(
    weight: Mapping[Any, float] | str | None, gold: EncodedLabels, labels: LabelSet
) -> FloatArray:
    """(K,) weights of the labels; "balanced" is n / (K n_k), as in scikit-learn."""
    if weight is None:
        return np.ones(len(labels))
    if isinstance(weight, str) and weight == "balanced":
        return balanced_weights(label_counts(gold, len(labels)))
    if not isinstance(weight, Mapping):
        raise DataError(f"class_weight is {weight!r}; give 'balanced' or a dictionary {{label: weight}}")
    weights = np.ones(len(labels))
    value: Any
    for label, value in weight.items():
        if not (is_number(value) and 0 <= float(value) < np.inf):
            raise DataError(f"the class weight of {label!r} is {value!r}; give a finite number of at least 0")
        code = labels.find(label, "class_weight")
        if code is not None:
            weights[code] = value
    return weights


def label_counts(gold: EncodedLabels, n_labels: int) -> NDArray[np.int64]:
    """(K,) how many steps have each label, of those that are known."""
    return np.bincount(gold.codes[gold.codes >= 0], minlength=n_labels)


def balanced_weights(counts: NDArray[np.int64]) -> FloatArray:
    """(K,) n / (K n_k)."""
    balanced: FloatArray = counts.sum() / (len(counts) * np.maximum(counts, 1))
    return balanced


def _cost_table(gold: EncodedLabels, matrix: FloatArray) -> FloatArray:
    """costs[t] = matrix[y*_t]; the minimum over the set where only a set is known."""
    table: FloatArray = matrix[gold.codes]  # -1 picks the last row, replaced below
    unknown = gold.codes < 0
    if unknown.any():
        if gold.allowed is None:
            table[unknown] = 0.0
        else:
            sets, which = np.unique(gold.allowed[unknown], axis=0, return_inverse=True)
            cheapest = np.stack([matrix[members].min(axis=0) for members in sets])
            table[unknown] = cheapest[which.ravel()]
    return np.ascontiguousarray(table)
