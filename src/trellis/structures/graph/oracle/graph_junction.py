"""Graphs of small width by a junction tree: exact best labelling, marginals of all parts, samples.

The factors of the tree are the exponentials of the scores, each table less its maximum; a given edge keeps a
table of its own. With t an entry of a table and Z the sum of everything, two passes
(:mod:`trellis.factors.junction_tree_kernels`) give dZ/dt, and

    p(entry) = t dZ/dt / sum over the entries of the table of t dZ/dt.

For the best labelling scores are first divided by a constant, so large that no product of entries of all
tables can underflow: this changes no maximiser, and costs no more digits than a sum of scores of that size
has. Sums whose products may underflow are done again in log space (``junction_tree_log``).

Plans depend on the edges alone and are kept for the next question about the same graph; where that plan is
costly, another one leaves out the labels that are forbidden at each node.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.core.logspace_kernels import SUM
from trellis.factors.elimination_order import elimination_order
from trellis.factors.junction_tree_compiled import SAFE_LOG_SLOPE, CompiledPlan, Leaves, Scratch
from trellis.factors.junction_tree_log import leaf_posteriors, log_tables
from trellis.factors.junction_tree_plan import NOTHING, Forecast, Plan
from trellis.factors.tables import Table
from trellis.structures.graph.oracle.graph_answers import DIRECT, GraphMarginals, RelaxedSolution
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, Labels

KEPT_PLANS = 256
UNDERFLOW = 550.0  # exp(-550) = 1e-239: products of scores that span more are not exponentiated
COSTLY = 1e6  # multiplications above which forbidden labels are worth a plan of their own
IMPRACTICAL = 1e13  # multiplications
NONE_ALLOWED = "the graph has no allowed labelling: forbidden labels and pairs contradict each other"


class GraphPlan:
    """What the edges alone decide: the plan, what it will cost, and where its leaves take their scores from.

    Leaf entry j is entry ``source[j]`` of all scores in one vector (:meth:`GraphParts.flat`); ``starts`` are
    the first entries of the leaves, and ``states`` the labels of each node that have a place in the tables.
    """

    def __init__(
        self, states: list[IntArray], k: int, edges: list[list[int]], factors: Sequence[tuple[int, ...]]
    ) -> None:
        n, self.states = len(states), states
        sizes = [len(labels) for labels in states]
        pairs = [(a,) if a == b else (a, b) for a, b in edges]
        scopes = [*((i,) for i in range(n)), *pairs, *factors]
        order = elimination_order(sizes, scopes, "best")
        largest = float(np.exp(order.log_sizes.max(initial=0.0)))
        self.forecast = Forecast(order.width, largest, order.total, 16.0 * order.total)
        self.compiled: CompiledPlan | None = None
        if order.total <= IMPRACTICAL:
            self.compiled = CompiledPlan(Plan(sizes, scopes, order.variables), Scratch())
            self.forecast = self.compiled.plan.forecast
            self.source = self._sources(self.compiled.plan, k, scopes, len(edges))
            self.starts = self.compiled.plan.offsets[: len(scopes)] - 1

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


def plan_of(scores: GraphScores) -> GraphPlan:
    """The plan for the graph of these scores, from memory if it was asked for before."""
    key = *scores.unary.shape, scores.edges.tobytes(), tuple(f.nodes for f in scores.factors)
    whole = _plan(*key, b"")
    allowed = scores.unary > -np.inf
    if whole.forecast.multiplications <= COSTLY or allowed.all():
        return whole
    if not allowed.any(axis=1).all():
        raise InfeasibleError(NONE_ALLOWED)
    return _plan(*key, allowed.tobytes())


@lru_cache(maxsize=KEPT_PLANS)
def _plan(
    n: int, k: int, edge_bytes: bytes, factors: tuple[tuple[int, ...], ...], allowed: bytes
) -> GraphPlan:
    """``allowed``: which labels have a place in the tables, (N, K) as bytes; none: all of them."""
    edges = np.frombuffer(edge_bytes, dtype=np.int64).reshape(-1, 2).tolist()
    mask = np.frombuffer(allowed, dtype=np.bool_) if allowed else np.ones(n * k, dtype=np.bool_)
    return GraphPlan([np.flatnonzero(row) for row in mask.reshape(n, k)], k, edges, factors)


class _Leaves:
    """The plan of a graph and the scores of its leaves, each less its largest."""

    def __init__(self, scores: GraphScores, memory_limit: float) -> None:
        self.plan = plan_of(scores)
        forecast = self.plan.forecast
        if self.plan.compiled is None or forecast.bytes > memory_limit:
            raise UnsupportedError(
                f"a junction tree of this graph would need {forecast.bytes / 2**30:.3g} GiB (width "
                f"{forecast.width}, {forecast.multiplications:.3g} multiplications), and the limit is "
                f"{memory_limit / 2**30:.3g} GiB; use method='message_passing' for the best labelling, "
                "'tree_reweighted' or 'loopy' for marginals, or raise memory_limit"
            )
        self.compiled = self.plan.compiled
        flat = GraphParts(scores.unary, scores.pairwise, tuple(f.table for f in scores.factors)).flat()
        self.logs = flat[self.plan.source]
        self.total = self.span = self.reach = 0.0  # spans: of one table at most, of all together
        if len(self.logs):
            tops = np.maximum.reduceat(self.logs, self.plan.starts)
            if tops.min() == -np.inf:
                raise InfeasibleError(NONE_ALLOWED)
            lows = np.minimum.reduceat(np.where(self.logs > -np.inf, self.logs, np.inf), self.plan.starts)
            spans = tops - lows
            self.total, self.span, self.reach = float(tops.sum()), float(spans.max()), float(spans.sum())
            self.logs -= np.repeat(tops, np.diff(self.plan.starts, append=len(self.logs)))

    def scaled(self, scale: float) -> Leaves:
        return Leaves(np.exp(scale * self.logs), scale * self.total)

    def tables(self) -> list[Table]:
        """The logs of the leaves, an axis for each variable."""
        plan = self.compiled.plan
        parts = np.split(self.logs, self.plan.starts[1:])
        return [
            Table(tuple(plan.layout(leaf)), part.reshape(plan.shape(leaf))) for leaf, part in enumerate(parts)
        ]


def junction_best(scores: GraphScores, memory_limit: float) -> RelaxedSolution:
    """A best labelling."""
    leaves = _Leaves(scores, memory_limit)
    scale = min(1.0, UNDERFLOW / max(leaves.reach, 1e-300))
    states, log_value = leaves.compiled.best(leaves.scaled(scale))
    if log_value == -np.inf:
        raise InfeasibleError(NONE_ALLOWED)
    labels = np.array([found[states[i]] for i, found in enumerate(leaves.plan.states)], dtype=np.int32)
    value = scores.score(labels)
    return RelaxedSolution(labels, value, value, True, True, "junction_tree", DIRECT, scores)


class _Upward:
    """Sums towards the roots by kernels, with what the way back needs.

    ``found`` is False where they mean nothing: exponentials have underflowed, or all that reaches a root."""

    def __init__(self, given: _Leaves) -> None:
        leaves, arrays = given.scaled(1.0), given.compiled.arrays
        self.values = np.empty(arrays.n_values)
        self.values[0] = 1.0
        self.values[1 : 1 + len(leaves.values)] = leaves.values
        self.log_scale = np.zeros((arrays.n_tables, 1))
        arrays.to_roots(SUM, 1, self.values, self.log_scale)
        roots = np.array([self.values[at] for _, at, _ in arrays.roots])
        self.found = given.span <= UNDERFLOW and bool(roots.all())
        if self.found:
            self.log_partition = leaves.log_scale + float(self.log_scale.sum() + np.log(roots).sum())


def junction_marginals(scores: GraphScores, memory_limit: float) -> GraphMarginals:
    """log Z and the marginals of all parts."""
    given = _Leaves(scores, memory_limit)
    joint = None
    up = _Upward(given)
    if up.found:
        log_partition, joint = up.log_partition, _kernel_posteriors(given, up)
    if joint is None:
        log_z, posteriors = leaf_posteriors(given.compiled.plan, given.tables())
        if log_z == -np.inf:
            raise InfeasibleError(NONE_ALLOWED)
        log_partition = given.total + log_z
        joint = np.concatenate([table.values.ravel() for table in posteriors]) if posteriors else np.zeros(0)
    flat = np.zeros(scores.unary.size + scores.pairwise.size + sum(f.table.size for f in scores.factors))
    flat[given.plan.source] = joint
    return GraphMarginals(log_partition, scores.unflat(flat), True, True, "junction_tree", DIRECT)


def _kernel_posteriors(given: _Leaves, up: _Upward) -> FloatArray | None:
    """p of all entries of the leaves; None where products that count may have been lost."""
    arrays = given.compiled.arrays
    slopes = np.empty(arrays.n_slopes)
    _, log_slope = arrays.from_roots(1, up.values, up.log_scale, slopes)
    if log_slope[0] > SAFE_LOG_SLOPE:
        return None
    n_entries, starts = len(given.logs), given.plan.starts
    joint: FloatArray = up.values[1 : 1 + n_entries] * slopes[1 : 1 + n_entries]
    if n_entries:
        joint /= np.repeat(np.add.reduceat(joint, starts), np.diff(starts, append=n_entries))
    return joint


def junction_samples(
    scores: GraphScores, n_samples: int, rng: np.random.Generator, memory_limit: float
) -> Labels:
    """Exact samples (n_samples, N): from the roots back, what each step summed out given what is known."""
    given = _Leaves(scores, memory_limit)
    plan, tables = given.compiled.plan, _sums(given)
    samples = np.zeros((n_samples, scores.n_nodes), dtype=np.int32)
    for step in reversed(plan.steps):
        summed = plan.summed(step)
        if summed:
            logs = np.zeros((n_samples, *(len(given.plan.states[v]) for v in summed)))
            for table in (step.a, step.b):
                if table != NOTHING:
                    logs = logs + _given(tables[table], samples, summed)
            codes = _draw(logs.reshape(n_samples, -1), rng)
            samples[:, summed] = np.stack(np.unravel_index(codes, logs.shape[1:]), axis=1)
    for i, states in enumerate(given.plan.states):
        samples[:, i] = states[samples[:, i]]
    return samples


def _sums(given: _Leaves) -> list[Table]:
    """The logs of all tables of the plan, each up to a constant, in the order of the plan."""
    plan = given.compiled.plan
    up = _Upward(given)
    if up.found and given.compiled.arrays.cannot_underflow(up.values):
        with np.errstate(divide="ignore"):
            logs = np.log(up.values)
        bounds = zip(plan.offsets[:-1].tolist(), plan.offsets[1:].tolist(), strict=True)
        return [
            Table(tuple(plan.layout(t)), logs[a:b].reshape(plan.shape(t))) for t, (a, b) in enumerate(bounds)
        ]
    tables = log_tables(plan, given.tables())
    if any(tables[root].values == -np.inf for root in plan.roots):
        raise InfeasibleError(NONE_ALLOWED)
    return tables


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
