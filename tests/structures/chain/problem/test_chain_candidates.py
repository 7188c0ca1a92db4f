"""Objectives over candidate labellings: exact when the list holds every labelling, lower bounds otherwise."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.data.labels import LabelSet
from trellis.data.sequences import offsets_from_lengths
from trellis.features.encoded import Encoded, Features
from trellis.losses.labelings import Custom, Hamming, SpanF1, ZeroOne
from trellis.objectives import Direct, Margin, Objective, Ramp, Risk, Slack, SoftmaxMargin, get_objective
from trellis.solvers.online.minibatch import MiniBatch
from trellis.solvers.quasi_newton.lbfgs import LBFGS
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.problem.chain_candidates import (
    CandidateProblem,
    list_candidates,
)
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.chain_task import loss_table, new_task
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.training.driver import minimise

BIO = LabelSet(["B", "I", "O"])
K = 3
OBJECTIVES = [
    Margin(),
    Slack(),
    SoftmaxMargin(),
    Ramp(),
    Risk(),
    *(Direct(sign=sign) for sign in ("better", "worse", "central")),
]
EVERY = K**4  # all labellings of the longest sequence


def name_of(objective: Objective) -> str:
    return f"{objective.name}_{getattr(objective, 'sign', '')}"


def hamming(gold: list[str], predicted: list[str]) -> float:
    return float(sum(a != b for a, b in zip(gold, predicted, strict=True)))


def data(
    seed: int = 0, lengths: tuple[int, ...] = (3, 0, 1, 4, 2), n_features: int = 6, edges: bool = False
) -> tuple[Encoded, list[list[str]]]:
    """Random binary features, and labels that follow the first three of them."""
    rng = np.random.default_rng(seed)
    offsets = offsets_from_lengths(lengths)
    n = int(offsets[-1])
    codes = rng.integers(K, size=n)
    present = rng.random((n, n_features)) < 0.3
    present[:, :K] = np.eye(K, dtype=bool)[codes]

    def features(matrix: np.ndarray) -> Features:
        indptr = np.concatenate([[0], np.cumsum(matrix.sum(axis=1))])
        return Features(indptr, np.nonzero(matrix)[1].astype(np.uint32), np.ones(1), matrix.shape[1], offsets)

    flat = [BIO.labels[c] for c in codes]
    y = [flat[a:b] for a, b in pairwise(offsets)]
    return Encoded(features(present), features(present[:, :2]) if edges else None), y


def linear(
    objective: Objective,
    encoded: Encoded,
    y: list[list[str]] | list[list[str | None]],
    loss: object = None,
    penalties: Penalties | None = None,
    **options: object,
) -> LinearChainProblem:
    gold = BIO.encode(y)
    layout = LinearLayout.observed(encoded, gold.codes, gold.allowed, K, boundaries=True)
    kind, cost = loss_table(objective, loss or Hamming(), gold, BIO)  # type: ignore[arg-type]
    task = new_task(gold, K, np.linspace(0.5, 1.5, len(y)), cost)
    design = layout.design(encoded, sort=True)
    return LinearChainProblem(
        layout,
        design,
        penalties or Penalties.none(K),
        task,
        objective,
        kind,
        **options,  # type: ignore[arg-type]
    )


def weights_of(problem: LinearChainProblem, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=problem.dimension) * problem.layout.mask


@pytest.mark.parametrize("objective", OBJECTIVES, ids=name_of)
@pytest.mark.parametrize("edges", [False, True], ids=["shared", "edges"])
@pytest.mark.parametrize("loss", ["hamming", "zero_one"])
def test_all_labellings_as_candidates_are_exact(objective: Objective, edges: bool, loss: str) -> None:
    """A decomposing loss as a Python function, with every labelling in the list: value and gradient agree."""
    encoded, y = data(edges=edges)
    exact = linear(objective, encoded, y, Hamming() if loss == "hamming" else ZeroOne(), epsilon=0.8)
    function = hamming if loss == "hamming" else (lambda a, b: float(a != b))
    candidates = CandidateProblem.of(exact, Custom(function, n_candidates=EVERY), BIO)
    weights = weights_of(exact)
    value, gradient = exact.value_and_gradient(weights)
    ours, slope = candidates.value_and_gradient(weights)
    if objective.name == "slack":  # the search along the hull may miss the maximum; the full list does not
        assert ours >= value - 1e-9
        return
    assert ours == pytest.approx(value)
    np.testing.assert_allclose(slope, gradient, atol=1e-9)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=name_of)
def test_span_f1_against_brute_force(objective: Objective) -> None:
    encoded, y = data(seed=3)
    problem = linear(objective, encoded, y, epsilon=0.6)
    loss = SpanF1(n_candidates=EVERY)
    weights = weights_of(problem)
    value, _ = CandidateProblem.of(problem, loss, BIO).value_and_gradient(weights)
    scores = problem.scores(weights)
    total = 0.0
    for i, row in enumerate(y):
        every = Enumeration.of(scores, i)
        s = every.scores
        gold = BIO.encode([row])
        L = np.array([loss.per_sequence(gold, path, BIO)[0] for path in every.labellings])
        star = s[np.all(every.labellings == gold.codes, axis=1)][0]
        p = every.probabilities()
        total += (
            problem.task.weight[i]
            * {
                "margin": (s + L).max() - star,
                "slack": (L * (1 + s - star)).max(),
                "softmax_margin": np.log(np.exp(s + L).sum()) - star,
                "ramp": (s + L).max() - s.max(),
                "risk": p @ L,
                "direct": L[s.argmax()],
                "direct_central": ((s + 0.6 * L).max() - (s - 0.6 * L).max()) / 1.2,
            }[name_of(objective) if name_of(objective) == "direct_central" else objective.name]
        )
    assert value == pytest.approx(total)


@pytest.mark.parametrize("objective", [Margin(), Slack(), SoftmaxMargin(), Ramp(), Risk()], ids=name_of)
@pytest.mark.parametrize("kind", ["k_best", "samples"])
def test_gradient_of_a_fixed_list(objective: Objective, kind: str) -> None:
    """Central differences of the value over candidates that are held fixed."""
    encoded, y = data(seed=5)
    problem = linear(objective, encoded, y)
    loss = SpanF1(candidates=kind, n_candidates=5)  # type: ignore[arg-type]
    weights, gold = weights_of(problem), BIO.encode(y)
    fixed = list_candidates(problem.scores(weights), gold, loss, BIO, np.random.default_rng([0, 0, len(y)]))
    _, gradient = CandidateProblem.of(problem, loss, BIO).value_and_gradient(weights)

    def value(w: np.ndarray) -> float:
        rows = np.array([Chain().score(problem.scores(w), row) for row in fixed.labellings])
        moved = replace(fixed, scores=np.where(fixed.scores > -np.inf, rows, -np.inf), gold_scores=rows[-1])
        return float(objective.over_candidates(moved, 1.0)[0] @ problem.task.weight)

    for seed in range(4):
        by = weights_of(problem, seed + 10)
        slope = (value(weights + 1e-6 * by) - value(weights - 1e-6 * by)) / 2e-6
        assert gradient @ by == pytest.approx(slope, abs=1e-6)


@pytest.mark.parametrize("kind", ["k_best", "samples"])
def test_candidates_are_different_and_hold_the_best_and_the_gold(kind: str) -> None:
    encoded, y = data(seed=8)
    problem = linear(Margin(), encoded, y)
    gold = BIO.encode(y)
    scores = problem.scores(weights_of(problem))
    loss = SpanF1(candidates=kind, n_candidates=12)  # type: ignore[arg-type]
    found = list_candidates(scores, gold, loss, BIO, np.random.default_rng(0))
    assert found.labellings.shape == (13, len(gold.codes))
    for i in range(len(y)):
        lo, hi = gold.offsets[i : i + 2]
        rows = [tuple(row[lo:hi]) for row in found.labellings[found.scores[:, i] > -np.inf]]
        assert len(set(rows)) == len(rows)
        assert tuple(gold.codes[lo:hi]) in rows
        best, score = Enumeration.of(scores, i).best()
        assert rows[0] == tuple(best)
        assert found.scores[0, i] == pytest.approx(score)


@pytest.mark.parametrize("kind", ["k_best", "samples"])
def test_runs_add_up_and_repeat(kind: str) -> None:
    encoded, y = data(seed=2)
    problem = linear(Margin(), encoded, y)
    loss = SpanF1(candidates=kind, n_candidates=6)  # type: ignore[arg-type]
    candidates = CandidateProblem.of(problem, loss, BIO)
    weights = weights_of(problem)
    assert not candidates.exact
    value, gradient = candidates.value_and_gradient(weights)
    again, slope = candidates.value_and_gradient(weights)
    assert value == again
    np.testing.assert_array_equal(gradient, slope)
    if kind == "k_best":
        parts = [candidates.run_value_and_gradient(weights, a, b) for a, b in ((0, 2), (2, 3), (3, 5))]
        assert sum(part[0] for part in parts) == pytest.approx(value)
        np.testing.assert_allclose(sum(part[1] for part in parts), gradient, atol=1e-12)


def test_unusable_problems_are_refused() -> None:
    encoded, y = data()
    problem = linear(Margin(), encoded, y)
    with pytest.raises(UnsupportedError, match="'hamming' is exact without candidates"):
        CandidateProblem.of(problem, Hamming(), BIO)
    partial = linear(Margin(), encoded, [[None, *y[0][1:]], *y[1:]])
    with pytest.raises(UnsupportedError, match="sequence 0 has unknown ones; use loss='hamming'"):
        CandidateProblem.of(partial, SpanF1(), BIO)
    with pytest.raises(DataError, match="not 0 for its own gold labels"):
        CandidateProblem.of(problem, Custom(lambda gold, predicted: 1.0), BIO)
    with pytest.raises(UnsupportedError, match="'log' does not look at the loss"):
        CandidateProblem.of(linear(get_objective("log"), encoded, y), SpanF1(), BIO)
    forbidden = Penalties(np.zeros(K), np.where(np.eye(K) > 0, 0.0, -np.inf), np.zeros(K))
    changes = next(i for i, row in enumerate(y) if len(set(row)) > 1)
    for objective in (Margin(), Slack(), SoftmaxMargin()):
        constrained = linear(objective, encoded, y, penalties=forbidden)
        candidates = CandidateProblem.of(constrained, SpanF1(), BIO)
        with pytest.raises(InfeasibleError, match=f"sequence {changes} "):
            candidates.run_value_and_gradient(weights_of(constrained), changes, len(y))


def test_an_unlisted_gold_labelling_competes() -> None:
    """Two candidates, both wrong: the gold labelling is still the reference, and the list's third member."""
    scores = ChainScores.of([[3.0, 2.0, -5.0]], np.zeros((3, 3)))
    gold = BIO.encode([["O"]])
    found = list_candidates(scores, gold, Custom(hamming, n_candidates=2), BIO, np.random.default_rng(0))
    values, coefficients = Margin().over_candidates(found, 1.0)
    assert values.tolist() == [3.0 + 1.0 + 5.0]
    assert coefficients[:, 0].tolist() == [1.0, 0.0, -1.0]
    for sign, size in (("better", 0.1), ("central", 0.05)):
        _, direct = Direct(sign=sign).over_candidates(found, epsilon=10.0)
        assert direct[:, 0].tolist() == [size, 0.0, -size]


