"""``trellis net predict``: the answers for each row of a table of evidence."""

from __future__ import annotations

from typing import Annotated

from trellis.cli.net.options import Encoding, Jobs, Missing, Network, Rows
from trellis.cli.options import option

Targets = Annotated[
    list[str] | None,
    option(
        "-t --target X",
        "Variable to predict (may be repeated); by default, all that are missing in some row.",
    ),
]
Probabilities = Annotated[
    bool, option("-p --probabilities", "Print the probability of each state instead of the best one.")
]
Output = Annotated[str, option("-o --output FILE", "Output file; - is standard output.")]


def predict(
    network: Network,
    rows: Rows,
    target: Targets = None,
    probabilities: Probabilities = False,
    missing: Missing = None,
    encoding: Encoding = "utf-8",
    output: Output = "-",
    jobs: Jobs = 1,
) -> None:
    """Predict the most probable state of each unobserved variable for each of the ROWS."""
    from trellis.bayesnet.formats.row_tables import read_rows, write_rows
    from trellis.cli.console import binary_output, check_output
    from trellis.cli.net.models import open_model

    check_output(output)
    model = open_model(network, encoding)
    frame = read_rows(rows, model.variables, missing or (), encoding)
    if probabilities:
        shares = model.predict_proba(frame, target, n_jobs=jobs)
        columns = {
            f"{name}={state}": [f"{p:.6g}" for p in table[:, k].tolist()]
            for name, table in shares.items()
            for k, state in enumerate(model.states[model.index(name)])
        }
    else:
        columns = {name: list(states) for name, states in model.predict(frame, target, n_jobs=jobs).items()}
    with binary_output(output) as file:
        write_rows(file, columns)
