"""What the stages of a model cost: training as its history has it, the rest as it is measured for a page."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trellis.report.pages.page_parts import table


class StageTimes:
    """Stages with their seconds, in the order in which they are told or measured."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, str]] = []

    @contextmanager
    def measure(self, stage: str, about: str = "") -> Iterator[None]:
        """Time the block; ``about``: what was worked on."""
        began = time.perf_counter()
        yield
        self.rows.append((stage, time.perf_counter() - began, about))

    def section(self, model: Any, training: str = "training") -> str:
        """The table, training first; ``training``: what its history is about."""
        known = list(self.rows)
        seconds = getattr(model, "history_", {}).get("seconds", [])
        if len(seconds):
            known.insert(0, (training, float(seconds[-1]), f"{len(seconds):,} iterations, by history_"))
        caption = (
            "Training when the model was made, the rest as measured for this page. The first call of a "
            "program also loads its kernels, or compiles them."
        )
        rows = [(stage, duration(spent), about) for stage, spent, about in known]
        return table(caption, ["stage", "time", "of what"], rows, words=[2]) if rows else ""


def duration(seconds: float) -> str:
    if seconds < 1e-3:
        return f"{1e6 * seconds:.0f} µs"
    if seconds < 1:
        return f"{1e3 * seconds:.3g} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds / 60:.1f} minutes"
