"""Where a trained model goes: to its file, or beside it if a signal stopped the training.

``trellis train ... && deploy`` must not go on with a model whose training was cut short: the old file stays
as it was, what was learned so far is kept under another name, and the exit code says that it was stopped.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from trellis.cli.console import STDOUT, binary_target, note
from trellis.cli.process import stop_code

if TYPE_CHECKING:
    from trellis.core.output_files import Target

MARK = ".interrupted"


def save_trained(
    save: Callable[[Target], None], output: str, suffix: str = "", checkpoint: str | None = None
) -> None:
    """Write a model to ``output`` by ``save(target)``; if the training was stopped, beside it, and end.

    ``suffix``: the end of the name that tells the format, which the other name keeps. ``checkpoint``: the
    folder in which training was stored.
    """
    code = stop_code()
    if code is None:
        save(binary_target(output))
        return
    again = "" if checkpoint is None else f"; the same command resumes from the checkpoint in {checkpoint}"
    if output == STDOUT or (os.path.exists(output) and not os.path.isfile(output)):
        note(f"training was stopped before its end; nothing was written{again}")
    else:
        beside = f"{output.removesuffix(suffix)}{MARK}{suffix}"
        save(beside)
        where = f"{output} was not written; what was learned is in {beside}"
        note(f"training was stopped before its end: {where}{again}")
    raise typer.Exit(code)


def stopped_at_checkpoint(checkpoint: str) -> NoReturn:
    """A signal stopped a training that has no model yet, and is stored: say so, and end."""
    note(f"training was stopped before its end; the same command resumes from the checkpoint in {checkpoint}")
    raise typer.Exit(stop_code() or 130)


@contextmanager
def collected_warnings() -> Iterator[list[str]]:
    """The sentences of warnings, for when the work is done; that nothing can be stored is said at once."""
    from trellis.training.checkpoint_folder import CheckpointWarning

    sentences: list[str] = []

    def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
        if issubclass(category, CheckpointWarning):
            note(f"trellis: warning: {message}")
        else:
            sentences.append(str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield sentences
