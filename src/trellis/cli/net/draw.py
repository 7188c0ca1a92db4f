"""``trellis net draw``: a picture of a network."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.net.options import Network

Output = Annotated[
    str,
    typer.Option("--output", "-o", metavar="FILE", help="A .png, .svg or .pdf file, or .dot for Graphviz."),
]
Observed = Annotated[
    list[str] | None,
    typer.Option("--observed", metavar="X", help="Variable to mark as observed (may be repeated)."),
]


def draw(network: Network, output: Output, observed: Observed = None) -> None:
    """Draw a NETWORK or a factor graph (with Graphviz if its program dot is installed)."""
    from trellis.bayesnet import BayesianNetwork
    from trellis.cli.net.models import open_model
    from trellis.core.errors import UnsupportedError

    model = open_model(network)
    if isinstance(model, BayesianNetwork):
        model.draw(output, observed=observed or ())
    elif observed:
        raise UnsupportedError("--observed is for Bayesian networks; leave it out")
    else:
        model.draw(output)
