"""Cutset conditioning: exact marginals where a junction tree does not fit into memory.

For variables C (the cutset) observed in turn at each of their joint states c,

    p(x | e) = sum_c p(x | e, c) w_c,      w_c = P(e, c) / P(e)

each term needs the smaller tree in which C is observed. The cutset grows greedily, each time by the variable
of the largest clique that leaves the smallest tree, until the tree fits. That is a forecast for all states
alike; a joint state whose own tree turns out too large is split further, by itself. Time grows with the
number of joint states.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.factors.junction_tree.junction_tree import JunctionTree, Marginals

MAX_ASSIGNMENTS = 100_000
MOST_TRIED = 8  # variables of a clique that are tried: those with the most states


def cutset(tree: JunctionTree, observed: frozenset[int]) -> list[int]:
    """Variables whose observation, with those observed already, makes the tree fit its memory limit."""
    chosen: list[int] = []
    while tree.forecast(observed.union(chosen), thorough=False).bytes > tree.memory_limit:
        chosen.append(next_cutset_variable(tree, observed.union(chosen)))
        assignments = math.prod(tree.cardinalities[v] for v in chosen)
        if assignments > MAX_ASSIGNMENTS:
            raise UnsupportedError(
                f"a cutset of {len(chosen)} variables has {assignments:,} joint states, and the tree is "
                "still too large; raise memory_limit or use an approximate method"
            )
    return chosen


def next_cutset_variable(tree: JunctionTree, known: frozenset[int]) -> int:
    """The variable of the largest clique whose observation leaves the smallest tree."""
    clique = sorted(tree.largest_clique(known), key=lambda v: -tree.cardinalities[v])
    if not clique:
        raise UnsupportedError(
            f"no cutset makes the tables fit into {tree.memory_limit:.3g} bytes; raise memory_limit"
        )
    return min(clique[:MOST_TRIED], key=lambda v: tree.forecast(known | {v}, thorough=False).bytes)


def condition_on_cutset(
    tree: JunctionTree, evidence: Mapping[int, int], likelihoods: Mapping[int, FloatArray]
) -> Marginals:
    """All marginals by conditioning on a cutset; if none is needed, those of the tree itself."""
    chosen = cutset(tree, frozenset(evidence))
    total = -np.inf
    sums: dict[int, FloatArray] = {}
    for states in itertools.product(*(range(tree.cardinalities[v]) for v in chosen)):
        for found in _parts(tree, {**evidence, **dict(zip(chosen, states, strict=True))}, likelihoods):
            if found.log_partition == -np.inf:
                continue
            new = float(np.logaddexp(total, found.log_partition))
            old_share, share = np.exp(total - new), np.exp(found.log_partition - new)
            for v, marginal in found.of.items():
                sums[v] = sums[v] * old_share + marginal * share if v in sums else marginal * share
            total = new
    return Marginals(total, sums)


def _parts(
    tree: JunctionTree, evidence: dict[int, int], likelihoods: Mapping[int, FloatArray]
) -> Iterator[Marginals]:
    """The answer with the evidence, or the answers with each state of one more variable observed."""
    try:
        found = tree.marginals(evidence, likelihoods)
    except UnsupportedError:
        v = next_cutset_variable(tree, frozenset(evidence))
        for state in range(tree.cardinalities[v]):
            yield from _parts(tree, {**evidence, v: state}, likelihoods)
    else:
        yield found
