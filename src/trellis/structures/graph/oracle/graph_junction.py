"""Graphs of small width by a junction tree: exact best labelling, marginals of all parts, samples.

The factors of the tree are the exponentials of the scores; a given edge keeps a table of its own. The driver
is :mod:`trellis.factors.junction_tree.compiled_plan`.

Plans depend on the edges alone and are kept for the next question about the same graph; where that plan is
costly, another one leaves out the labels that are forbidden at each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError
from trellis.factors.elimination_order import elimination_orders
from trellis.factors.junction_tree import plan_choice
from trellis.factors.junction_tree.compiled_plan import CompiledPlan, Leaves
from trellis.factors.junction_tree.plan import NOTHING, Plan
from trellis.factors.tables import Table
from trellis.structures.graph.oracle.graph_answers import (
    DIRECT,
    NONE_ALLOWED,
    GraphMarginals,
    RelaxedSolution,
)
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, Labels

KEPT_PLANS = 256
ALTERNATIVES = (
    "use method='message_passing' for the best labelling, 'tree_reweighted' or 'loopy' for marginals"
)


class GraphPlan:
    """What the edges alone decide: the plan, what it will cost, and where its leaves take their scores from.

    Leaf entry j is entry ``source[j]`` of all scores in one vector (:meth:`GraphParts.flat`), and ``states``
    are the labels of each node that have a place in the tables. ``compiled`` is None where planning itself
    would take long.
    """

    def __init__(
        self,
        states: list[IntArray],
        k: int,
        edges: list[list[int]],
        factors: Sequence[tuple[int, ...]],
        memory_limit: float,
    ) -> None:
        n, self.states = len(states), states
        sizes = [len(labels) for labels in states]
        pairs = [(a,) if a == b else (a, b) for a, b in edges]
        scopes = [*((i,) for i in range(n)), *pairs, *factors]
        orders = elimination_orders(sizes, scopes)
        self._order = orders[0]
        self.compiled: CompiledPlan | None = None
        if plan_choice.is_impractical(orders[0]):
            self.forecast = plan_choice.rough_forecast(orders[0])
        else:
            plan = plan_choice.choose_plan(sizes, scopes, orders, memory_limit)
            self.compiled, self.forecast = CompiledPlan(plan), plan.forecast
            self.source = self._sources(plan, k, scopes, len(edges))

    @property
    def is_costly(self) -> bool:
        """Whether forbidden labels are worth a plan of their own."""
        return plan_choice.worth_a_plan(self._order)

    def _sources(self, plan: Plan, k: int, scopes: list[tuple[int, ...]], n_edges: int) -> IntArray:
        places, at, n = [], 0, len(self.states)
        for leaf, scope in enumerate(scopes):
            if n <= leaf < n + n_edges and len(scope) == 1:  # an edge from a node to itself: its diagonal
                places.append(at + (k + 1) * self.states[scope[0]])
                at += k * k
                continue
            entries = np.ix_(*(self.states[v] * k ** (len(scope) - 1 - x) for x, v in enumerate(scope)))
            axes = [scope.index(v) for v in plan.layout(leaf)]
            places.append(at + np.asarray(sum(entries)).transpose(axes).ravel())
            at += k ** len(scope)
        return np.concatenate(places).astype(np.int64) if places else np.zeros(0, dtype=np.int64)


def find_plan(scores: GraphScores, memory_limit: float) -> GraphPlan:
    """The plan for the graph of these scores, from memory if it was asked for before."""
    key = *scores.unary.shape, scores.edges.tobytes(), tuple(f.nodes for f in scores.factors), memory_limit
    whole = _plan(*key, b"")
    if not whole.is_costly:
        return whole
    allowed = scores.unary > -np.inf
    if allowed.all():
        return whole
    if not allowed.any(axis=1).all():
        raise InfeasibleError(NONE_ALLOWED)
    return _plan(*key, allowed.tobytes())


@lru_cache(maxsize=KEPT_PLANS)
def _plan(
    n: int,
    k: int,
    edge_bytes: bytes,
    factors: tuple[tuple[int, ...], ...],
    memory_limit: float,
    allowed: bytes,
) -> GraphPlan:
    """``allowed``: which labels have a place in the tables, (N, K) as bytes; none: all of them."""
    edges = np.frombuffer(edge_bytes, dtype=np.int64).reshape(-1, 2).tolist()
    mask = np.frombuffer(allowed, dtype=np.bool_) if allowed else np.ones(n * k, dtype=np.bool_)
    return GraphPlan([np.flatnonzero(row) for row in mask.reshape(n, k)], k, edges, factors, memory_limit)


def _question(scores: GraphScores, memory_limit: float) -> tuple[GraphPlan, CompiledPlan, Leaves]:
    """The plan of a graph and its leaves."""
    plan = find_plan(scores, memory_limit)
    if plan.compiled is None:
        raise plan_choice.refusal(plan.forecast, 0.0, ALTERNATIVES)
    plan_choice.check_memory(plan.forecast, memory_limit, ALTERNATIVES)
    flat = GraphParts(scores.unary, scores.pairwise, tuple(f.table for f in scores.factors)).flat()
    leaves = Leaves.of(flat[plan.source], plan.compiled.plan.leaf_sizes)
    if leaves.log_scale == -np.inf:
        raise InfeasibleError(NONE_ALLOWED)
    return plan, plan.compiled, leaves


def junction_best(scores: GraphScores, memory_limit: float) -> RelaxedSolution:
    """A best labelling."""
    plan, compiled, leaves = _question(scores, memory_limit)
    states, log_value = compiled.best(leaves)
    if log_value == -np.inf:
        raise InfeasibleError(NONE_ALLOWED)
    labels = np.array([found[states[i]] for i, found in enumerate(plan.states)], dtype=np.int32)
    value = scores.score(labels)
    return RelaxedSolution(labels, value, value, True, True, "junction_tree", DIRECT, scores)


def junction_marginals(scores: GraphScores, memory_limit: float) -> GraphMarginals:
    """log Z and the marginals of all parts."""
    plan, compiled, leaves = _question(scores, memory_limit)
    log_partition, joint = compiled.sums(leaves, lambda sums: (float(sums.log_partition), sums.posteriors()))
    if log_partition == -np.inf:
        raise InfeasibleError(NONE_ALLOWED)
    flat = np.zeros(scores.unary.size + scores.pairwise.size + sum(f.table.size for f in scores.factors))
    flat[plan.source] = joint
    return GraphMarginals(log_partition, scores.unflat(flat), True, True, "junction_tree", DIRECT)


def junction_samples(
    scores: GraphScores, n_samples: int, rng: np.random.Generator, memory_limit: float
) -> Labels:
    """Exact samples (n_samples, N): from the roots back, what each step summed out given what is known."""
    given, compiled, leaves = _question(scores, memory_limit)
    log_partition, tables = compiled.sums(
        leaves, lambda sums: (float(sums.log_partition), sums.log_tables()), back=False
    )
    if log_partition == -np.inf:
        raise InfeasibleError(NONE_ALLOWED)
    plan = compiled.plan
    samples = np.zeros((n_samples, scores.n_nodes), dtype=np.int32)
    for step in reversed(plan.steps):
        summed = plan.summed(step)
        if summed:
            logs = np.zeros((n_samples, *(len(given.states[v]) for v in summed)))
            for table in (step.a, step.b):
                if table != NOTHING:
                    logs = logs + _given(tables[table], samples, summed)
            codes = _draw(logs.reshape(n_samples, -1), rng)
            samples[:, summed] = np.stack(np.unravel_index(codes, logs.shape[1:]), axis=1)
    for i, states in enumerate(given.states):
        samples[:, i] = states[samples[:, i]]
    return samples


def _given(table: Table, samples: Labels, summed: list[int]) -> FloatArray:
    """The entries of a table at the sampled labels, an axis for each of ``summed`` (length 1: absent)."""
    layout = table.variables
    known = [v for v in layout if v not in summed]
    axes = [layout.index(v) for v in known] + [layout.index(v) for v in summed if v in layout]
    block = table.values.transpose(axes)
    part = block[tuple(samples[:, v] for v in known)] if known else block[None]
    sizes = iter(block.shape[len(known) :])
    return part.reshape(len(part), *(next(sizes) if v in layout else 1 for v in summed))


def _draw(logs: FloatArray, rng: np.random.Generator) -> Labels:
    """One column for each row, with probability in proportion to the exponential of its entry."""
    shares = np.cumsum(np.exp(logs - logs.max(axis=1, keepdims=True)), axis=1)
    drawn = rng.random((len(logs), 1)) * shares[:, -1:]
    return np.asarray((shares <= drawn).sum(axis=1), dtype=np.int32)
