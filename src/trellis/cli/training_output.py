"""Where a trained model goes: to its file, or beside it if a signal stopped the training.

``trellis train ... && deploy`` must not go on with a model whose training was cut short: the old file stays
as it was, what was learned so far is kept under another name, and the exit code says that it was stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import typer

from trellis.cli.console import STDOUT, binary_target, note
from trellis.cli.process import stop_code

if TYPE_CHECKING:
    from trellis.core.output_files import Target

MARK = ".interrupted"


def save_trained(save: Callable[[Target], None], output: str, suffix: str = "") -> None:
    """Write a model to ``output`` by ``save(target)``; if the training was stopped, beside it, and end.

    ``suffix``: the end of the name that tells the format, which the other name keeps.
    """
    code = stop_code()
    if code is None:
        save(binary_target(output))
        return
    if output == STDOUT or (os.path.exists(output) and not os.path.isfile(output)):
        note("stopped before the end of training; nothing is written")
    else:
        beside = f"{output.removesuffix(suffix)}{MARK}{suffix}"
        save(beside)
        note(f"stopped before the end of training: {output} is not written; what was learned is in {beside}")
    raise typer.Exit(code)
