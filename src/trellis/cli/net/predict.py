"""``trellis net predict``: the answers for each row of a table of evidence."""

from __future__ import annotations

from typing import Annotated, Any

from trellis.cli.net.options import Encoding, Jobs, Missing, Network, Rows
from trellis.cli.options import option
from trellis.cli.places import Cluster, LocalCluster, chosen_place
from trellis.core.progress import terminal_bar

Targets = Annotated[
    list[str] | None,
    option(
        "-t --target X",
        "Variable to predict (may be repeated); by default, all that any row lacks.",
    ),
]
Probabilities = Annotated[
    bool, option("-p --probabilities", "Write the probability of each state instead of the best state.")
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
    cluster: Cluster = None,
    local_cluster: LocalCluster = None,
) -> None:
    """Predict the unobserved variables in each row of ROWS.

    Writes the most probable state of each, or with --probabilities those of all states.
    """
    from trellis.bayesnet.formats.row_tables import read_rows, write_rows
    from trellis.cli.console import binary_output, check_output
    from trellis.cli.net.models import open_model

    check_output(output, inputs=[network, rows])
    model = open_model(network, encoding)
    frame = read_rows(rows, model.variables, missing or (), encoding)
    backend = chosen_place(cluster, local_cluster)
    with terminal_bar("solving", 1.0, None) as update:
        tell = None if update is None else lambda done, n: update(done / n, f"solving {done} of {n} pieces")
        where: dict[str, Any] = {"n_jobs": jobs, "backend": backend, "progress": tell}
        found = (model.predict_proba if probabilities else model.predict)(frame, target, **where)
    if probabilities:
        columns = {
            f"{name}={state}": [f"{p:.6g}" for p in table[:, k].tolist()]
            for name, table in found.items()
            for k, state in enumerate(model.states[model.index(name)])
        }
    else:
        columns = {name: list(states) for name, states in found.items()}
    with binary_output(output) as file:
        write_rows(file, columns)
