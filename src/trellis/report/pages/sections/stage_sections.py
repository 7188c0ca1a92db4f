"""What the stages of a model cost: those of ``fit`` as the model keeps them, and those of its page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from trellis.core.stage_times import STAGES, StageTimes, duration
from trellis.report.pages.page_parts import table

_HEAD = ["stage", "time", "of what"]
_KERNELS = "<p>The first call of a program also loads kernels, or compiles them.</p>"


class PageStages(StageTimes):
    """The stages of a page, each with what was worked on."""

    def __init__(self) -> None:
        super().__init__()
        self.about: dict[str, str] = {}

    @contextmanager
    def measure(self, stage: str, about: str = "") -> Iterator[None]:
        """Time the block; ``about``: what was worked on."""
        self.about[stage] = about
        with super().measure(stage):
            yield

    def section(self, model: Any) -> str:
        """Two tables: what training took when the model was made, and what was measured for this page."""
        now = [(stage, duration(spent), self.about.get(stage, "")) for stage, spent in self.seconds.items()]
        tables = [("When the model was trained", _training_rows(model)), ("For this page", now)]
        found = "".join(table(caption, _HEAD, rows, words=[2]) for caption, rows in tables if rows)
        return f'<div class="columns">{found}</div>{_KERNELS}' if found else ""


def _training_rows(model: Any) -> list[tuple[str, str, str]]:
    """The stages of ``fit``; of a model that does not have them, what its history says of training."""
    history, known = getattr(model, "history_", {}), getattr(model, "fit_seconds_", None)
    if hasattr(model, "fit_"):  # a network whose tables were learned
        history, known = model.fit_.history, model.fit_.seconds
    seconds = history.get("seconds", ())
    many = f"{len(seconds):,} iterations" if len(seconds) else STAGES["training"]
    if known:
        about = {**STAGES, "training": many}
        return [(stage, duration(spent), about.get(stage, "")) for stage, spent in known.items()]
    return [("training", duration(float(seconds[-1])), f"{many}, by history_")] if len(seconds) else []
