"""The table of commands, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis import __version__
from trellis.cli.align import align
from trellis.cli.bound import bound
from trellis.cli.console import echo
from trellis.cli.evaluate import evaluate
from trellis.cli.inspect import inspect
from trellis.cli.net import net
from trellis.cli.pages.report import report
from trellis.cli.tag import tag
from trellis.cli.train import train
from trellis.cli.warm_up import warm_up

app = typer.Typer(
    help="Learn to label sequences, for the loss you care about.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # rich takes longer to load than --help may take
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        echo(f"trellis {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Learn to label sequences, for the loss you care about."""


app.command()(train)
app.command()(tag)
app.command()(evaluate)
app.command()(inspect)
app.command()(report)
app.command()(bound)
app.command()(warm_up)
app.add_typer(align, name="align")
app.add_typer(net, name="net")
