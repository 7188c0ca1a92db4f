"""The arguments and options that several commands about networks share."""

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
    typer.Option("--evidence", "-e", metavar="X=STATE", help="Observed variable (may be repeated)."),
]
Rows = Annotated[
    str,
    typer.Argument(
        metavar="ROWS",
        help="Comma- or tab-separated, the names of variables in the first line; - for standard input.",
        show_default=False,
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option("--missing", metavar="TEXT", help="Text that marks a missing state, besides an empty cell."),
]
Seed = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="Seed of random numbers.")]
Jobs = Annotated[int, typer.Option("--jobs", "-j", metavar="N", help="Number of threads.")]
