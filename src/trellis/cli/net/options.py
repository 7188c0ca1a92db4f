"""What all commands about networks take: a file with a network, and evidence on it."""

from __future__ import annotations

from typing import Annotated

import typer

Network = Annotated[
    str,
    typer.Argument(
        metavar="NETWORK", help="A .bif, .uai or .fg file, also .gz, or a Trellis file.", show_default=False
    ),
]
Evidence = Annotated[
    list[str] | None,
    typer.Option("--evidence", "-e", metavar="X=STATE", help="An observed variable (may be repeated)."),
]
