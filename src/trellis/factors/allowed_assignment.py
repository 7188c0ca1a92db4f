"""Whether a product of factors is zero everywhere: an assignment where it is not, or the proof.

Approximate methods look at parts of a model, and a contradiction that goes round a cycle is in no part: five
variables in a ring, each to differ from its neighbours, with two states. What they answer there means
nothing, so they ask here first (:mod:`.constraint_search_kernels`). The question is NP-complete, hence a
budget; where it runs out, nothing was established.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import IntArray
from trellis.factors.constraint_search_kernels import GIVEN_UP, IMPOSSIBLE, search
from trellis.factors.flat_factors import FlatFactors, offsets
from trellis.factors.possible_states import ContradictionError

BUDGET = 10_000_000  # entries of tables that are looked at: some 30 milliseconds
NOT_ESTABLISHED = "whether anything is possible at all was not established"


def allowed_assignment(
    factors: FlatFactors, prefer: IntArray | None = None, budget: int | None = None
) -> IntArray | None:
    """States at which no factor (logarithms) is -inf, close to ``prefer``; None if the budget ran out.

    Raises :class:`ContradictionError` where there are none.
    """
    n, n_factors = len(factors.cardinalities), len(factors.value_start) - 1
    states = np.zeros(n, dtype=np.int64) if prefer is None else prefer.astype(np.int64)
    steps = np.bincount(factors.factor_of, factors.stride * states[factors.scope], n_factors)
    if not np.isneginf(factors.values[factors.value_start[:-1] + steps.astype(np.int64)]).any():
        return states
    hard = np.minimum.reduceat(factors.values, factors.value_start[:-1]) == -np.inf
    if hard[np.diff(factors.scope_start) == 0].any():
        raise ContradictionError
    places = hard[factors.factor_of]
    from scipy.sparse import coo_array  # here, because importing them takes longer than most queries
    from scipy.sparse.csgraph import connected_components

    joined = coo_array(
        (np.ones(int(places.sum())), (factors.scope[places], n + factors.factor_of[places])),
        shape=(n + n_factors, n + n_factors),
    )
    component = connected_components(joined, directed=False)[1][:n]
    taking_part = np.unique(factors.scope[places])
    members = taking_part[np.argsort(component[taking_part], kind="stable")]
    counts = np.unique(component[members], return_counts=True)[1]
    cell = offsets(factors.cardinalities)
    allowed, left = np.ones(cell[-1], dtype=np.bool_), factors.cardinalities.copy()
    found, variable = search(
        factors,
        hard,
        cell,
        offsets(counts),
        members,
        states,
        BUDGET if budget is None else budget,
        allowed,
        left,
    )
    if found == IMPOSSIBLE:
        raise ContradictionError(int(variable))
    if found == GIVEN_UP:
        return None
    owner = np.repeat(np.arange(n), factors.cardinalities)
    kept = np.flatnonzero(allowed & np.isin(owner, members))
    states[owner[kept]] = kept - cell[owner[kept]]
    return states
