"""What an evaluation needs to know of predicted labels: counts, which can be added up over shards of data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import UnsupportedError
from trellis.data.constraints import split_tag
from trellis.losses.metrics import SPAN_TAGS, SpanScore, errors_by_sequence, span_report

_SPAN_TAGS = SPAN_TAGS - {"O"}


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """``wrong`` and ``steps``: by sequence. ``spans`` (S, 3): correct, predicted and gold spans by sequence;
    ``by_span_type``: of all. Both are None where some label is no span tag. ``some_spans``: whether any label
    is not O."""

    wrong: IntArray
    steps: IntArray
    by_label: dict[str, SpanScore]
    spans: NDArray[np.int64] | None
    by_span_type: dict[str, SpanScore] | None
    some_spans: bool

    @property
    def are_spans(self) -> bool:
        return self.spans is not None and self.some_spans

    def f1_parts(self) -> tuple[FloatArray, FloatArray]:
        """2 correct, and predicted + gold - 2 correct, by sequence: F1 is the share of the first in both."""
        if self.spans is None:
            raise UnsupportedError("labels that are not span tags have no span F1")
        correct, predicted, gold = self.spans.T.astype(np.float64)
        return 2.0 * correct, predicted + gold - 2.0 * correct


def count_labels(gold: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> LabelCounts:
    """Compare two lists of label sequences."""
    tags = _tags_but_o(gold, predicted)
    report = span_report(gold, predicted) if _of_spans(tags) else None
    return LabelCounts(
        *errors_by_sequence(gold, predicted),
        _by_label(gold, predicted),
        None if report is None else report.counts,
        None if report is None else report.by_type,
        bool(tags),
    )


def add_counts(parts: Iterable[LabelCounts]) -> LabelCounts:
    """Counts of several shards, in order."""
    found = list(parts)
    spans = [part.spans for part in found if part.spans is not None]
    types = [part.by_span_type for part in found if part.by_span_type is not None]
    all_spans = len(spans) == len(found)
    return LabelCounts(
        np.concatenate([part.wrong for part in found]),
        np.concatenate([part.steps for part in found]),
        _added([part.by_label for part in found]),
        np.concatenate(spans) if all_spans else None,
        _added(types) if all_spans else None,
        any(part.some_spans for part in found),
    )


def are_span_tags(*labellings: Sequence[Sequence[Any]]) -> bool:
    """Whether all labels are O or like B-type, and some are not O."""
    tags = _tags_but_o(*labellings)
    return bool(tags) and _of_spans(tags)


def _tags_but_o(*labellings: Sequence[Sequence[Any]]) -> list[tuple[str, str]]:
    labels = set(chain.from_iterable(chain.from_iterable(labellings))) - {"O"}
    return [split_tag(label) if isinstance(label, str) else ("", "") for label in labels]


def _of_spans(tags: Iterable[tuple[str, str]]) -> bool:
    return all(tag in _SPAN_TAGS and kind for tag, kind in tags)


def _added(tables: Sequence[Mapping[str, SpanScore]]) -> dict[str, SpanScore]:
    added: dict[str, SpanScore] = {}
    for table in tables:
        for name, score in table.items():
            old = added.get(name, SpanScore(0, 0, 0))
            added[name] = SpanScore(
                old.correct + score.correct, old.predicted + score.predicted, old.gold + score.gold
            )
    return added


def _by_label(gold: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> dict[str, SpanScore]:
    true, answers = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    correct = Counter(a for a, b in zip(true, answers, strict=True) if a == b)
    n_gold, n_predicted = Counter(true), Counter(answers)
    return {
        str(label): SpanScore(correct[label], n_predicted[label], n_gold[label])
        for label in n_gold.keys() | n_predicted.keys()
    }
