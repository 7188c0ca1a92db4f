"""Progress bars: on a terminal, and silent otherwise."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

# the third argument is the point reached: weights, or a record of parameters
OnIteration = Callable[[int, Mapping[str, float], Any], None]
_bars = 0
SHOWN = ("objective", "primal", "pass_objective", "gap", "mistakes", "holdout_loss")


def a_bar_is_shown() -> bool:
    """Whether a bar has the terminal, so that nothing else should write there."""
    return _bars > 0


@contextmanager
def progress_bar(title: str, max_iter: int, show: bool | OnIteration | None) -> Iterator[OnIteration | None]:
    """Yields a callback for the loop. ``show``: True, False, None for "on a terminal", or the callback."""
    if callable(show):
        yield show
        return
    with terminal_bar(title, max_iter, show) as update:

        def on_iteration(iteration: int, measured: Mapping[str, float], point: Any) -> None:
            shown = "  ".join(f"{key} {measured[key]:.6g}" for key in SHOWN if key in measured)
            if update is not None:
                update(iteration, f"{title}  {shown}")

        yield None if update is None else on_iteration


@contextmanager
def terminal_bar(
    title: str, total: float, show: bool | None
) -> Iterator[Callable[[float, str], None] | None]:
    """Yields ``update(completed, description)``, or None if nothing is shown."""
    if show is False or (show is None and not sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    global _bars
    with Progress(*columns, console=Console(stderr=True), transient=show is None) as bar:
        task = bar.add_task(title, total=total)
        _bars += 1
        try:
            yield lambda completed, description: bar.update(
                task, completed=completed, description=description
            )
        finally:
            _bars -= 1
