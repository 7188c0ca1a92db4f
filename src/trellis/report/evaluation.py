"""How good are predicted labels: one headline with a confidence interval, and the scores of each type.

Span tags (``B-NP``, ``I-NP``, ``O``; E and S, or L and U, as well) are scored by spans, as conlleval counts
them; all other labels token by token, each label being its own type. Every figure has its 95% interval: the
exact one of Clopper and Pearson for whole sequences, and for F1 and tokens the same with an effective number
of samples (Korn and Graubard), because the tokens of one sequence are not independent of each other. The
optional empirical Bernstein interval is about the mean over sequences of the share of right tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.losses.metrics import SpanScore, score_table
from trellis.report.label_counts import LabelCounts, count_labels
from trellis.theory.confidence_intervals import (
    Interval,
    clopper_pearson_interval,
    empirical_bernstein_interval,
    share_interval,
)

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Evaluation:
    """Fractions, not percentages. ``span_f1`` is ``None`` where the labels are not span tags."""

    span_f1: Interval | None
    tokens_right: Interval
    sequences_right: Interval
    by_type: dict[str, SpanScore]
    n_sequences: int
    n_tokens: int
    bernstein: Interval | None = None  # of the share of right tokens, mean over sequences

    def _figures(self) -> dict[str, Interval | None]:
        return {
            "span F1": self.span_f1,
            "tokens right": self.tokens_right,
            "sequences right": self.sequences_right,
        }

    def headline(self) -> str:
        shown: list[str] = []
        for name, found in self._figures().items():
            if found is not None:
                words = "" if shown else "95% interval "
                shown.append(f"{name}  {100 * found.value:.2f}  ({words}{_percent(found)})")
        return "   ".join(shown)

    def bernstein_line(self) -> str | None:
        if self.bernstein is None:
            return None
        return (
            f"tokens right, mean over sequences  {100 * self.bernstein.value:.2f}  "
            f"(95% interval {_percent(self.bernstein)}, {self.bernstein.name})"
        )

    def table(self) -> Table:
        """Precision, recall and F1 of each type, the most frequent first."""
        return score_table(dict(sorted(self.by_type.items(), key=lambda item: (-item[1].gold, item[0]))))

    def to_json(self) -> dict[str, Any]:
        figures: dict[str, Any] = {}
        for name, found in self._figures().items():
            key = name.replace(" ", "_").lower()
            figures[key] = None if found is None else found.value
            figures[f"{key}_interval"] = None if found is None else (found.low, found.high)
        by_type = {
            name: {"precision": s.precision, "recall": s.recall, "f1": s.f1, "gold": s.gold}
            for name, s in self.by_type.items()
        }
        return {
            **figures,
            "tokens_right_per_sequence": None if self.bernstein is None else asdict(self.bernstein),
            "sequences": self.n_sequences,
            "tokens": self.n_tokens,
            "by_type": by_type,
        }


def evaluate_labels(
    gold: Sequence[Sequence[Any]], predicted: Sequence[Sequence[Any]], *, bernstein: bool = False
) -> Evaluation:
    """Compare two lists of label sequences."""
    return evaluate_counts(count_labels(gold, predicted), bernstein=bernstein)


def evaluate_counts(counts: LabelCounts, *, bernstein: bool = False) -> Evaluation:
    """The same from counts, perhaps of many shards."""
    wrong, steps = counts.wrong, counts.steps
    spans = counts.by_span_type if counts.are_spans else None
    return Evaluation(
        span_f1=share_interval(*counts.f1_parts()) if counts.are_spans else None,
        tokens_right=share_interval(steps - wrong, wrong),
        sequences_right=clopper_pearson_interval(int((wrong == 0).sum()), len(wrong)),
        by_type=counts.by_label if spans is None else spans,
        n_sequences=len(wrong),
        n_tokens=int(steps.sum()),
        bernstein=empirical_bernstein_interval(1.0 - wrong / np.maximum(steps, 1)) if bernstein else None,
    )


def _percent(interval: Interval) -> str:
    return f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"
