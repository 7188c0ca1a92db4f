"""``trellis net draw``: a picture of a network."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.net.options import Encoding, Network
from trellis.cli.options import option

Output = Annotated[str, option("-o --output FILE", "A .png, .svg or .pdf file, or .dot for Graphviz.")]
Observed = Annotated[
    list[str] | None, option("--observed X", "Variable to mark as observed (may be repeated).")
]


def draw(network: Network, output: Output, observed: Observed = None, encoding: Encoding = "utf-8") -> None:
    """Draw a NETWORK or a factor graph.

    Graphviz draws it if its program dot is installed, else matplotlib.
    """
    from trellis.bayesnet import BayesianNetwork
    from trellis.cli.console import STDOUT, check_output
    from trellis.cli.net.models import open_model
    from trellis.core.errors import UnsupportedError

    if output == STDOUT:
        raise UnsupportedError(
            "the suffix of the output file chooses the kind of drawing; give -o a file, not -"
        )
    check_output(output, inputs=[network])
    model = open_model(network, encoding)
    if isinstance(model, BayesianNetwork):
        model.draw(output, observed=observed or ())
    elif observed:
        raise UnsupportedError("--observed applies only to Bayesian networks; leave it out")
    else:
        model.draw(output)
