"""How good are predicted labels: one headline with a confidence interval, and the scores of each type.

Labels that spell spans (``B-NP``, ``I-NP``, ``O``; E and S, or L and U, as well) are scored by spans, as
conlleval counts them; all others token by token, each label being its own type. Every figure has its 95%
interval: a percentile bootstrap over sequences for F1 and tokens, because the tokens of one sequence are not
independent of each other, and the exact one of Clopper and Pearson for whole sequences. Where nothing is
wrong the bootstrap shrinks to a point, and the exact one says how much that is worth. Empirical Bernstein,
when asked for, holds for any number of sequences; it is about the mean over sequences of the share of right
tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.constraints import split_tag
from trellis.losses.metrics import SPAN_TAGS, SpanScore, errors_by_sequence, span_report
from trellis.theory.intervals import (
    Interval,
    bootstrap_interval,
    clopper_pearson_interval,
    empirical_bernstein_interval,
    ratio,
)

if TYPE_CHECKING:
    from rich.table import Table

_SPAN_TAGS = SPAN_TAGS - {"O"}
_RESAMPLES = 1000


@dataclass(frozen=True)
class Evaluation:
    """Fractions, not percentages. ``f1`` and its interval are ``None`` where labels spell no spans."""

    f1: float | None
    f1_interval: tuple[float, float] | None
    tokens_right: float
    tokens_interval: tuple[float, float]
    sequences_right: float
    sequences_interval: tuple[float, float]
    by_type: dict[str, SpanScore]
    n_sequences: int
    n_tokens: int
    bernstein: Interval | None = None  # of the share of right tokens, mean over sequences

    def headline(self) -> str:
        tokens = f"tokens right  {100 * self.tokens_right:.2f}"
        if self.f1 is None or self.f1_interval is None:
            start = f"{tokens}  (95% interval {_percent(self.tokens_interval)})"
        else:
            f1 = f"span F1  {100 * self.f1:.2f}  (95% interval {_percent(self.f1_interval)})"
            start = f"{f1}   {tokens}  ({_percent(self.tokens_interval)})"
        sequences = f"sequences right  {100 * self.sequences_right:.2f}"
        return f"{start}   {sequences}  ({_percent(self.sequences_interval)})"

    def bernstein_line(self) -> str | None:
        if self.bernstein is None:
            return None
        limits = _percent((self.bernstein.low, self.bernstein.high))
        return (
            f"tokens right, mean over sequences  {100 * self.bernstein.value:.2f}  "
            f"(95% interval {limits}, {self.bernstein.name})"
        )

    def table(self) -> Table:
        """Precision, recall and F1 of each type, the most frequent first."""
        from rich import box
        from rich.table import Table

        table = Table("type", box=box.SIMPLE_HEAD, pad_edge=False)
        for heading in ("precision", "recall", "F1", "gold", "predicted", "correct"):
            table.add_column(heading, justify="right", no_wrap=True)
        for name, score in sorted(self.by_type.items(), key=lambda item: (-item[1].gold, item[0])):
            scores = (f"{100 * value:.2f}" for value in (score.precision, score.recall, score.f1))
            table.add_row(
                name or "(no type)", *scores, *map(str, (score.gold, score.predicted, score.correct))
            )
        return table

    def to_json(self) -> dict[str, Any]:
        return {
            "span_f1": self.f1,
            "span_f1_interval": self.f1_interval,
            "tokens_right": self.tokens_right,
            "tokens_right_interval": self.tokens_interval,
            "sequences_right": self.sequences_right,
            "sequences_right_interval": self.sequences_interval,
            "tokens_right_per_sequence": None if self.bernstein is None else asdict(self.bernstein),
            "sequences": self.n_sequences,
            "tokens": self.n_tokens,
            "by_type": {
                name: {
                    "precision": score.precision,
                    "recall": score.recall,
                    "f1": score.f1,
                    "gold": score.gold,
                }
                for name, score in self.by_type.items()
            },
        }


def evaluate_labels(
    gold: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]], *, bernstein: bool = False
) -> Evaluation:
    """Compare two lists of label sequences."""
    wrong, steps = errors_by_sequence(gold, predicted)
    n, n_right = len(wrong), int((wrong == 0).sum())
    tokens = bootstrap_interval(np.stack([steps - wrong, steps], axis=1), ratio, n_resamples=_RESAMPLES)
    sequences = clopper_pearson_interval(n_right, n)
    spans = span_report(gold, predicted) if spell_spans(gold, predicted) else None
    return Evaluation(
        f1=spans.overall.f1 if spans else None,
        f1_interval=spans.f1_interval(n_resamples=_RESAMPLES) if spans else None,
        tokens_right=tokens.value,
        tokens_interval=(tokens.low, tokens.high),
        sequences_right=sequences.value,
        sequences_interval=(sequences.low, sequences.high),
        by_type=spans.by_type if spans else _by_label(gold, predicted),
        n_sequences=n,
        n_tokens=int(steps.sum()),
        bernstein=empirical_bernstein_interval(1.0 - wrong / np.maximum(steps, 1)) if bernstein else None,
    )


def spell_spans(*labellings: Sequence[Sequence[Any]]) -> bool:
    """Whether all labels are O or like B-type, and some are not O."""
    labels = set(chain.from_iterable(chain.from_iterable(labellings))) - {"O"}
    tags = [split_tag(label) if isinstance(label, str) else ("", "") for label in labels]
    return bool(tags) and all(tag in _SPAN_TAGS and kind for tag, kind in tags)


def _by_label(gold: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]]) -> dict[str, SpanScore]:
    true, answers = list(chain.from_iterable(gold)), list(chain.from_iterable(predicted))
    correct = Counter(a for a, b in zip(true, answers, strict=True) if a == b)
    n_gold, n_predicted = Counter(true), Counter(answers)
    return {
        str(label): SpanScore(correct[label], n_predicted[label], n_gold[label])
        for label in n_gold.keys() | n_predicted.keys()
    }


def _percent(interval: tuple[float, float]) -> str:
    return f"{100 * interval[0]:.1f} to {100 * interval[1]:.1f}"
