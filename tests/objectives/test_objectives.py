"""Every objective of a chain problem, as training runs it, against brute force: values, gradients, ties,
constraints, partial labels.

The references here are written from the formulas, over all labellings of short chains; they share no code
with the kernels.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from objective_references import (
    EPSILON,
    EVERY,
    name_of,
    reference_coefficients,
    reference_value,
)
from scored_chains import value_and_gradient
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.losses.labelings import Hamming, Loss, SpanF1, WeightedHamming, ZeroOne
from trellis.objectives import Direct, Objective, Slack, get_objective, register
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.problem import objective_kernels as kernels
from trellis.structures.chain.scores.chain_scores import ChainParts, ChainScores

NOTHING = -np.inf
SMOOTH = [o for o in EVERY if o.smooth]
PATHS = [o for o in EVERY if o.two_labelings]
CONVEX = [o for o in EVERY if o.convex]


class Case:
    """A batch with its gold labels and loss, and the same written out: one row of numbers per sequence."""

    def __init__(self, scores: ChainScores, gold: EncodedLabels, loss: Loss, labels: LabelSet) -> None:
        self.scores, self.gold, self.loss, self.labels = scores, gold, loss, labels
        self.every = [Enumeration.of(scores, i) for i in range(scores.n_sequences)]
        self.losses, self.agree = [], []
        for i, every in enumerate(self.every):
            first, last = gold.offsets[i : i + 2]
            y, n = every.labellings, last - first
            known = np.eye(len(labels), dtype=bool)[gold.codes[first:last]]
            if gold.allowed is not None:
                known = np.where((gold.codes[first:last] < 0)[:, None], gold.allowed[first:last], known)
            agree = known[np.arange(n), y].all(axis=1)
            self.agree.append(agree)
            if loss.kind == "zero_one":
                self.losses.append(np.where(agree, 0.0, 1.0))
            else:
                table = loss.costs(gold, labels)[first:last]
                self.losses.append(table[np.arange(n), y].sum(axis=1))

    def with_scores(self, scores: ChainScores) -> Case:
        return Case(scores, self.gold, self.loss, self.labels)

    def ours(self, objective: Objective, **options: object) -> tuple[np.ndarray, ChainParts]:
        return value_and_gradient(objective, self.scores, self.gold, self.loss, self.labels, **options)  # type: ignore[arg-type]

    @property
    def feasible(self) -> bool:
        return all((e.scores[a] > NOTHING).any() for e, a in zip(self.every, self.agree, strict=True))


def random_case(
    seed: int,
    *,
    loss: str = "costs",
    shared: bool = True,
    partial: bool = False,
    forbidden: float = 0.0,
    ties: bool = False,
    lengths: tuple[int, ...] = (3, 0, 1, 4),
    k: int = 3,
    scale: float = 1.0,
) -> Case:
    rng = np.random.default_rng(seed)
    n = sum(lengths)

    def draw(*shape: int) -> np.ndarray:
        values = rng.integers(-2, 3, size=shape).astype(float) if ties else rng.normal(0, scale, size=shape)
        return np.where(rng.random(shape) < forbidden, NOTHING, values)

    scores = ChainScores.of(
        draw(n, k), draw(k, k) if shared else draw(n, k, k), draw(k), draw(k), lengths=lengths
    )
    labels = LabelSet(range(k))
    y: list[list[object]] = [[int(x) for x in rng.integers(k, size=m)] for m in lengths]
    if partial:
        for row in y:
            for t in range(len(row)):
                choice = rng.integers(4)
                if choice == 0:
                    row[t] = None
                elif choice == 1 and k > 1:
                    row[t] = {int(x) for x in rng.choice(k, size=rng.integers(1, k + 1), replace=False)}
    matrix = rng.integers(0, 4, size=(k, k)).astype(float) if ties else rng.uniform(0, 2, size=(k, k))
    np.fill_diagonal(matrix, 0.0)
    return Case(
        scores, labels.encode(y), ZeroOne() if loss == "zero_one" else WeightedHamming(matrix), labels
    )


@st.composite
def cases(draw: st.DrawFn, **fixed: object) -> Case:
    options: dict[str, object] = {
        "loss": draw(st.sampled_from(["costs", "zero_one"])),
        "shared": draw(st.booleans()),
        "partial": draw(st.booleans()),
        "forbidden": draw(st.sampled_from([0.0, 0.15, 0.3])),
        "ties": draw(st.booleans()),
        "lengths": tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))),
        "k": draw(st.integers(1, 3)),
        "scale": draw(st.sampled_from([1.0, 1.0, 300.0])),
    } | fixed
    case = random_case(draw(st.integers(0, 2**32 - 1)), **options)  # type: ignore[arg-type]
    assume(case.feasible)
    return case


def reference(case: Case, objective: Objective, i: int) -> float:
    """The value for sequence i, from the formula."""
    return reference_value(objective, case.every[i].scores, case.losses[i], case.agree[i])


def reference_gradient(case: Case, objective: Objective, i: int) -> ChainParts:
    """The gradient of a smooth objective, as a weighted sum of part indicators."""
    every = case.every[i]
    return every.parts(reference_coefficients(objective, every.scores, case.losses[i], case.agree[i]))


def total(parts: list[ChainParts], shared: bool) -> ChainParts:
    transitions = [p.transitions for p in parts]
    return ChainParts(
        np.concatenate([p.unary for p in parts]),
        np.sum(transitions, axis=0) if shared else np.concatenate(transitions),
        np.sum([p.start for p in parts], axis=0),
        np.sum([p.end for p in parts], axis=0),
    )


def assert_same_parts(ours: ChainParts, theirs: ChainParts, atol: float = 1e-9) -> None:
    for field in ("unary", "transitions", "start", "end"):
        np.testing.assert_allclose(
            getattr(ours, field), getattr(theirs, field), rtol=1e-9, atol=atol, err_msg=field
        )


@pytest.mark.parametrize("objective", [o for o in EVERY if o.name != "slack"], ids=name_of)
@given(case=cases())
def test_values_are_those_of_brute_force(objective: Objective, case: Case) -> None:
    values, _ = case.ours(objective)
    expected = [reference(case, objective, i) for i in range(len(values))]
    np.testing.assert_allclose(values, expected, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("objective", SMOOTH, ids=name_of)
@given(case=cases())
def test_smooth_gradients_are_those_of_brute_force(objective: Objective, case: Case) -> None:
    _, gradient = case.ours(objective)
    shared = case.scores.transitions.shape[0] == 1
    expected = [reference_gradient(case, objective, i) for i in range(case.scores.n_sequences)]
    assert_same_parts(gradient, total(expected, shared))


def moved(scores: ChainScores, by: ChainParts, step: float) -> ChainScores:
    """scores + step * by, with what is forbidden left forbidden."""
    return replace(
        scores,
        unary=scores.unary + step * by.unary,
        transitions=scores.transitions + step * by.transitions,
        start=scores.start + step * by.start,
        end=scores.end + step * by.end,
    )


def random_parts(scores: ChainScores, rng: np.random.Generator) -> ChainParts:
    shapes = (scores.unary, scores.transitions, scores.start, scores.end)
    return ChainParts(*(rng.normal(size=x.shape) for x in shapes))


def inner(a: ChainParts, b: ChainParts) -> float:
    return float(sum(np.sum(getattr(a, f) * getattr(b, f)) for f in ("unary", "transitions", "start", "end")))


@pytest.mark.parametrize("partial", [False, True], ids=["known", "partial"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per_step"])
@pytest.mark.parametrize("loss", ["costs", "zero_one"])
@pytest.mark.parametrize("objective", [o for o in EVERY if o.name not in ("direct", "slack")], ids=name_of)
def test_directional_derivatives(objective: Objective, loss: str, shared: bool, partial: bool) -> None:
    """Central differences; scores are continuous, so path objectives are linear nearby."""
    seed = 0
    for forbidden in (0.0, 0.1):
        case = random_case(seed, loss=loss, shared=shared, partial=partial, forbidden=forbidden)
        while not case.feasible:
            seed += 1
            case = random_case(seed, loss=loss, shared=shared, partial=partial, forbidden=forbidden)
        _, gradient = case.ours(objective)
        rng = np.random.default_rng(seed)
        for _ in range(3):
            by, step = random_parts(case.scores, rng), 1e-6
            up, down = (
                case.with_scores(moved(case.scores, by, sign * step)).ours(objective)[0].sum()
                for sign in (1, -1)
            )
            assert inner(gradient, by) == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("objective", [o for o in CONVEX if o.name != "slack"], ids=name_of)
@given(case=cases(partial=False, scale=1.0), seed=st.integers(0, 2**32 - 1))
def test_subgradient_inequality(objective: Objective, case: Case, seed: int) -> None:
    """f(s') >= f(s) + <g, s' - s>, at ties too."""
    values, gradient = case.ours(objective)
    by = random_parts(case.scores, np.random.default_rng(seed))
    for step in (0.01, 1.0, 30.0):
        there, _ = case.with_scores(moved(case.scores, by, step)).ours(objective)
        assert there.sum() >= values.sum() + step * inner(gradient, by) - 1e-8 * (1 + abs(there.sum()))


def attains(every: Enumeration, parts: ChainParts, score: np.ndarray, coefficient: float) -> bool:
    """``parts`` is coefficient * (1[up] - 1[down]) for maximisers up of score[0] and down of score[1]."""
    ups, downs = (np.flatnonzero(x >= x.max() - 1e-9) for x in score)
    for up in ups:
        for down in downs:
            weights = np.zeros(len(every.scores))
            weights[up] += coefficient
            weights[down] -= coefficient
            theirs = every.parts(weights)
            if all(
                np.allclose(getattr(theirs, f), getattr(parts, f), atol=1e-9)
                for f in ("unary", "transitions", "start", "end")
            ):
                return True
    return False


@pytest.mark.parametrize("objective", [o for o in PATHS if o.name != "slack"], ids=name_of)
@given(case=cases(lengths=(3,), ties=True))
def test_path_gradients_point_at_maximisers(objective: Objective, case: Case) -> None:
    """With ties: the gradient is a difference of two labellings that attain the two maxima of its formula."""
    _, gradient = case.ours(objective)
    every, L, agree = case.every[0], case.losses[0], case.agree[0]
    s = every.scores
    gold = np.where(agree, s, NOTHING)
    pairs = {
        "perceptron": (s, gold),
        "margin": (s + L, gold),
        "squared_margin": (s + L, gold),
        "half_margin": (s + 0.5 * L, gold),
        "ramp": (s + L, s),
        "squared_ramp": (s + L, s),
        "direct_better": (s, s - EPSILON * L),
        "direct_worse": (s + EPSILON * L, s),
        "direct_central": (s + EPSILON * L, s - EPSILON * L),
    }[name_of(objective)]
    coefficient = 1 / EPSILON if isinstance(objective, Direct) else 1.0
    coefficient /= 2 if name_of(objective) == "direct_central" else 1
    if objective.link == "square":
        coefficient = pairs[0].max() - pairs[1].max()
    assert attains(every, gradient, np.array(pairs), coefficient)


@given(case=cases(loss="costs"))
def test_slack_is_certified(case: Case) -> None:
    """Never above the true maximum, equal to it where the bound is 0, and value + bound is never below it."""
    values, _ = case.ours(get_objective("slack"))
    cost = case.loss.costs(case.gold, case.labels)
    shared = case.scores.transitions.shape[0] == 1
    for i, value in enumerate(values):
        lo, hi = case.gold.offsets[i : i + 2]
        n, k = hi - lo, case.scores.n_labels
        true = reference(case, get_objective("slack"), i)
        slip = 1e-8 * (1 + abs(true))
        assert value <= true + slip
        if n == 0:
            continue
        work = kernels.new_work(n, k, not shared)
        s = case.scores
        allowed = np.ones((n, k), dtype=bool) if case.gold.allowed is None else case.gold.allowed[lo:hi]
        again, coefficient = kernels.path_example(
            Slack().formula, kernels.COSTS, 1.0, s.unary[lo:hi],
            s.transitions if shared else s.transitions[lo:hi], s.start, s.end,
            case.gold.codes[lo:hi], bool(case.gold.ambiguous[i]), allowed, cost[lo:hi], work,
        )  # fmt: skip
        assert again == pytest.approx(value, abs=slip)
        bound = work.bound[0]
        assert bound >= 0
        assert value + bound >= true - slip
        if bound == 0:
            assert value == pytest.approx(true, abs=slip)
        # The value is that of the labelling it gives, and the coefficient is that labelling's loss.
        row = int(np.flatnonzero((case.every[i].labellings == work.up[:n]).all(axis=1))[0])
        gold_score = case.every[i].scores[case.agree[i]].max()
        assert coefficient == pytest.approx(case.losses[i][row])
        assert value == pytest.approx(coefficient * (1 + case.every[i].scores[row] - gold_score), abs=slip)


def test_slack_is_mostly_exact() -> None:
    """A search that found nothing would also be below the maximum: here it must find it nearly always."""
    exact = 0
    for seed in range(200):
        case = random_case(seed, lengths=(4,))
        exact += case.ours(get_objective("slack"))[0][0] >= reference(case, get_objective("slack"), 0) - 1e-9
    assert exact >= 180


@given(case=cases(loss="costs", partial=False, scale=1.0), seed=st.integers(0, 2**32 - 1))
def test_slack_plane_lies_below_the_true_maximum(case: Case, seed: int) -> None:
    """Even where the search is not exact, its plane is that of one labelling: a lower bound."""
    values, gradient = case.ours(get_objective("slack"))
    by = random_parts(case.scores, np.random.default_rng(seed))
    there = case.with_scores(moved(case.scores, by, 0.5))
    true = sum(reference(there, get_objective("slack"), i) for i in range(len(values)))
    assert true >= values.sum() + 0.5 * inner(gradient, by) - 1e-8 * (1 + abs(true))


@given(case=cases(loss="zero_one", partial=False))
def test_zero_one_margin_is_best_different(case: Case) -> None:
    """max(s*, 1 + best different) - s*; slack rescaling is the same."""
    values, _ = case.ours(get_objective("margin"))
    slack, _ = case.ours(get_objective("slack"))
    np.testing.assert_array_equal(values, slack)
    for i, value in enumerate(values):
        gold = case.gold.codes[case.gold.offsets[i] : case.gold.offsets[i + 1]]
        every = case.every[i]
        star = every.scores[case.agree[i]][0]
        other = every.best_different(gold)[1]
        assert value == pytest.approx(max(star, 1 + other) - star, abs=1e-9)


@pytest.mark.parametrize("objective", EVERY, ids=name_of)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per_step"])
def test_threads_change_nothing(objective: Objective, shared: bool) -> None:
    case = random_case(3, shared=shared, partial=True, lengths=(3, 5, 0, 1, 4, 2))
    values, gradient = case.ours(objective)
    again, parts = case.ours(objective, n_jobs=2)
    np.testing.assert_array_equal(values, again)
    assert_same_parts(gradient, parts, atol=1e-12)


@pytest.mark.parametrize("objective", EVERY, ids=name_of)
@pytest.mark.parametrize("loss", [Hamming(), ZeroOne()], ids=name_of)
def test_infeasible_sequences_are_named(objective: Objective, loss: Loss) -> None:
    labels = LabelSet("ab")
    unary = np.zeros((5, 2))
    unary[3] = NOTHING
    scores = ChainScores.of(unary, np.zeros((2, 2)), lengths=[2, 0, 3])
    gold = labels.encode([["a", "b"], [], ["a", "b", "a"]])
    with pytest.raises(InfeasibleError, match="sequence 2 has no allowed labelling"):
        value_and_gradient(objective, scores, gold, loss, labels)


@pytest.mark.parametrize("name", ["perceptron", "margin", "squared_margin", "slack", "log", "softmax_margin"])
def test_forbidden_gold_is_named(name: str) -> None:
    labels = LabelSet("ab")
    scores = ChainScores.of(np.zeros((4, 2)), [[0, NOTHING], [0, 0]], lengths=[2, 2])
    for loss in (Hamming(), ZeroOne()):
        for y in ([["b", "a"], ["a", "b"]], [["b", None], [{"a"}, "b"]]):
            with pytest.raises(InfeasibleError, match=r"sequence 1 .*gold labelling is not allowed"):
                value_and_gradient(name, scores, labels.encode(y), loss, labels)


def test_direct_needs_no_feasible_gold() -> None:
    """The loss of the prediction is there whatever the model can reach."""
    labels = LabelSet("ab")
    scores = ChainScores.of(np.zeros((2, 2)), [[0, NOTHING], [0, 0]])
    gold = labels.encode([["a", "b"]])
    for objective, expected in ((Direct(1.0, sign="better"), 1.0), (Direct(1.0), 1.5)):
        values, _ = value_and_gradient(objective, scores, gold, "hamming", labels)
        assert values.tolist() == [expected]


def test_unusable_input_is_refused() -> None:
    labels = LabelSet("ab")
    scores = ChainScores.of(np.zeros((3, 2)), np.zeros((2, 2)))
    gold = labels.encode([["a", "b", "a"]])
    with pytest.raises(UnsupportedError, match=r"not a sum over steps.*CandidateProblem"):
        value_and_gradient("margin", scores, gold, SpanF1(), labels)
    value_and_gradient("log", scores, gold, SpanF1(), labels)  # looks at no loss
    with pytest.raises(UnsupportedError, match="schedule"):
        value_and_gradient(Direct(epsilon="decay"), scores, gold, "hamming", labels)
    value_and_gradient(Direct(epsilon="decay"), scores, gold, "hamming", labels, epsilon=0.5)
    with pytest.raises(DataError, match="must be positive"):
        value_and_gradient("direct", scores, gold, "hamming", labels, epsilon=0.0)


def test_flags_follow_from_the_formula() -> None:
    """By name, so that a change of a flag is a change of this table."""
    flags = {o.name: (o.convex, o.piecewise_linear, o.smooth, o.two_labelings, o.uses_loss) for o in EVERY}
    T, F = True, False
    assert flags == {
        "perceptron": (T, T, F, T, F),
        "margin": (T, T, F, T, T),
        "squared_margin": (T, F, F, T, T),
        "slack": (T, T, F, T, T),
        "log": (T, F, T, F, F),
        "softmax_margin": (T, F, T, F, T),
        "ramp": (F, F, F, T, T),
        "direct": (F, F, F, T, T),
        "risk": (F, F, T, F, T),
        "half_margin": (T, T, F, T, T),
        "soft_ramp": (F, F, F, F, T),
        "squared_log": (T, F, T, F, T),
        "squared_ramp": (F, F, F, T, T),
    }


@pytest.mark.parametrize("objective", [o for o in EVERY if o.convex and o.name != "slack"], ids=name_of)
def test_piecewise_linear_means_linear_near_almost_every_point(objective: Objective) -> None:
    """The second difference along a line vanishes for maxima of affine functions, and only for them."""
    case = random_case(5, lengths=(4,))
    by, step = random_parts(case.scores, np.random.default_rng(0)), 1e-3
    before, here, after = (
        case.with_scores(moved(case.scores, by, x * step)).ours(objective)[0][0] for x in (-1, 0, 1)
    )
    bend = (before - 2 * here + after) / step**2
    assert (abs(bend) < 1e-6) == objective.piecewise_linear


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"name": "odd", "total": "mean"},
            "objective 'odd' has total='mean'; choose one of 'max', 'sum'",
        ),
        ({"name": "odd", "link": "cube"}, "choose one of 'identity', 'square'"),
        ({"name": "odd", "baseline": None}, "choose one of 'gold', 'best'"),
        ({"name": "odd", "special": "mine"}, "choose one of '', 'slack'"),
        ({"name": "odd", "loss_scale": float("nan")}, "loss_scale=nan"),
        ({}, "the objective Odd has no name"),
    ],
)
def test_a_record_that_no_reader_knows_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        type("Odd", (Objective,), fields)()


def test_names() -> None:
    with pytest.raises(DataError, match=r"objective='hinge' is not known; choose one of perceptron, margin"):
        get_objective("hinge")
    with pytest.raises(DataError, match="an objective named 'margin' already exists"):
        register(type("Margin", (Objective,), {"name": "margin"}))
