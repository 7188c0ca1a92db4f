"""``trellis net fit``: the tables of a network from data."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.net.options import Jobs, Missing, Network, Rows, Seed
from trellis.cli.options import option

Output = Annotated[str, option("-o --output FILE", ".bif or .uai, also .gz, or a Trellis file.")]
Pseudocount = Annotated[float, option("--pseudocount A", "Added to every count.", min=0.0)]
RandomStart = Annotated[
    bool, option("--random-start", "Start EM from random tables instead of those of NETWORK.")
]
Starts = Annotated[int, option("--starts N", "Number of random starts; the best is kept.", min=1)]
MaxIter = Annotated[int, option("--max-iter N", "Maximum iterations of EM.", min=0)]


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
