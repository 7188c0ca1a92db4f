"""Expected counts by a junction tree in log space, for rows that floating point would lose.

    p(entry | row) = exp(log t + log dZ/dt - log of their sum over the table)

The plan is that of :mod:`.tree_counts`, with one more variable that is never summed out: the row. An observed
variable has the leaf (states, rows), 0 at the observed state and -inf elsewhere. Products of tables are
written down here, so that the largest clique times the rows decides how many rows run side by side.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.bayesnet.model.data_frames import Codes
from trellis.core.arrays import FloatArray
from trellis.factors.flat_factors import FlatFactors
from trellis.factors.junction_tree_log import log_posteriors
from trellis.factors.junction_tree_plan import Plan
from trellis.factors.tables import Table

CLIQUE_BYTES = 2.0**27


def log_counts(
    factors: FlatFactors,
    scopes: Sequence[Sequence[int]],
    order: Sequence[int],
    log_values: FloatArray,
    codes: Codes,
    weight: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """log p of each row of ``codes``, and weighted expected counts in the layout of ``log_values``.

    ``scopes`` are those of all families; ``order`` sums all variables out. Impossible rows count nothing.
    """
    observed = np.flatnonzero((codes >= 0).any(axis=0)).tolist()
    clique = Plan(factors.cardinalities.tolist(), scopes, order).forecast.clique
    size = max(1, int(CLIQUE_BYTES / (8.0 * clique)))
    row_log, counts = np.empty(len(codes)), np.zeros(len(log_values))
    for first in range(0, len(codes), size):
        part = slice(first, first + size)
        row_log[part] = _add_block(
            factors, scopes, order, log_values, observed, codes[part], weight[part], counts
        )
    return row_log, counts


def _add_block(
    factors: FlatFactors,
    scopes: Sequence[Sequence[int]],
    order: Sequence[int],
    log_values: FloatArray,
    observed: Sequence[int],
    codes: Codes,
    weight: FloatArray,
    counts: FloatArray,
) -> FloatArray:
    """Add the counts of some rows to ``counts``; log p of each of them."""
    row, n_rows = len(factors.cardinalities), len(codes)
    sizes = [*factors.cardinalities.tolist(), n_rows]
    leaves = []
    for f, scope in enumerate(scopes):
        flat = log_values[factors.value_start[f] : factors.value_start[f + 1]]
        leaves.append(Table(tuple(scope), flat.reshape([sizes[v] for v in scope])))
    for v in observed:
        seen = codes[:, v]
        fits = (seen == np.arange(sizes[v])[:, None]) | (seen < 0)
        leaves.append(Table((v, row), np.where(fits, 0.0, -np.inf)))
    plan = Plan(sizes, [leaf.variables for leaf in leaves], order)
    log_z, posteriors = log_posteriors(plan, leaves, row, n_rows)
    for f, (_, posterior) in zip(range(len(scopes)), posteriors, strict=False):
        counts[factors.value_start[f] : factors.value_start[f + 1]] += (posterior @ weight).ravel()
    return log_z
