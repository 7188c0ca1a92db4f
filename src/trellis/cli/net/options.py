"""The arguments and options that several commands about networks share."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.options import argument, option

Network = Annotated[str, argument("NETWORK", "A .bif, .uai or .fg file (also .gz), or a Trellis file.")]
Evidence = Annotated[
    list[str] | None, option("-e --evidence X=STATE", "Observed variable (may be repeated).")
]
Rows = Annotated[
    str,
    argument(
        "ROWS", "Comma- or tab-separated file, with variable names in the first line; - is standard input."
    ),
]
Missing = Annotated[
    list[str] | None, option("--missing TEXT", "Text that marks a missing state, besides an empty cell.")
]
Encoding = Annotated[str, option("--encoding NAME", "Character encoding of the files.")]
Seed = Annotated[int, option("--seed N", "Seed of random numbers.", min=0)]
Jobs = Annotated[int, option("-j --jobs N", "Number of threads.")]
