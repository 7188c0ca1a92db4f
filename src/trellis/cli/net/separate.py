"""``trellis net separate``: which independencies follow from the edges alone."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.net.options import Network

X = Annotated[str, typer.Argument(metavar="X", help="A variable.", show_default=False)]
Y = Annotated[str, typer.Argument(metavar="Y", help="Another variable.", show_default=False)]
Given = Annotated[
    list[str] | None,
    typer.Option("--given", "-g", metavar="Z", help="Observed variable (may be repeated)."),
]
Paths = Annotated[
    int, typer.Option("--paths", metavar="N", min=1, help="Maximum number of paths to explain.")
]
Draw = Annotated[
    str | None, typer.Option("--draw", metavar="FILE", help="Draw the paths (.png, .svg, .pdf).")
]


def separate(network: Network, x: X, y: Y, given: Given = None, paths: Paths = 20, draw: Draw = None) -> None:
    """Are X and Y d-separated, and why?

    For example: trellis net separate alarm.bif HR PRESS -g CATECHOL
    """
    from trellis.cli.net.models import open_network

    found = open_network(network).explain_separation(x, y, given or (), max_paths=paths)
    if draw is not None:
        found.draw(draw)
    typer.echo(str(found))
