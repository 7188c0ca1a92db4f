"""``trellis net fit``: the tables of a network from data."""

from __future__ import annotations

from typing import Annotated, Any

from trellis.cli.net.options import Encoding, Jobs, Missing, Network, Rows, Seed
from trellis.cli.options import option

Output = Annotated[
    str, option("-o --output FILE", ".bif or .uai (also .gz), or a Trellis file; - is standard output.")
]
Pseudocount = Annotated[float, option("--pseudocount A", "Added to every count.", min=0.0)]
RandomStart = Annotated[
    bool, option("--random-start", "Start EM from random tables instead of those of NETWORK.")
]
Starts = Annotated[int, option("--starts N", "Number of random starts, of which the best is kept.", min=1)]
MaxIter = Annotated[int, option("--max-iter N", "Maximum number of iterations of EM.", min=0)]

Checkpoint = Annotated[
    str | None,
    option(
        "--checkpoint DIR",
        "Folder for the state of EM: if anything stops it, the same command resumes from there.",
    ),
]


def fit(
    network: Network,
    rows: Rows,
    output: Output,
    pseudocount: Pseudocount = 0.0,
    random_start: RandomStart = False,
    starts: Starts = 1,
    max_iter: MaxIter = 1000,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    jobs: Jobs = 1,
    checkpoint: Checkpoint = None,
) -> None:
    """Learn the tables of a NETWORK from ROWS.

    Counts the rows, or runs EM where states are missing.
    """
    from trellis.bayesnet.formats.network_files import extension
    from trellis.bayesnet.formats.row_tables import read_rows
    from trellis.cli.console import check_output, note
    from trellis.cli.net.models import open_network
    from trellis.cli.training_output import save_trained
    from trellis.core.output_files import check_folder

    check_output(output, "a Trellis file", inputs=[rows])
    if checkpoint is not None:
        check_folder(checkpoint)
    net = open_network(network, encoding)
    learned = net.fit(
        read_rows(rows, net.variables, missing or (), encoding),
        pseudocount=pseudocount,
        start="random" if random_start else "network",
        n_init=starts,
        max_iter=max_iter,
        random_state=seed,
        n_jobs=jobs,
        checkpoint=checkpoint,
    )
    named = extension(output) in (".bif", ".uai")
    write: Any = learned.write if named else learned.save
    save_trained(write, output, output[output.lower().rindex(extension(output)) :] if named else "")
    report = learned.fit_
    note(f"{report.status}; log-likelihood {report.log_likelihood:,.6g}")
    if report.unseen:
        note(f"{sum(report.unseen.values()):,} rows of the tables had no data and keep their old values")
