"""The latent structural SVM by the DC algorithm: certificates, optimality, segmentations and toy oracles."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from certificates import certified, objective_at
from small_chains import small_problem
from small_segments import all_paths, random_graph
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.core.oracle import Answer
from trellis.objectives import Direct, Log, Margin, Perceptron, SoftmaxMargin
from trellis.objectives.example_problem import ExampleProblem
from trellis.solvers import CCCP, CuttingPlane
from trellis.solvers.dc.cccp import _LatentMargin
from trellis.structures.segments.problem.alignment_losses import TauInsensitive
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.structures.segments.scores.known_boundaries import KnownStarts
from trellis.structures.segments.scores.segment_scores import SegmentFeatures, SegmentPath
from trellis.training.driver import minimise

# -- a toy structure: every output and hidden value in a table ---------------------------------------


@dataclass(frozen=True, eq=False)
class Table:
    """``features`` (Y, H, D), the gold output y* and the loss L (Y,) with L[y*] = 0."""

    features: np.ndarray
    gold: int
    loss: np.ndarray


class TableOracle:
    def __init__(self, example: Table, weights: np.ndarray) -> None:
        self._example, self._scores = example, example.features @ weights

    def best(self, scale: float) -> Answer:
        total = self._scores + scale * self._example.loss[:, None]
        y, h = np.unravel_index(int(total.argmax()), total.shape)
        return Answer(float(total[y, h]), self._example.features[y, h], float(self._example.loss[y]))

    def sum(self, scale: float) -> Answer:
        return self._sum(self._scores + scale * self._example.loss[:, None], self._example.features)

    def gold_best(self) -> Answer:
        s = self._scores[self._example.gold]
        h = int(s.argmax())
        return Answer(float(s[h]), self._example.features[self._example.gold, h])

    def gold_sum(self) -> Answer:
        return self._sum(self._scores[self._example.gold], self._example.features[self._example.gold])

    @staticmethod
    def _sum(s: np.ndarray, features: np.ndarray) -> Answer:
        value = float(logsumexp(s))
        return Answer(value, np.tensordot(np.exp(s - value), features, axes=s.ndim))


class TableProblem(ExampleProblem[Table, None]):
    structure, noun = "tables", "table"

    @property
    def dimension(self) -> int:
        return int(self.examples[0].features.shape[-1])

    @property
    def latent(self) -> bool:
        return any(example.features.shape[1] > 1 for example in self.examples)

    def oracle(self, index: int, weights: np.ndarray) -> TableOracle:
        return TableOracle(self.examples[index], weights)


def tables(seed: int, *, n: int = 6, ties: bool = False, hidden: int = 3) -> list[Table]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(n):
        shape = (3, hidden, 4)
        features = rng.integers(-1, 2, shape).astype(float) if ties else rng.normal(size=shape)
        gold = int(rng.integers(3))
        loss = np.where(np.arange(3) == gold, 0.0, rng.integers(1, 3, 3).astype(float))
        found.append(Table(features, gold, loss))
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**16), st.booleans(), st.sampled_from([0.05, 1.0]))
def test_certificates_never_rise(seed: int, ties: bool, l2: float) -> None:
    weight = np.random.default_rng(seed).uniform(0, 2, 6)
    problem = TableProblem(tables(seed, ties=ties), Margin(), None, l2=l2, weight=weight)
    certified(problem, np.random.default_rng(seed).normal(size=4))


def test_the_end_is_critical() -> None:
    """No completion that is best at the end leaves more than the tolerance to gain."""
    problem = TableProblem(tables(3), Margin(), None, l2=0.2)
    solution = certified(problem, np.random.default_rng(3).normal(size=4), tol=1e-6)
    assert solution.status.converged
    completion = problem.completed(solution.weights)
    inner = minimise(
        CuttingPlane(tol=1e-9), completion.convex, np.zeros(4), max_iter=500, rng=np.random.default_rng(0)
    )
    value = objective_at(problem, solution.weights)
    assert inner.history["objective"][-1] >= value - 1e-4 * abs(value)


@pytest.mark.parametrize("wrong", [np.inf, np.nan, -1e9])
def test_a_certificate_that_fails_does_not_cost_the_weights(
    wrong: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = TableProblem(tables(3), Margin(), None, l2=0.2)
    start = np.random.default_rng(3).normal(size=4)
    right = minimise(CCCP(tol=1e-6), problem, start, max_iter=60, rng=np.random.default_rng(0))
    conjugate = _LatentMargin.g_conjugate
    monkeypatch.setattr(_LatentMargin, "g_conjugate", lambda self, v: (wrong, conjugate(self, v)[1]))
    found = minimise(CCCP(tol=1e-6), problem, start, max_iter=60, rng=np.random.default_rng(0))
    assert right.status.converged
    assert not found.status.converged
    assert "the certificate of iteration 1 " in str(found.status)
    assert objective_at(problem, found.weights) == pytest.approx(right.history["primal"][-1], rel=1e-4)


def test_without_hidden_parts_one_step_is_the_svm() -> None:
    problem = TableProblem(tables(5, hidden=1), Margin(), None, l2=0.3)
    assert problem.convex
    exact = minimise(CuttingPlane(tol=1e-8), problem, np.zeros(4), max_iter=500, rng=np.random.default_rng(0))
    solution = certified(problem, np.zeros(4), tol=1e-7)
    assert solution.history["primal"][-1] == pytest.approx(exact.history["objective"][-1], rel=1e-6)


def test_an_objective_that_can_be_zero_ends_there() -> None:
    known = [Table(e.features, e.gold, np.zeros(3)) for e in tables(8)]
    problem = TableProblem(known, Margin(), None, l2=0.1)
    solution = certified(problem, np.random.default_rng(0).normal(size=4))
    assert solution.status.converged
    assert solution.history["primal"][-1] <= 1e-6


def test_completion_is_the_gold_side() -> None:
    problem = TableProblem(tables(7), Margin(), None, weight=np.arange(6.0))
    weights = np.random.default_rng(0).normal(size=4)
    found = problem.completed(weights)
    s = [e.features[e.gold] @ weights for e in problem.examples]
    assert found.value == pytest.approx(sum(c * x.max() for c, x in enumerate(s)))
    assert found.gradient @ weights == pytest.approx(found.value)
    value, gradient = found.convex.value_and_gradient(weights)
    expected, expected_gradient = problem.value_and_gradient(weights)
    assert value == pytest.approx(expected)
    np.testing.assert_allclose(gradient, expected_gradient)
    elsewhere = np.random.default_rng(1).normal(size=4)
    augmented = [(e.features @ elsewhere + e.loss[:, None]).max() for e in problem.examples]
    value, _ = found.convex.value_and_gradient(elsewhere)
    assert value == pytest.approx(np.arange(6.0) @ augmented - found.gradient @ elsewhere)


@pytest.mark.parametrize("objective", [Log(), SoftmaxMargin()])
def test_hidden_sums_by_differences(objective: Any) -> None:
    problem = TableProblem(tables(9), objective, None)
    weights = np.random.default_rng(0).normal(size=4)
    value, gradient = problem.value_and_gradient(weights)
    s = [(e.features @ weights, e) for e in problem.examples]
    scale = float(isinstance(objective, SoftmaxMargin))
    expected = sum(logsumexp(x + scale * e.loss[:, None]) - logsumexp(x[e.gold]) for x, e in s)
    assert value == pytest.approx(expected)
    for d, step in enumerate(1e-6 * np.eye(4)):
        ends = [problem.value_and_gradient(weights + sign * step)[0] for sign in (1, -1)]
        assert gradient[d] == pytest.approx((ends[0] - ends[1]) / 2e-6, abs=1e-6)


# -- chains -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{}, {"edges": True}, {"observed": True}, {"constrained": True}, {"weighted": True}]
)
def test_chains_are_completed_as_by_enumeration(options: dict[str, bool]) -> None:
    problem = small_problem("margin", 2, ambiguous=True, lengths=(3, 2, 3), **options)
    weights = np.random.default_rng(0).normal(size=problem.dimension)
    if len(problem.layout.mask):
        weights *= problem.layout.mask
    scores = problem.scores(weights)
    found = problem.completed(weights)
    from trellis.structures.chain.oracle.chain_oracle import Chain

    completed = found.convex.task.gold  # type: ignore[attr-defined]
    gold = problem.task.gold
    assert (completed[gold >= 0] == gold[gold >= 0]).all()
    best = max(
        Chain().score(scores, np.array([k, *gold[1:]], np.int32))[0] for k in range(3)
    )  # only the first step of the first sequence is unknown
    each = Chain().score(scores, completed)
    assert each[0] == pytest.approx(best)
    assert found.value == pytest.approx(float(problem.task.weight @ each))
    assert found.gradient @ weights == pytest.approx(found.value)
    assert certified(problem, weights, tol=1e-3).status.converged


def test_threads_do_not_matter() -> None:
    problem = small_problem("margin", 4, ambiguous=True)
    start = np.random.default_rng(0).normal(size=problem.dimension)
    one, two = (certified(problem.with_(n_jobs=n), start) for n in (1, 2))
    np.testing.assert_allclose(one.weights, two.weights, atol=1e-8)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (lambda: small_problem("log", ambiguous=True), "objective='margin'"),
        (lambda: small_problem("margin", ambiguous=True, l2=0.0), "l2 > 0"),
        (lambda: small_problem("margin", ambiguous=True).with_(l1=0.1), "L1 norm"),
        (lambda: small_problem("margin", loss="zero_one", ambiguous=True), "0-1"),
        (object, "completion of gold outputs.*object does not offer"),
    ],
)
def test_refusals(problem: Any, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        CCCP().start(problem(), np.zeros(30), np.random.default_rng(0)).step()


@pytest.mark.parametrize("options", [{"tol": -1.0}, {"rough": 1.0}])
def test_wrong_options(options: dict[str, float]) -> None:
    with pytest.raises(DataError):
        CCCP(**options)


# -- segmentations with unknown boundaries ------------------------------------------------------------


def partly_known(kind: str, seed: int) -> SegmentExample:
    rng = np.random.default_rng(seed)
    while True:
        graph = random_graph(kind, rng)
        n_frames = int(rng.integers(5, 9))
        paths = all_paths(graph, n_frames)
        if paths:
            break
    p, columns = graph.n_nodes, n_frames + 1
    prefix = np.concatenate([np.zeros((1, p, 1)), rng.normal(size=(1, p, n_frames)).cumsum(axis=2)], axis=2)
    features = SegmentFeatures.of(
        graph,
        n_frames,
        prefix=prefix,
        boundary=rng.normal(size=(1, p, columns)),
        duration=rng.normal(size=(1, p, graph.longest + 1)),
        rate=1.0,
    )
    gold = paths[int(rng.integers(len(paths)))]
    starts = np.full(p, np.nan)
    some = rng.random(len(gold.nodes)) < 0.5
    starts[gold.nodes[some]] = gold.starts[some]
    return SegmentExample(features, KnownStarts.of(graph, starts, n_frames))


def agrees(path: SegmentPath, starts: np.ndarray) -> bool:
    where = dict(zip(path.nodes.tolist(), path.starts.tolist(), strict=True))
    return all(where.get(i) == starts[i] for i in np.flatnonzero(~np.isnan(starts)))


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(["chain", "lattice", "dag"]), st.integers(0, 2**16))
def test_unknown_boundaries_by_enumeration(kind: str, seed: int) -> None:
    example = partly_known(kind, seed)
    weights = np.random.default_rng(seed + 1).normal(size=4)
    oracle = SegmentProblem([example], Margin(), TauInsensitive()).oracle(0, weights)
    assert isinstance(example.gold, KnownStarts)
    paths = [
        p for p in all_paths(example.features.graph, example.gold.n_frames) if agrees(p, example.gold.starts)
    ]
    phi = np.array([example.features.of_path(p) for p in paths])
    s = phi @ weights
    best, total = oracle.gold_best(), oracle.gold_sum()
    assert best.value == pytest.approx(s.max(), abs=1e-8)
    assert best.parts @ weights == pytest.approx(s.max(), abs=1e-8)
    assert total.value == pytest.approx(logsumexp(s), abs=1e-8)
    np.testing.assert_allclose(total.parts, np.exp(s - logsumexp(s)) @ phi, atol=1e-6)


def test_all_known_is_the_plain_problem_and_nothing_known_costs_nothing() -> None:
    example = partly_known("chain", 11)
    graph, frames = example.features.graph, example.features.n_frames
    path = all_paths(graph, frames)[-1]
    weights = np.random.default_rng(0).normal(size=4)
    known = SegmentExample(example.features, KnownStarts.of(graph, path.starts, frames))
    for objective in (Margin(), Log(), Direct(), Perceptron()):
        values = [
            SegmentProblem([e], objective, TauInsensitive()).value_and_gradient(weights)
            for e in (SegmentExample(example.features, path), known)
        ]
        assert values[0][0] == pytest.approx(values[1][0], abs=1e-9)
        np.testing.assert_allclose(values[0][1], values[1][1], atol=1e-8)
    free = SegmentExample(example.features, KnownStarts.of(graph, np.full(graph.n_nodes, np.nan), frames))
    value, gradient = SegmentProblem([free], Margin(), TauInsensitive()).value_and_gradient(weights)
    assert value == 0.0
    assert not gradient.any()


def test_learning_segmentations_with_hidden_boundaries() -> None:
    examples = [partly_known("chain", seed) for seed in range(6)]
    problem = SegmentProblem(examples, Margin(), TauInsensitive(), l2=0.1)
    assert problem.latent
    assert not problem.convex
    certified(problem, np.random.default_rng(0).normal(size=4))
    with pytest.raises(UnsupportedError, match="convex"):
        CuttingPlane().start(problem, np.zeros(4), np.random.default_rng(0))


def test_wrong_known_starts() -> None:
    example = partly_known("chain", 1)
    graph, frames = example.features.graph, example.features.n_frames
    with pytest.raises(DataError, match="nodes"):
        KnownStarts.of(graph, [0.0], frames)
    for start in (0.5, -1.0, float(frames)):
        with pytest.raises(InfeasibleError, match="whole frames"):
            KnownStarts.of(graph, [start] + [np.nan] * (graph.n_nodes - 1), frames)
    other = partly_known("chain", 2)
    with pytest.raises((DataError, InfeasibleError)):
        SegmentExample(
            other.features, KnownStarts.of(graph, np.full(graph.n_nodes, np.nan), other.features.n_frames)
        )
    with pytest.raises(UnsupportedError, match="some boundaries"):
        _ = example.gold_path


def test_enumeration_of_small_tables_finds_nothing_better_nearby() -> None:
    """The critical point is a local minimum along random directions."""
    problem = TableProblem(tables(13), Margin(), None, l2=0.5)
    solution = certified(problem, np.random.default_rng(1).normal(size=4), tol=1e-7)
    value = objective_at(problem, solution.weights)
    rng = np.random.default_rng(2)
    for direction, size in product(rng.normal(size=(40, 4)), (1e-3, 1e-2)):
        assert objective_at(problem, solution.weights + size * direction) >= value - 1e-5
