"""``trellis align train | run | adapt | evaluate | studio``: forced alignment, one file per command."""

from __future__ import annotations

import typer

from trellis.cli.align.adapt import adapt
from trellis.cli.align.evaluate import evaluate
from trellis.cli.align.run import run
from trellis.cli.align.studio import studio
from trellis.cli.align.train import train

align = typer.Typer(
    help="Find the start of each phone in recordings (forced alignment).",
    no_args_is_help=True,
    rich_markup_mode=None,
)
align.command()(train)
align.command()(run)
align.command()(adapt)
align.command()(evaluate)
align.command()(studio)
