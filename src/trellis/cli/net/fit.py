"""``trellis net fit``: the tables of a network from data."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.net.options import Jobs, Missing, Network, Rows, Seed

Output = Annotated[
    str, typer.Option("--output", "-o", metavar="FILE", help=".bif or .uai, also .gz, or a Trellis file.")
]
Pseudocount = Annotated[
    float, typer.Option("--pseudocount", metavar="A", min=0.0, help="Added to every count.")
]
RandomStart = Annotated[
    bool, typer.Option("--random-start", help="Start EM from random tables instead of those of NETWORK.")
]
Starts = Annotated[
    int, typer.Option("--starts", metavar="N", min=1, help="Number of random starts; the best is kept.")
]
MaxIter = Annotated[int, typer.Option("--max-iter", metavar="N", min=0, help="Maximum iterations of EM.")]


def fit(
    network: Network,
    rows: Rows,
    output: Output,
    pseudocount: Pseudocount = 0.0,
    random_start: RandomStart = False,
    starts: Starts = 1,
    max_iter: MaxIter = 1000,
    missing: Missing = None,
    seed: Seed = 0,
    jobs: Jobs = 1,
) -> None:
    """Learn the tables of a NETWORK from ROWS: by counting, or by EM where states are missing."""
    from trellis.bayesnet.formats.network_files import extension
    from trellis.cli.console import note
    from trellis.cli.net.models import open_network
    from trellis.cli.net.tables import read_rows

    net = open_network(network)
    learned = net.fit(
        read_rows(rows, net.variables, missing or ()),
        pseudocount=pseudocount,
        start="random" if random_start else "network",
        n_init=starts,
        max_iter=max_iter,
        random_state=seed,
        n_jobs=jobs,
    )
    if extension(output) in (".bif", ".uai"):
        learned.write(output)
    else:
        learned.save(output)
    report = learned.fit_
    note(f"{report.status}; log-likelihood {report.log_likelihood:,.6g}")
    if report.unseen:
        note(f"{sum(report.unseen.values()):,} rows of tables have no data and keep their old values")
