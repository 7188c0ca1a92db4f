"""``trellis net show``: what a network is made of."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.console import echo
from trellis.cli.net.options import Encoding, Network
from trellis.cli.options import argument

Variables = Annotated[list[str] | None, argument("[VARIABLE]...", "Variables whose tables to show.")]
_MOST_LISTED = 60


def show(network: Network, variables: Variables = None, encoding: Encoding = "utf-8") -> None:
    """Show the variables of a NETWORK, or their tables.

    Without a VARIABLE, shows all variables and what exact inference costs.
    """
    from trellis.bayesnet import BayesianNetwork
    from trellis.cli.net.models import open_model, open_network

    if variables:
        net = open_network(network, encoding)
        echo("\n\n".join(net.format_table(name) for name in variables))
        return
    model = open_model(network, encoding)
    needed = model.forecast()
    echo(f"{model!r}")
    echo(
        f"exact inference: {needed.bytes / 2**20:,.3g} MiB, {needed.multiplications:,.3g} multiplications, "
        f"width {needed.width}"
    )
    width = max(map(len, model.names[:_MOST_LISTED]), default=0)
    for name, states in zip(model.names[:_MOST_LISTED], model.states, strict=False):
        above = model.parents(name) if isinstance(model, BayesianNetwork) else []
        given = f"  given {', '.join(above)}" if above else ""
        echo(f"  {name:<{width}}  {' '.join(states)}{given}")
    if len(model.names) > _MOST_LISTED:
        echo(f"  ... {len(model.names) - _MOST_LISTED:,} more")
