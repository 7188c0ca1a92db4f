"""d-separation: which independencies hold in every network with these edges, whatever its tables.

``x`` and ``y`` are d-separated given Z if every path between them is blocked: at a node of Z where the edges
meet head-to-tail (chain) or tail-to-tail (fork), or at a node where they meet head-to-head (collider) and
neither the node nor any of its descendants is in Z (Bishop 2006, 8.2.2).

One walk over the graph decides it (``d_separation_kernels``). Sets are separated if all
their members are. A variable that is itself in Z is known, and so independent of everything; a variable in
both ``x`` and ``y`` depends on itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.model.directed_model import DirectedModel, Names
from trellis.bayesnet.separation.d_separation_kernels import UNSEEN, reach
from trellis.core.arguments import check_int
from trellis.core.errors import DataError, UnsupportedError

_MOST_WALKS = 1_000_000  # over the graph, to list independencies: some ten seconds


def d_separated(network: DirectedModel, x: Names, y: Names, given: Names = ()) -> bool:
    """Whether ``x`` and ``y`` are d-separated given ``given``."""
    variables = network.variables
    targets = mask(network, nonempty(network, y, "y"))
    observed = mask(network, variables.indices(given))
    state, _ = reach(network.graph, np.array(nonempty(network, x, "x")), observed, targets)
    return bool(state < 0)


def markov_blanket(network: DirectedModel, name: str) -> list[str]:
    """Parents, children and the children's other parents: given these, all else tells nothing about it."""
    i = network.index(name)
    children = network.child_indices(i)
    blanket = {
        *network.parent_indices[i],
        *children,
        *(p for child in children for p in network.parent_indices[child]),
    }
    return [network.names[v] for v in sorted(blanket - {i})]


def moral_graph(network: DirectedModel) -> dict[str, list[str]]:
    """The neighbours of each variable once parents of one child are joined and directions dropped."""
    neighbours = _moral_neighbours(network, range(len(network.names)))
    return {network.names[v]: [network.names[w] for w in sorted(near)] for v, near in neighbours.items()}


def minimal_separator(
    network: DirectedModel, x: Names, y: Names, *, include: Names = (), within: Names | None = None
) -> list[str] | None:
    """A set that d-separates ``x`` and ``y`` and loses this if any member (not in ``include``) is left out.

    ``include`` must be in the set, ``within`` may be (all variables if left out). None if there is no such
    set: neighbours cannot be separated. In the moral graph of the ancestors of x, y and ``include``, of all
    allowed nodes only those are kept that x meets first, and of these only those that y meets first (van der
    Zander and Liskiewicz 2020).
    """
    variables = network.variables
    xs, ys = set(nonempty(network, x, "x")), set(nonempty(network, y, "y"))
    fixed = set(variables.indices(include))
    if xs & ys or (xs | ys) & fixed:
        raise DataError("x, y and include must have no variable in common")
    allowed = set(range(len(variables)) if within is None else variables.indices(within)) | fixed
    neighbours = _moral_neighbours(network, network.closure(xs | ys | fixed))
    candidates = (allowed & neighbours.keys()) - xs - ys
    met = _met_first(neighbours, xs, candidates)
    if met & ys:
        return None
    from_x = (met & candidates) | fixed
    separator = (_met_first(neighbours, ys, from_x) & from_x) | fixed
    return [network.names[v] for v in sorted(separator)]


@dataclass(frozen=True)
class Independence:
    """``x`` and ``y`` are independent given ``given``."""

    x: str
    y: str
    given: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.x} \u27c2 {self.y}" + (f" | {', '.join(self.given)}" if self.given else "")


def independencies(network: DirectedModel, *, max_given: int | None = None) -> list[Independence]:
    """All pairs with all sets (of at most ``max_given`` variables) that separate them, in small networks."""
    n = len(network.names)
    largest = n - 2 if max_given is None else min(check_int("max_given", max_given, 0), n - 2)
    walks = sum(comb(n, size) * (n - size) for size in range(largest + 1))
    if walks > _MOST_WALKS:
        raise UnsupportedError(
            f"{n} variables have too many subsets to list ({walks:,} walks over the graph, and the limit is "
            f"{_MOST_WALKS:,}); give a smaller max_given, or ask d_separated"
        )
    no_targets = np.zeros(n, dtype=np.bool_)
    found = []
    for size in range(largest + 1):
        for given in combinations(range(n), size):
            observed = mask(network, given)
            for x in range(n):
                if observed[x]:
                    continue
                _, before = reach(network.graph, np.array([x]), observed, no_targets)
                apart = ~observed & (before.reshape(-1, 2) == UNSEEN).all(axis=1)
                found += [(x, int(y), given) for y in np.flatnonzero(apart[x + 1 :]) + x + 1]
    found.sort()
    names = network.names
    return [Independence(names[x], names[y], tuple(names[z] for z in given)) for x, y, given in found]


def nonempty(network: DirectedModel, names: Names, what: str) -> tuple[int, ...]:
    indices = network.variables.indices(names)
    if not indices:
        raise DataError(f"{what} is empty; name at least one variable")
    return indices


def mask(network: DirectedModel, indices: Iterable[int]) -> NDArray[np.bool_]:
    chosen = np.zeros(len(network.names), dtype=np.bool_)
    chosen[list(indices)] = True
    return chosen


def _moral_neighbours(network: DirectedModel, nodes: Iterable[int]) -> dict[int, set[int]]:
    """The moral graph on a set of nodes that has all its own ancestors."""
    neighbours: dict[int, set[int]] = {v: set() for v in nodes}
    for v in neighbours:
        family = (*network.parent_indices[v], v)
        for a, b in combinations(family, 2):
            neighbours[a].add(b)
            neighbours[b].add(a)
    return neighbours


def _met_first(neighbours: Mapping[int, set[int]], start: Iterable[int], stops: set[int]) -> set[int]:
    """All nodes on walks from ``start`` that end at the first node of ``stops``."""
    met = set(start)
    waiting = list(met)
    while waiting:
        new = neighbours[waiting.pop()] - met
        met |= new
        waiting += new - stops
    return met
