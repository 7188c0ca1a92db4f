"""Two labellings of the same data: each figure with its difference, an interval and a paired test.

Figures are those of :mod:`trellis.report.evaluation`: span F1 (where the labels are span tags) and tokens
right by a randomisation test over sequences, whole sequences right by McNemar's. A difference is the first
minus the second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.losses.metrics import errors_by_sequence, span_report
from trellis.report.label_counts import are_span_tags
from trellis.theory.paired_tests import Comparison, mcnemar_test, paired_test
from trellis.theory.share_statistics import f1, ratio

if TYPE_CHECKING:
    from rich.table import Table

Labels = Sequence[Sequence[Any]]


def compare_labels(gold: Labels, a: Labels, b: Labels) -> dict[str, Comparison]:
    """Paired tests of the labellings ``a`` and ``b``, by the name of the figure."""
    found = {}
    if are_span_tags(gold, a, b):
        found["span F1"] = paired_test(span_report(gold, a).counts, span_report(gold, b).counts, f1)
    (wrong_a, steps), (wrong_b, _) = errors_by_sequence(gold, a), errors_by_sequence(gold, b)
    right_a, right_b = (np.stack([steps - wrong, steps], axis=1) for wrong in (wrong_a, wrong_b))
    found["tokens right"] = paired_test(right_a, right_b, ratio)
    found["sequences right"] = mcnemar_test(wrong_a == 0, wrong_b == 0)
    return found


def comparison_table(comparisons: dict[str, Comparison], a: str, b: str) -> Table:
    """Percentages; the last column says whether a difference can be told."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table("", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in (a, b, "difference", "95% interval", "p"):
        table.add_column(Text(heading), justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for name, found in comparisons.items():
        table.add_row(
            name,
            f"{100 * found.a:.2f}",
            f"{100 * found.b:.2f}",
            f"{100 * found.difference:+.2f}",
            f"{100 * found.low:+.2f} to {100 * found.high:+.2f}",  # all three are shares and have one
            f"{found.p_value:.3g}",
            found.verdict,
        )
    return table


def comparison_json(comparisons: dict[str, Comparison]) -> dict[str, Any]:
    return {
        name.replace(" ", "_").lower(): {**asdict(found), "difference": found.difference}
        for name, found in comparisons.items()
    }
