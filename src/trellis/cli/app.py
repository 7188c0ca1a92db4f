"""The table of commands, and what they have in common."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis import __version__
from trellis.cli.align import align
from trellis.cli.bound import bound
from trellis.cli.console import echo
from trellis.cli.demo import demo
from trellis.cli.evaluate import evaluate
from trellis.cli.inspect import inspect
from trellis.cli.net import net
from trellis.cli.options import add_command
from trellis.cli.pages.report import report
from trellis.cli.tag import tag
from trellis.cli.train import train
from trellis.cli.warm_up import warm_up

GREETING = """\
Trellis learns to predict outputs whose parts depend on each other, for the loss you care about.

  trellis demo                               see what it does, in four short chapters and on a page
  trellis train train.conll -o my.trellis    learn to label the lines of a file
  trellis tag my.trellis < new.conll         label the lines of another file
  trellis net query alarm.bif HISTORY        query a Bayesian network
  trellis align run builtin talk.wav -o out  find the phones in a recording

Next: trellis demo. All commands: trellis --help; each command has its own --help, with examples.
From Python: https://trellis-learn.github.io/trellis/tour"""

app = typer.Typer(
    help="Label sequences, query networks, align speech: trained for the loss you care about.",
    invoke_without_command=True,
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
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Label sequences, query networks, align speech: trained for the loss you care about."""
    if context.invoked_subcommand is None:
        echo(GREETING)


add_command(
    app,
    train,
    "train train.conll -o chunker.trellis --constraints bio",
    "train train.conll -o chunker.trellis --objective margin --template chunk.tpl",
    "train train.conll -o chunker.trellis --objective direct --dev dev.conll",
)
add_command(
    app,
    tag,
    "tag chunker.trellis < new.conll > tagged.conll",
    "tag chunker.trellis new.conll --marginals -o tagged.conll",
)
add_command(
    app,
    evaluate,
    "evaluate chunker.trellis test.conll",
    "evaluate chunker.trellis test.conll --against other.trellis --json",
)
add_command(app, inspect, "inspect chunker.trellis")
add_command(
    app,
    report,
    "report chunker.trellis test.conll -o chunker.html",
    "report alarm.bif -o alarm.html",
    "report aligner.trellis corrected/ -o aligner.html",
)
add_command(
    app,
    bound,
    "bound agnostic -H 2^20 -m 10000 --delta 0.05",
    "bound exact --errors 3 -m 100",
)
add_command(app, demo, "demo", "demo --quick -o /tmp/demo")
add_command(app, warm_up, "warm-up", "warm-up hmm network")
app.add_typer(align, name="align")
app.add_typer(net, name="net")
