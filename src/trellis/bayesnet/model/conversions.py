"""From a factor graph to a Bayesian network with the same distribution, by elimination.

Eliminating v multiplies all factors with v in them; let N be the other variables of the product f. Then

    P(v | N) = f(v, N) / m(N),      m(N) = sum_v f(v, N),

and m takes the place of these factors. The variables of N are eliminated later, so that edges from N to v
never make a cycle. Next is always the variable with the smallest product. Conditions of weight zero get a
uniform row, on which no answer depends. Factors and messages are logarithms, so that nothing overflows and
no assignment with a weight loses it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from trellis.bayesnet.model.conditional_tables import MOST_AXES
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.factor_model import FactorModel
from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.logspace import softmax_and_log_sum
from trellis.factors.tables import Table, aligned

LIMIT = 2**24  # numbers in one table: 128 MiB

SMALLEST = float(np.finfo(np.float64).tiny)  # that has all its digits


def network_from_graph(graph: FactorModel, *, limit: int = LIMIT) -> DirectedModel:
    """The Bayesian network that is the normalised factor graph, with at most ``limit`` numbers a table."""
    sizes = graph.cardinalities.tolist()
    holds: list[dict[int, Table]] = [{} for _ in sizes]  # the factors that each variable is in, by number
    for number, factor in enumerate(graph.factors()):
        _check_some_weight(bool((factor.values > 0).any()))
        with np.errstate(divide="ignore"):  # the logarithm of 0 is -inf
            logs = Table(factor.variables, np.log(factor.values))
        for v in factor.variables:
            holds[v][number] = logs
    parents: list[Sequence[int]] = [()] * len(sizes)
    tables: list[FloatArray] = [np.zeros(0)] * len(sizes)
    weights = [_weight(sizes, holds[v], v) for v in range(len(sizes))]
    waiting = [(weight, v) for v, weight in enumerate(weights)]
    heapify(waiting)
    number = len(graph.factors())
    while waiting:
        weight, v = heappop(waiting)
        if weight != weights[v]:  # it has changed, and stands elsewhere in the heap
            continue
        weights[v] = -1
        scope = {v}.union(*(factor.variables for factor in holds[v].values()))
        if weight > limit or len(scope) > MOST_AXES:
            raise UnsupportedError(
                f"as a network, {graph.names[v]!r} would need a table of {weight:,} numbers on {len(scope)} "
                f"axes, and the limits are {limit:,} and {MOST_AXES}; ask the factor graph itself"
            )
        others = tuple(sorted(scope - {v}))
        parents[v], (tables[v], message, lost) = others, _eliminate((*others, v), sizes, [*holds[v].values()])
        if lost:
            raise UnsupportedError(
                f"as a network, {graph.names[v]!r} would have probabilities below 1e-308, which a table "
                "holds as zeros; ask the factor graph itself"
            )
        for w in others:
            for gone in holds[v].keys() & holds[w].keys():
                del holds[w][gone]
            holds[w][number] = Table(others, message)
            weights[w] = _weight(sizes, holds[w], w)
            heappush(waiting, (weights[w], w))
        number += 1
    return DirectedModel.assemble(graph.variables, parents, tables)


def _eliminate(
    scope: tuple[int, ...], sizes: Sequence[int], factors: Sequence[Table]
) -> tuple[FloatArray, FloatArray, bool]:
    """The table of the last variable of the scope given the others, the log of the message to these, and
    whether something possible has no number in the table."""
    together = np.zeros([sizes[v] for v in scope])
    for factor in factors:
        together += aligned(factor, scope)
    table, message = softmax_and_log_sum(together)
    possible = message > -np.inf
    _check_some_weight(bool(possible.any()))
    lost = bool(((together > -np.inf) & (table < SMALLEST)).any())
    return np.where(possible, table, 1.0 / sizes[scope[-1]]), message[..., 0], lost


def _weight(sizes: Sequence[int], factors: dict[int, Table], v: int) -> int:
    """How many numbers the product of some factors has."""
    return math.prod(sizes[w] for w in {v}.union(*(factor.variables for factor in factors.values())))


def _check_some_weight(some: bool) -> None:
    if not some:
        raise InfeasibleError("every assignment has weight zero, so the factor graph has no distribution")
