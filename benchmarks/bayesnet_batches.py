"""``predict_proba`` of a table of evidence against a loop over ``query``, in the same run.

Random networks from small tables to large ones, rows of 12 columns, and a family of patterns of what is
missing: at random (nearly every row observes other variables), in three blocks, in kinds of a few rows each,
by dropping out one column after the other, all but one column, and half of the rows alike with the others at
random. The answers must agree. A batch should never take longer than the loop. Where every row is solved
alone, it does the same work: a ratio from 0.95 on counts as equal, which is what repeats differ by.

    python benchmarks/bayesnet_batches.py [--quick]
"""

from __future__ import annotations

from typing import Any

import numpy as np

from _common import Figures, check, fastest, parser
from trellis import BayesianNetwork

PATTERNS = ("0.1", "0.3", "0.6", "blocks", "few alike", "dropping out", "all but one", "half alike")
FAMILIES = ((12, 4, 3), (14, 8, 3), (16, 5, 3), (20, 3, 3), (20, 4, 3), (30, 2, 4), (40, 3, 2))


def main() -> None:
    options = parser(__doc__).parse_args()
    n_rows = 50 if options.quick else 200
    figures = Figures(f"{n_rows} rows of evidence: predict_proba against a loop over query (CPU)")
    for n, n_states, n_parents in FAMILIES:
        net = random_network(n, n_states, n_parents)
        for missing in PATTERNS:
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
    figures.times(f"{name}, {target or 'all'}", batch, alone, at_least=0.95)


def random_network(n: int, n_states: int, n_parents: int) -> BayesianNetwork:
    rng = np.random.default_rng(1)
    states = {f"v{i}": [str(k) for k in range(n_states)] for i in range(n)}
    parents = {f"v{i}": [f"v{j}" for j in rng.choice(i, min(i, n_parents), replace=False)] for i in range(n)}
    tables = {v: rng.dirichlet(np.ones(n_states), size=[n_states] * len(parents[v])) for v in states}
    return BayesianNetwork(states, parents, tables)


def random_frame(net: BayesianNetwork, n_rows: int, missing: str) -> dict[str, Any]:
    """Samples of 12 variables, with gaps."""
    rng = np.random.default_rng(2)
    rows = net.sample(n_rows, random_state=rng)
    names = rng.choice(list(net.names), 12, replace=False)
    gaps = missing_entries(missing, n_rows, len(names), rng)
    frame = {}
    for number, name in enumerate(names):
        column = rows[str(name)].astype(object)
        column[gaps[:, number]] = None
        frame[str(name)] = column
    return frame


def missing_entries(pattern: str, n_rows: int, n_columns: int, rng: np.random.Generator) -> np.ndarray:
    """Which entries of a table are missing, (rows, columns)."""
    row, column = np.arange(n_rows)[:, None], np.arange(n_columns)
    scattered = rng.random((n_rows, n_columns)) < 0.5
    if pattern == "blocks":
        return row * 3 // n_rows == column % 3
    if pattern == "few alike":  # kinds of three rows
        return scattered[np.arange(n_rows) // 3]
    if pattern == "dropping out":
        return column >= rng.integers(1, n_columns + 1, size=(n_rows, 1))
    if pattern == "all but one":
        return column != row % n_columns
    if pattern == "half alike":
        return np.where(row % 2 == 0, scattered[:1], scattered)
    return rng.random((n_rows, n_columns)) < float(pattern)


if __name__ == "__main__":
    main()
