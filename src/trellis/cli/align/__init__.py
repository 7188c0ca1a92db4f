"""``trellis align train | run | adapt | evaluate | studio``: forced alignment, one file per command."""

from __future__ import annotations

import typer

from trellis.cli.align.adapt import adapt
from trellis.cli.align.evaluate import evaluate
from trellis.cli.align.run import run
from trellis.cli.align.studio import studio
from trellis.cli.align.train import train
from trellis.cli.options import add_command

align = typer.Typer(
    help="Find where each phone of a recording starts (forced alignment).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
add_command(align, train, "align train corrected/ -o english.trellis")
add_command(
    align,
    run,
    "align run builtin recordings/ -o aligned/",
    "align run builtin talk.wav --words 'Good morning.' --language english -o aligned/",
    "align run english.trellis recordings/ --dictionary words.dict -o aligned/ --page",
)
add_command(align, adapt, "align adapt builtin corrected/ -o mine.trellis")
add_command(align, evaluate, "align evaluate corrected/ aligned/")
add_command(align, studio, "align studio builtin recordings/")
