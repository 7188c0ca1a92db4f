"""``trellis net show | query | separate | predict | fit | draw``: Bayesian networks and factor graphs."""

from __future__ import annotations

import typer

from trellis.cli.net.draw import draw
from trellis.cli.net.fit import fit
from trellis.cli.net.predict import predict
from trellis.cli.net.query import query
from trellis.cli.net.separate import separate
from trellis.cli.net.show import show
from trellis.cli.options import add_command

net = typer.Typer(
    help="Query, learn and draw Bayesian networks and factor graphs.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
add_command(net, show, "net show alarm.bif", "net show alarm.bif HYPOVOLEMIA")
add_command(
    net,
    query,
    "net query alarm.bif HYPOVOLEMIA -e BP=HIGH -e PAP=NORMAL",
    "net query alarm.bif HR PRESS --json",
)
add_command(net, separate, "net separate alarm.bif HR PRESS -g CATECHOL")
add_command(net, predict, "net predict alarm.bif rows.csv -o answers.csv")
add_command(net, fit, "net fit alarm.bif rows.csv -o learned.bif")
add_command(net, draw, "net draw alarm.bif -o alarm.svg --observed BP")
