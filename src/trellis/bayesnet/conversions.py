"""From a factor graph to a Bayesian network with the same distribution, by elimination.

Eliminating v multiplies all factors with v in them; let N be the other variables of the product f. Then

    P(v | N) = f(v, N) / m(N),      m(N) = sum_v f(v, N),

and m takes the place of these factors. The variables of N are eliminated later, so that arrows from N to v
never make a cycle. Next is always the variable with the smallest product. Conditions of weight zero get a
uniform row, on which no answer depends. Messages are scaled to a maximum of 1, which changes no P(v | N).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trellis.bayesnet.factor_graph import FactorGraph
from trellis.bayesnet.network import BayesianNetwork
from trellis.errors import InfeasibleError, UnsupportedError
from trellis.inference.factors import Table, aligned, product

LIMIT = 2**24  # numbers in one table: 128 MiB


def network_from_graph(graph: FactorGraph, *, limit: int = LIMIT) -> BayesianNetwork:
    """The Bayesian network that is the normalised factor graph, with at most ``limit`` numbers a table."""
    sizes = graph.cardinalities.tolist()
    factors = dict(enumerate(graph.factors()))
    holds: list[set[int]] = [set() for _ in sizes]  # the factors that each variable is in
    for number, factor in factors.items():
        _check_some_weight(factor)
        for v in factor.variables:
            holds[v].add(number)
    parents: list[Sequence[int]] = [()] * len(sizes)
    tables: list[np.ndarray] = [np.zeros(0)] * len(sizes)
    waiting = set(range(len(sizes)))
    while waiting:
        v = min(waiting, key=lambda w: (_weight(sizes, factors, holds[w], w), w))
        if _weight(sizes, factors, holds[v], v) > limit:
            raise UnsupportedError(
                f"as a network, {graph.names[v]!r} would need a table of "
                f"{_weight(sizes, factors, holds[v], v):,} numbers, and the limit is {limit:,}; "
                "ask the factor graph itself"
            )
        waiting.discard(v)
        parents[v], tables[v], message = _eliminate(v, sizes[v], [factors[i] for i in sorted(holds[v])])
        for number in list(holds[v]):
            for w in factors[number].variables:
                holds[w].discard(number)
            del factors[number]
        number = len(tables) + len(graph.factors()) + v
        factors[number] = message
        for w in message.variables:
            holds[w].add(number)
    return BayesianNetwork.assemble(graph.variables, parents, tables)


def _eliminate(v: int, size: int, factors: Sequence[Table]) -> tuple[tuple[int, ...], np.ndarray, Table]:
    """The parents and the table of v, and the message to them."""
    together = product(Table((v,), np.ones(size)), *factors)
    others = tuple(sorted(set(together.variables) - {v}))
    weights = aligned(together, (*others, v))
    message = weights.sum(axis=-1)
    table = np.divide(
        weights, message[..., None], out=np.full(weights.shape, 1.0 / size), where=message[..., None] > 0
    )
    scaled = Table(others, message / (message.max() or 1.0))
    _check_some_weight(scaled)
    return others, table, scaled


def _weight(sizes: Sequence[int], factors: dict[int, Table], numbers: set[int], v: int) -> int:
    """How many numbers the product of some factors has."""
    return math.prod(sizes[w] for w in {v}.union(*(factors[i].variables for i in numbers)))


def _check_some_weight(factor: Table) -> None:
    if not factor.values.max() > 0:
        raise InfeasibleError(
            "every assignment has weight zero, so that the factor graph has no distribution"
        )
