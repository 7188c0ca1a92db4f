"""``trellis net show | query | separate | predict | fit | draw``: Bayesian networks and factor graphs."""

from __future__ import annotations

import typer

from trellis.cli.net.draw import draw
from trellis.cli.net.fit import fit
from trellis.cli.net.predict import predict
from trellis.cli.net.query import query
from trellis.cli.net.separate import separate
from trellis.cli.net.show import show

net = typer.Typer(
    help="Query, learn and draw Bayesian networks and factor graphs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
for command in (show, query, separate, predict, fit, draw):
    net.command()(command)
