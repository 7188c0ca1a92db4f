"""``trellis net separate``: which independencies follow from the edges alone."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.console import check_output, echo
from trellis.cli.net.options import Encoding, Network
from trellis.cli.options import argument, option

X = Annotated[str, argument("X", "A variable.")]
Y = Annotated[str, argument("Y", "Another variable.")]
Given = Annotated[list[str] | None, option("-g --given Z", "Observed variable (may be repeated).")]
Paths = Annotated[int, option("--paths N", "Maximum number of paths to explain.", min=1)]
Draw = Annotated[str | None, option("--draw FILE", "Draw the paths (.png, .svg, .pdf).")]


def separate(
    network: Network,
    x: X,
    y: Y,
    given: Given = None,
    paths: Paths = 20,
    draw: Draw = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Say whether X and Y are d-separated, and why."""
    from trellis.cli.net.models import open_network

    if draw is not None:
        check_output(draw, inputs=[network])
    found = open_network(network, encoding).explain_separation(x, y, given or (), max_paths=paths)
    if draw is not None:
        found.draw(draw)
    echo(str(found))
