"""Every oracle of the chain against brute force: shapes, ties, forbidden parts, scores of any size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from trellis.core.errors import DataError, InfeasibleError
from trellis.core.shards import n_threads
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.exhaustive import Enumeration
from trellis.structures.chain.scores.chain_scores import ChainScores

CHAIN = Chain()
NOTHING = -np.inf


def random_scores(
    rng: np.random.Generator, lengths: list[int], k: int, *, shared: bool, kind: str, forbidden: float = 0.0
) -> ChainScores:
    """Scores of a batch: ``ties`` (small whole numbers), ``smooth`` (normal), ``huge`` (up to +-1e4), or
    ``largest``, ``smallest`` and ``subnormal``: multiples of 2^996 (7e299), 2^-1022 and 2^-1074, whose sums
    are exact in any order, so that enumeration is."""
    units = {"ties": 1.0, "largest": 2.0**996, "smallest": 2.0**-1022, "subnormal": 2.0**-1074}

    def draw(*shape: int) -> np.ndarray:
        if kind in units:
            values = units[kind] * rng.integers(-1, 2, size=shape).astype(float)
        else:
            values = rng.normal(size=shape) if kind == "smooth" else rng.uniform(-1e4, 1e4, size=shape)
        return np.where(rng.random(shape) < forbidden, NOTHING, values)

    n = sum(lengths)
    transitions = draw(k, k) if shared else draw(n, k, k)
    return ChainScores.of(draw(n, k), transitions, draw(k), draw(k), lengths=lengths)


@st.composite
def batches(draw: st.DrawFn, feasible: bool = True) -> ChainScores:
    """One to three sequences of 0 to 5 steps, 1 to 3 labels; ``feasible``: each has an allowed labelling."""
    scores = random_scores(
        np.random.default_rng(draw(st.integers(0, 2**32 - 1))),
        draw(st.lists(st.integers(0, 5), min_size=1, max_size=3)),
        draw(st.integers(1, 3)),
        shared=draw(st.booleans()),
        kind=draw(st.sampled_from(["ties", "smooth", "huge", "largest", "smallest", "subnormal"])),
        forbidden=draw(st.sampled_from([0.0, 0.15, 0.4])),
    )
    if feasible:
        assume(all((every.scores > NOTHING).any() for every in enumerations(scores)))
    return scores


def probable_batches() -> st.SearchStrategy[ChainScores]:
    """Batches whose p is well defined: next to scores of 1e300 the logarithm of a number of labellings is
    lost, so there one of them must be the best alone (for others, see the test of valid distributions)."""

    def well_defined(scores: ChainScores) -> bool:
        size = np.abs(scores.unary[scores.unary > NOTHING]).max(initial=0.0)
        best = [np.sum(every.scores == every.scores.max()) for every in enumerations(scores)]
        return bool(size < 1e290) or best == [1] * len(best)

    return batches().filter(well_defined)


def enumerations(scores: ChainScores) -> list[Enumeration]:
    return [Enumeration.of(scores, i) for i in range(scores.n_sequences)]


def split(scores: ChainScores, values: np.ndarray) -> list[np.ndarray]:
    return np.split(values, scores.offsets[1:-1], axis=-1)


def close(ours: object, reference: object, size: float = 0.0) -> None:
    """Equal to rounding, relative to the size of the numbers; infinities and NaNs must match exactly.

    ``size``: that of the scores that were added up, which may cancel and leave a small sum."""
    np.testing.assert_allclose(ours, reference, rtol=1e-11, atol=max(1e-9, 1e-14 * size))


def size_of_scores(scores: ChainScores) -> float:
    parts = np.concatenate(
        [part.ravel() for part in (scores.unary, scores.transitions, scores.start, scores.end)]
    )
    return float(np.abs(parts[np.isfinite(parts)]).max(initial=0.0))


@given(batches())
def test_best(scores: ChainScores) -> None:
    found = CHAIN.best(scores)
    assert found.labels.dtype == np.int32
    for every, labels, score in zip(
        enumerations(scores), split(scores, found.labels), found.scores, strict=True
    ):
        expected, value = every.best()
        np.testing.assert_array_equal(labels, expected)
        close(score, value)


@given(batches(feasible=False), st.integers(0, 2**32 - 1))
def test_score_of_given_labels(scores: ChainScores, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, scores.n_labels, len(scores.unary))
    ours = CHAIN.score(scores, labels)
    for every, y, score in zip(enumerations(scores), split(scores, labels), ours, strict=True):
        close(score, every.scores[np.all(every.labellings == y, axis=1)][0])


@given(batches(), st.integers(1, 12))
def test_k_best(scores: ChainScores, k: int) -> None:
    ranked = CHAIN.k_best(scores, k)
    assert ranked.labels.shape == (k, len(scores.unary))
    rows = zip(enumerations(scores), split(scores, ranked.labels), ranked.scores, ranked.counts, strict=True)
    for every, labels, values, count in rows:
        expected, reference = every.k_best(k)
        assert count == len(reference)
        close(values[:count], reference)
        assert np.all(values[count:] == NOTHING)
        np.testing.assert_array_equal(labels[:count], expected)
        assert np.all(labels[count:] == -1)


@given(batches(feasible=False), st.integers(0, 2**32 - 1), st.booleans())
def test_best_different(scores: ChainScores, seed: int, from_best: bool) -> None:
    given_labels = (
        np.random.default_rng(seed).integers(0, scores.n_labels, len(scores.unary)).astype(np.int32)
    )
    if from_best and all((every.scores > NOTHING).any() for every in enumerations(scores)):
        given_labels = CHAIN.best(scores).labels
    found = CHAIN.best_different(scores, given_labels)
    rows = zip(
        enumerations(scores),
        split(scores, given_labels),
        split(scores, found.labels),
        found.scores,
        strict=True,
    )
    for every, y, labels, score in rows:
        expected, value = every.best_different(y)
        close(score, value)
        np.testing.assert_array_equal(labels, expected if value > NOTHING else -1)


@given(probable_batches())
def test_log_partition_and_marginals(scores: ChainScores) -> None:
    ours = CHAIN.marginals(scores)
    sums = [every.log_partition() for every in enumerations(scores)]
    close(ours.log_partition, sums, size_of_scores(scores))
    close(CHAIN.log_partition(scores), ours.log_partition)
    per_step = CHAIN.marginals(scores, per_step=True).transitions
    references = [every.marginals(per_step=True) for every in enumerations(scores)]
    close(ours.unary, np.concatenate([part.unary for part in references]))
    close(ours.start, np.sum([part.start for part in references], axis=0))
    close(ours.end, np.sum([part.end for part in references], axis=0))
    pairs = np.concatenate([part.transitions for part in references])
    close(per_step, pairs)
    if scores.transitions.shape[0] == 1:
        assert ours.transitions.shape == (1, scores.n_labels, scores.n_labels)
        close(ours.transitions, pairs.sum(axis=0, keepdims=True))
    else:
        close(ours.transitions, pairs)
    close(CHAIN.entropy(scores), [every.entropy() for every in enumerations(scores)])


@given(probable_batches(), st.integers(0, 2**32 - 1))
def test_expected_loss(scores: ChainScores, seed: int) -> None:
    cost = np.random.default_rng(seed).normal(size=scores.unary.shape)
    ours = CHAIN.expected_loss(scores, cost)
    costs = np.split(cost, scores.offsets[1:-1])
    references = [every.expected_loss(c) for every, c in zip(enumerations(scores), costs, strict=True)]
    close(ours.values, [value for value, _ in references])
    parts = [part for _, part in references]
    close(ours.gradient.unary, np.concatenate([part.unary for part in parts]))
    close(ours.gradient.start, np.sum([part.start for part in parts], axis=0))
    close(ours.gradient.end, np.sum([part.end for part in parts], axis=0))
    shared = scores.transitions.shape[0] == 1
    transitions = [part.transitions for part in parts]
    close(ours.gradient.transitions, np.sum(transitions, axis=0) if shared else np.concatenate(transitions))


@given(probable_batches(), st.none() | st.integers(0, 2**32 - 1))
def test_minimum_risk_is_the_best_of_the_allowed_labellings(scores: ChainScores, seed: int | None) -> None:
    """By the expected Hamming loss, and by any table of risks (small whole numbers: with ties)."""
    risk = None
    if seed is not None:
        risk = np.random.default_rng(seed).integers(-2, 3, size=scores.unary.shape).astype(float)
    found = CHAIN.minimum_risk(scores, risk)
    assert found.dtype == np.int32
    tables = [None] * scores.n_sequences if risk is None else np.split(risk, scores.offsets[1:-1])
    for every, labels, table in zip(enumerations(scores), split(scores, found), tables, strict=True):
        p, allowed = every.probabilities(), every.scores > NOTHING
        if table is None:  # E[number of steps where y' differs], written out
            risks = (every.labellings[:, None] != every.labellings[None]).sum(axis=2) @ p
        else:
            risks = table[np.arange(len(table)), every.labellings].sum(axis=1)
        mine = np.all(every.labellings == labels, axis=1)
        assert allowed[mine].all()
        close(risks[mine][0], risks[allowed].min())
        if table is not None:  # sums of whole numbers are exact, so the tie rule decides
            first = np.flatnonzero(allowed & (risks == risks[allowed].min()))[0]
            np.testing.assert_array_equal(labels, every.labellings[first])


@given(batches())
def test_minimum_risk_without_constraints_takes_the_most_probable_label_of_each_step(
    scores: ChainScores,
) -> None:
    assume(all((part > NOTHING).all() for part in (scores.transitions, scores.start, scores.end)))
    unary = CHAIN.marginals(scores).unary
    np.testing.assert_array_equal(CHAIN.minimum_risk(scores), unary.argmax(axis=1))


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.booleans(), st.sampled_from([0.0, 0.3]))
def test_scores_near_the_largest_number_give_valid_distributions(
    seed: int, k: int, shared: bool, forbidden: float
) -> None:
    """Over the best labellings, and over no others."""
    rng = np.random.default_rng(seed)
    scores = random_scores(rng, [3], k, shared=shared, kind="largest", forbidden=forbidden)
    (every,) = enumerations(scores)
    assume((every.scores > NOTHING).any())
    best = every.labellings[every.scores == every.scores.max()]
    marginals = CHAIN.marginals(scores)
    close(marginals.log_partition, [every.scores.max()], size_of_scores(scores))
    close(marginals.unary.sum(axis=1), np.ones(3))
    ever = (best[:, :, None] == np.arange(k)).any(axis=0)
    np.testing.assert_array_equal(marginals.unary > 0, ever)
    for labels in CHAIN.sample(scores, 5, rng):
        assert (best == labels).all(axis=1).any()
    assert -1e-12 <= CHAIN.entropy(scores)[0] <= np.log(len(best)) + 1e-12
    cost = rng.normal(size=(3, k))
    risk = CHAIN.expected_loss(scores, cost)
    close(risk.values, [np.sum(marginals.unary * cost)])
    close(risk.gradient.unary.sum(axis=1), np.zeros(3))


@pytest.mark.parametrize("shared", [True, False])
def test_gradient_of_the_log_partition_is_the_marginals(shared: bool) -> None:
    scores = random_scores(
        np.random.default_rng(5), [3, 1, 4], 3, shared=shared, kind="smooth", forbidden=0.1
    )
    marginals = CHAIN.marginals(scores)
    h = 1e-5
    for name in ("unary", "transitions", "start", "end"):
        values, gradient = getattr(scores, name), getattr(marginals, name)
        for index in np.ndindex(values.shape):
            if values[index] == NOTHING:
                assert gradient[index] == 0.0
                continue
            sides = []
            for sign in (1, -1):
                moved = values.copy()
                moved[index] += sign * h
                sides.append(CHAIN.log_partition(replace(scores, **{name: moved})).sum())
            assert gradient[index] == pytest.approx((sides[0] - sides[1]) / (2 * h), abs=1e-7)


@pytest.mark.parametrize("shared", [True, False])
def test_samples_follow_the_distribution(shared: bool) -> None:
    scores = random_scores(np.random.default_rng(2), [3, 2], 3, shared=shared, kind="smooth", forbidden=0.1)
    m = 20_000
    drawn = CHAIN.sample(scores, m, np.random.default_rng(7))
    assert drawn.shape == (m, 5)
    for every, labels in zip(enumerations(scores), split(scores, drawn), strict=True):
        place = scores.n_labels ** np.arange(labels.shape[1])
        counts = np.bincount(labels @ place, minlength=len(every.scores))
        p = every.probabilities()
        assert not counts[p == 0].any()
        usual = p * m >= 5
        observed = np.append(counts[usual], counts[~usual].sum())
        expected = np.append(p[usual], p[~usual].sum()) * m
        assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > 1e-3


@given(batches())
def test_samples_are_allowed(scores: ChainScores) -> None:
    for labels in CHAIN.sample(scores, 3, np.random.default_rng(0)):
        assert np.all(CHAIN.score(scores, labels) > NOTHING)


@given(batches(), st.integers(0, 2**32 - 1))
def test_allowed_sets_of_labels(scores: ChainScores, seed: int) -> None:
    """Partial labels: the log-partition over the allowed labellings is that of the restricted scores."""
    allowed = np.random.default_rng(seed).random(scores.unary.shape) < 0.7
    for i, (every, mask) in enumerate(
        zip(enumerations(scores), np.split(allowed, scores.offsets[1:-1]), strict=True)
    ):
        inside = mask[np.arange(len(mask)), every.labellings].all(axis=1)
        values = every.scores[inside & (every.scores > NOTHING)]
        one = Enumeration.of(scores, i).chain.restricted(mask)
        if values.size:
            close(CHAIN.log_partition(one), [np.logaddexp.reduce(values)], size_of_scores(scores))
            close(CHAIN.best(one).scores, [values.max()])
        else:
            with pytest.raises(InfeasibleError):
                CHAIN.best(one)


def test_a_sequence_without_labelling_is_named() -> None:
    unary = np.zeros((5, 2))
    unary[3] = NOTHING
    dead_label = ChainScores.of(unary, np.zeros((2, 2)), lengths=[2, 1, 2])
    dead_end = ChainScores.of([[0.0, NOTHING], [NOTHING, 0.0]], [[0.0, NOTHING], [0.0, 0.0]])
    no_end = ChainScores.of(np.zeros((1, 2)), np.zeros((2, 2)), end=[NOTHING, NOTHING])
    for scores, index in ((dead_label, 2), (dead_end, 0), (no_end, 0)):
        cost = np.zeros_like(scores.unary)
        questions = [
            lambda s: CHAIN.best(s),
            lambda s: CHAIN.k_best(s, 2),
            lambda s: CHAIN.log_partition(s),
            lambda s: CHAIN.marginals(s),
            lambda s: CHAIN.marginals(s, per_step=True),
            lambda s: CHAIN.entropy(s),
            lambda s: CHAIN.minimum_risk(s),
            lambda s: CHAIN.sample(s, 2, np.random.default_rng(0)),
            lambda s, cost=cost: CHAIN.expected_loss(s, cost),
        ]
        for ask in questions:
            with pytest.raises(InfeasibleError, match=f"sequence {index} has no allowed labelling"):
                ask(scores)


def test_empty_sequences_and_an_empty_batch() -> None:
    for lengths in ([0], [0, 0], []):
        scores = ChainScores.of(np.zeros((0, 2)), np.zeros((2, 2)), lengths=np.array(lengths, dtype=int))
        zeros = np.zeros(len(lengths))
        np.testing.assert_array_equal(CHAIN.best(scores).scores, zeros)
        np.testing.assert_array_equal(CHAIN.log_partition(scores), zeros)
        np.testing.assert_array_equal(CHAIN.marginals(scores).transitions, np.zeros((1, 2, 2)))
        np.testing.assert_array_equal(CHAIN.entropy(scores), zeros)
        np.testing.assert_array_equal(CHAIN.k_best(scores, 2).counts, zeros + 1)
        np.testing.assert_array_equal(CHAIN.best_different(scores, []).scores, zeros + NOTHING)
        assert CHAIN.sample(scores, 3, np.random.default_rng(0)).shape == (3, 0)


@pytest.mark.parametrize("shared", [True, False])
def test_threads_give_the_same_numbers(shared: bool) -> None:
    rng = np.random.default_rng(11)
    scores = random_scores(rng, rng.integers(0, 9, 40).tolist(), 4, shared=shared, kind="smooth")
    cost = rng.normal(size=scores.unary.shape)
    labels = rng.integers(0, 4, len(scores.unary))
    one, many = Chain(n_jobs=1), Chain(n_jobs=3)
    for ask in (
        lambda chain: chain.score(scores, labels),
        lambda chain: chain.best(scores).labels,
        lambda chain: chain.k_best(scores, 3).labels,
        lambda chain: chain.best_different(scores, labels).labels,
        lambda chain: chain.log_partition(scores),
        lambda chain: chain.entropy(scores),
        lambda chain: chain.marginals(scores).unary,
        lambda chain: chain.marginals(scores, per_step=True).transitions,
        lambda chain: chain.expected_loss(scores, cost).values,
        lambda chain: chain.sample(scores, 2, np.random.default_rng(3)),
    ):
        np.testing.assert_array_equal(ask(one), ask(many))
    # What is summed over the batch is added up in another order.
    close(many.marginals(scores).transitions, one.marginals(scores).transitions)
    close(
        many.expected_loss(scores, cost).gradient.transitions,
        one.expected_loss(scores, cost).gradient.transitions,
    )


def test_a_million_steps_of_the_largest_scores() -> None:
    """Steps that do not depend on each other but for one forbidden pair, which the best labels avoid."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    unary = 2.0**996 * rng.integers(-9, 10, size=(n, 3)).astype(float)
    scores = ChainScores.of(unary, np.zeros((3, 3)))
    top = unary.max(axis=1, keepdims=True)
    p = (unary == top) / (unary == top).sum(axis=1, keepdims=True)
    found = CHAIN.best(scores)
    np.testing.assert_array_equal(found.labels, unary.argmax(axis=1))
    np.testing.assert_allclose(found.scores, [top.sum()], rtol=1e-12)
    np.testing.assert_allclose(CHAIN.log_partition(scores), [top.sum()], rtol=1e-12)
    np.testing.assert_allclose(CHAIN.marginals(scores).unary, p, atol=1e-12)
    np.testing.assert_array_equal(CHAIN.minimum_risk(scores), unary.argmax(axis=1))
    legal = ChainScores.of(unary, [[0.0, NOTHING, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for labels in (CHAIN.best(legal).labels, CHAIN.minimum_risk(legal)):
        assert not ((labels[:-1] == 0) & (labels[1:] == 1)).any()


@pytest.mark.parametrize("size", [30.0, 1e4])
def test_a_million_steps_that_do_not_depend_on_each_other(size: float) -> None:
    """With equal transitions the steps are independent, so every oracle has a closed form."""
    n = 1_000_000
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(n, 2)) * size
    scores = ChainScores.of(unary, np.full((2, 2), -7.0))
    steps = np.logaddexp(unary[:, 0], unary[:, 1])
    p = np.exp(unary - steps[:, None])
    arcs = -7.0 * (n - 1)
    np.testing.assert_allclose(CHAIN.log_partition(scores), [steps.sum() + arcs], rtol=1e-11)
    found = CHAIN.best(scores)
    np.testing.assert_array_equal(found.labels, unary.argmax(axis=1))
    np.testing.assert_allclose(found.scores, [unary.max(axis=1).sum() + arcs], rtol=1e-11)
    np.testing.assert_allclose(CHAIN.marginals(scores).unary, p, atol=1e-9)
    np.testing.assert_array_equal(CHAIN.minimum_risk(scores), unary.argmax(axis=1))
    entropy = np.sum(steps - np.sum(p * unary, axis=1))
    np.testing.assert_allclose(CHAIN.entropy(scores), [entropy], rtol=1e-8)
    cost = rng.normal(size=(n, 2))
    risk = CHAIN.expected_loss(scores, cost)
    np.testing.assert_allclose(risk.values, [np.sum(p * cost)], rtol=1e-9)
    mean = np.sum(p * cost, axis=1, keepdims=True)
    np.testing.assert_allclose(risk.gradient.unary, p * (cost - mean), atol=1e-9)
    gap = np.abs(unary[:, 0] - unary[:, 1])
    second = CHAIN.best_different(scores, found.labels)
    assert np.flatnonzero(second.labels != found.labels).tolist() == [int(gap.argmin())]


def test_a_million_steps_of_one_label() -> None:
    unary = np.random.default_rng(1).uniform(-1e4, 1e4, size=(1_000_000, 1))
    scores = ChainScores.of(unary, [[1e4]], [3.0], [-4.0])
    total = unary.sum() + 1e4 * (len(unary) - 1) - 1.0
    np.testing.assert_allclose(CHAIN.log_partition(scores), [total], rtol=1e-12)
    np.testing.assert_allclose(CHAIN.best(scores).scores, [total], rtol=1e-12)
    assert CHAIN.entropy(scores).tolist() == [0.0]
    assert CHAIN.best_different(scores, np.zeros(len(unary), dtype=int)).scores.tolist() == [NOTHING]


def test_a_path_far_below_the_others_that_alone_survives() -> None:
    """Label 1 is 1e4 below label 0 at every step, but only label 1 may end and no label may change."""
    stay = [[0.0, NOTHING], [NOTHING, 0.0]]
    unary = np.tile([[0.0, -1e4]], (50, 1))
    scores = ChainScores.of(unary, stay, end=[NOTHING, 0.0])
    close(CHAIN.log_partition(scores), [-50e4])
    close(CHAIN.marginals(scores).unary[:, 1], np.ones(50))
    close(CHAIN.entropy(scores), [0.0])
    assert CHAIN.sample(scores, 1, np.random.default_rng(0)).tolist() == [[1] * 50]
    assert CHAIN.minimum_risk(scores).tolist() == [1] * 50
    close(CHAIN.expected_loss(scores, np.ones((50, 2))).values, [50.0])


def test_paths_at_the_edge_of_underflow_keep_their_ratio() -> None:
    """The paths that survive weigh exp(-740) of a dead one: a subnormal number, with few bits of its own."""
    unary = [[0.0, -740.0, -741.0], [0.0, 0.0, 0.0]]
    into_two = [[NOTHING] * 3, [NOTHING, NOTHING, 0.0], [NOTHING, NOTHING, 0.0]]
    scores = ChainScores.of(unary, into_two)
    every = Enumeration.of(scores)
    close(CHAIN.marginals(scores).unary, every.marginals().unary)
    close(CHAIN.entropy(scores), [every.entropy()])
    cost = np.arange(6.0).reshape(2, 3)
    close(CHAIN.expected_loss(scores, cost).gradient.unary, every.expected_loss(cost)[1].unary)


def test_bad_arguments_are_named() -> None:
    scores = ChainScores.of(np.zeros((3, 2)), np.zeros((2, 2)), lengths=[1, 2])
    with pytest.raises(DataError, match=r"labels have shape \(2,\).*\(3,\)"):
        CHAIN.score(scores, [0, 1])
    with pytest.raises(DataError, match=r"label 2 at step 1 of sequence 1.*from 0 to 1"):
        CHAIN.score(scores, [0, 1, 2])
    with pytest.raises(DataError, match="label -1 at step 0 of sequence 0"):
        CHAIN.best_different(scores, [-1, 0, 0])
    with pytest.raises(DataError, match="whole numbers"):
        CHAIN.score(scores, [0.0, 1.0, 1.0])
    with pytest.raises(DataError, match="costs have shape"):
        CHAIN.expected_loss(scores, np.zeros((2, 2)))
    with pytest.raises(DataError, match=r"costs contain inf at \(1, 0\)"):
        CHAIN.expected_loss(scores, np.array([[0, 0], [np.inf, 0], [0, 0]]))
    with pytest.raises(DataError, match="k is 0"):
        CHAIN.k_best(scores, 0)
    with pytest.raises(DataError, match="n_samples is -1"):
        CHAIN.sample(scores, -1, np.random.default_rng(0))
    with pytest.raises(DataError, match="n_jobs is 0"):
        Chain(n_jobs=0).best(scores)
    assert n_threads(-1) >= 1


@pytest.mark.parametrize("kind", ["ties", "huge"])
@pytest.mark.parametrize("k", [1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33])
def test_few_labels_have_a_viterbi_of_their_own_with_the_same_bits(k: int, kind: str) -> None:
    """Per-step transitions take the general kernel, shared ones that of few labels."""
    rng = np.random.default_rng(k)
    lengths = [40, 0, 1, 2, 7]
    for forbidden in (0.0, 0.2 if k > 6 else 0.0):
        shared = random_scores(rng, lengths, k, shared=True, kind=kind, forbidden=forbidden)
        per_step = replace(shared, transitions=np.tile(shared.transitions, (len(shared.unary), 1, 1)))
        found, expected = CHAIN.best(shared), CHAIN.best(per_step)
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(found.scores, expected.scores)