@pytest.mark.parametrize(
    "objective", [Margin(), SoftmaxMargin(), Direct(), Direct(epsilon="decay"), Risk()], ids=name_of
)
def test_mini_batches_learn_span_f1(objective: Objective) -> None:
    encoded, y = data(seed=4, lengths=(4,) * 60)
    problem = linear(objective, encoded, y, l2=0.01)
    candidates = CandidateProblem.of(problem, SpanF1(n_candidates=8), BIO)
    start = np.zeros(problem.dimension)
    evaluate = CandidateProblem.of(
        linear(Direct(), encoded, y), SpanF1(n_candidates=2), BIO
    ).value_and_gradient
    solution = minimise(MiniBatch(batch_size=5), candidates, start, max_iter=8, rng=np.random.default_rng(0))
    assert not solution.status.converged
    assert len(solution.history["pass_objective"]) == 8
    assert evaluate(solution.weights)[0] < 0.5 * evaluate(start)[0]
    assert np.all(solution.weights[problem.layout.mask == 0] == 0)


def test_mini_batches_find_the_optimum_of_a_convex_problem() -> None:
    """The same solver on an exact problem: near the optimum that L-BFGS finds, with the same regulariser."""
    encoded, y = data(seed=4, lengths=(4,) * 60)
    problem = linear(get_objective("log"), encoded, y, l2=5.0)
    start, rng = np.zeros(problem.dimension), np.random.default_rng(0)
    best = minimise(LBFGS(), problem, start, max_iter=200, rng=rng).weights

    def objective(w: np.ndarray) -> float:
        return problem.value_and_gradient(w)[0] + 2.5 * float(w @ w)

    for average in (True, False):
        solver = MiniBatch(batch_size=4, average=average)
        found = minimise(solver, problem, start, max_iter=60, rng=rng).weights
        assert objective(found) < objective(best) + 0.01 * (objective(start) - objective(best))


def test_mini_batch_options_are_checked() -> None:
    encoded, y = data()
    with pytest.raises(DataError, match=r"learning_rate is 0\.0; give a positive number"):
        MiniBatch(learning_rate=0.0)
    with pytest.raises(DataError, match="batch_size is 0; give a whole number of at least 1"):
        MiniBatch(batch_size=0)
    with pytest.raises(DataError, match="schedule is 'linear'; give 'constant' or 'inverse_sqrt'"):
        MiniBatch(schedule="linear")  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="L1 norm"):
        MiniBatch().start(linear(Margin(), encoded, y, l1=0.1), np.zeros(3), np.random.default_rng(0))


def test_divergence_is_told() -> None:
    class Exploding:
        l1 = l2 = 0.0
        dimension, n_examples, objective = 1, 1, Margin()

        def run_value_and_gradient(self, w: np.ndarray, first: int, last: int) -> tuple[float, np.ndarray]:
            return np.inf, np.ones(1)

    solution = minimise(MiniBatch(), Exploding(), np.zeros(1), max_iter=5, rng=np.random.default_rng(0))
    assert solution.n_iter == 1
    assert "lower the learning rate" in str(solution.status)
