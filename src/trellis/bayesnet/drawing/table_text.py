"""A table of a network as text: the states of the parents on the left, the probabilities on the right."""

from __future__ import annotations

from itertools import islice, product

from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.core.arguments import check_int


def format_table(network: DirectedModel, name: str, *, max_rows: int = 60) -> str:
    """The table of a variable, its first ``max_rows`` rows if there are more."""
    max_rows = check_int("max_rows", max_rows, 1)
    i = network.index(name)
    above = network.parent_indices[i]
    parents = [network.names[p] for p in above]
    values = network.tables[i].reshape(-1, len(network.states[i]))
    keys = islice(product(*(network.states[p] for p in above)), max_rows)
    rows = [
        [*key, *(f"{value:.6g}" for value in row)] for key, row in zip(keys, values[:max_rows], strict=True)
    ]
    header = [*parents, *network.states[i]]
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = [f"P({name} | {', '.join(parents)})" if parents else f"P({name})"]
    for cells in [header, *rows]:
        left = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)][: len(above)]
        right = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)][len(above) :]
        lines.append("  ".join([*left, *(["|"] if above else []), *right]))
    if len(values) > max_rows:
        lines.append(f"... and {len(values) - max_rows:,} more rows")
    return "\n".join(lines)
