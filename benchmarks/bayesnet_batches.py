"""``predict_proba`` of a table of evidence against a loop over ``query``, in the same run.

Random networks from small tables to large ones, 200 rows of 12 columns of which a share is missing at random
(nearly every row observes other variables), or in whole blocks (three kinds of rows). The answers must agree.

    python benchmarks/bayesnet_batches.py [--quick]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from _common import Figures, check, fastest, parser
from trellis import BayesianNetwork

FAMILIES = ((12, 4, 3), (14, 8, 3), (16, 5, 3), (20, 3, 3), (20, 4, 3), (30, 2, 4), (40, 3, 2))


def main() -> None:
    options = parser(__doc__).parse_args()
    n_rows = 50 if options.quick else 200
    figures = Figures(f"{n_rows} rows of evidence: predict_proba against a loop over query (CPU)")
    for n, n_states, n_parents in FAMILIES:
        net = random_network(n, n_states, n_parents)
        for missing in (0.1, 0.3, 0.6, "blocks"):
            frame = random_frame(net, n_rows, missing)
            for target in (None, "v0"):
                compare(figures, net, frame, target, f"{n} variables of {n_states} states, {missing} missing")
    figures.print()


def compare(
    figures: Figures, net: BayesianNetwork, frame: dict[str, Any], target: str | None, name: str
) -> None:
    columns = {v: column for v, column in frame.items() if v != target}
    rows = [
        {v: column[row] for v, column in columns.items() if column[row] is not None}
        for row in range(len(next(iter(columns.values()))))
    ]
    ours, loop = net.predict_proba(columns, target), [net.query(target, row) for row in rows]
    for row, answer in enumerate(loop):
        answers = answer if target is None else {target: answer}
        for v, found in answers.items():
            mine = ours[v] if target is None else ours
            check(np.allclose(mine[row], found.values, atol=1e-9), f"{name}: row {row} of {v} agrees")
    batch, alone = fastest(
        lambda: net.predict_proba(columns, target),
        lambda: [net.query(target, row) for row in rows],
        repeats=3,
    )
    figures.times(f"{name}, {target or 'all'}", batch, alone, at_least=0.8)


def random_network(n: int, n_states: int, n_parents: int) -> BayesianNetwork:
    rng = np.random.default_rng(1)
    states = {f"v{i}": [str(k) for k in range(n_states)] for i in range(n)}
    parents = {f"v{i}": [f"v{j}" for j in rng.choice(i, min(i, n_parents), replace=False)] for i in range(n)}
    tables = {v: rng.dirichlet(np.ones(n_states), size=[n_states] * len(parents[v])) for v in states}
    return BayesianNetwork(states, parents, tables)


def random_frame(net: BayesianNetwork, n_rows: int, missing: float | str) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    rows = net.sample(n_rows, random_state=rng)
    frame = {}
    for number, name in enumerate(rng.choice(list(net.names), 12, replace=False)):
        column = rows[str(name)].astype(object)
        if isinstance(missing, str):  # "blocks"
            column[(np.arange(n_rows) * 3 // n_rows) == number % 3] = None
        else:
            column[rng.random(n_rows) < missing] = None
        frame[str(name)] = column
    return frame


if __name__ == "__main__":
    main()
