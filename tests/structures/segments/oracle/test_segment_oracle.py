"""The oracle of segmentations against all paths of small graphs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from small_segments import all_paths, random_features, random_graph, random_scores, score_by_hand
from trellis.core.errors import DataError, InfeasibleError
from trellis.structures.segments.oracle.segment_kernels import plain_forward
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.oracle.segment_pair_kernels import pair_max, pair_sum
from trellis.structures.segments.scores.segment_scores import (
    SegmentFeatures,
    SegmentGraph,
    SegmentPath,
    SegmentScores,
)

KINDS = st.sampled_from(["chain", "lattice", "dag"])
RATES = st.sampled_from([0.0, 0.3, 5.0, -0.3, -5.0])
oracle = Segmentation()


def drawn(
    seed: int, kind: str, rate: float, ties: bool, holes: bool
) -> tuple[SegmentScores, list[SegmentPath], np.ndarray]:
    """Scores, all paths, and the paths' scores by hand."""
    rng = np.random.default_rng(seed)
    graph = random_graph(kind, rng)
    n_frames = int(rng.integers(2, 9))
    paths = all_paths(graph, n_frames)
    assume(paths)
    scores = random_scores(graph, n_frames, rate, rng, ties=ties, holes=holes)
    values = np.array([score_by_hand(scores, path) for path in paths])
    assume(values.max() > -np.inf)
    return scores, paths, values


@given(seed=st.integers(0, 100_000), kind=KINDS, rate=RATES, ties=st.booleans(), holes=st.booleans())
def test_the_best_path_against_all_paths(seed: int, kind: str, rate: float, ties: bool, holes: bool) -> None:
    scores, _, values = drawn(seed, kind, rate, ties, holes)
    best = oracle.best(scores)
    assert best.score == pytest.approx(values.max(), abs=1e-10)
    assert score_by_hand(scores, best) == pytest.approx(best.score, abs=1e-10)
    assert oracle.score(scores, best) == best.score  # which also checks that the graph allows it


@given(seed=st.integers(0, 100_000), kind=KINDS, rate=RATES, sign=st.sampled_from([-1.0, 2.5]))
def test_loss_adjusted_inference(seed: int, kind: str, rate: float, sign: float) -> None:
    scores, paths, values = drawn(seed, kind, rate, False, False)
    bonus = sign * np.random.default_rng(seed).random(scores.boundary.shape)
    adjusted = values + [bonus[path.nodes, path.starts].sum() for path in paths]
    best = oracle.best(scores, bonus)
    assert best.score == pytest.approx(adjusted.max(), abs=1e-10)
    k = next(k for k, p in enumerate(paths) if same(p, best))
    assert adjusted[k] == pytest.approx(adjusted.max(), abs=1e-10)


def same(a: SegmentPath, b: SegmentPath) -> bool:
    return a.nodes.tolist() == b.nodes.tolist() and a.starts.tolist() == b.starts.tolist()


@given(seed=st.integers(0, 100_000), kind=KINDS, rate=RATES, ties=st.booleans(), holes=st.booleans())
def test_log_partition_and_expected_parts(seed: int, kind: str, rate: float, ties: bool, holes: bool) -> None:
    scores, paths, values = drawn(seed, kind, rate, ties, holes)
    marginals = oracle.marginals(scores)
    total = logsumexp(values)
    assert marginals.log_partition == pytest.approx(total, abs=1e-9)
    assert oracle.log_partition(scores) == pytest.approx(total, abs=1e-9)
    starts, ends = np.zeros_like(scores.prefix), np.zeros_like(scores.prefix)
    lengths, change = np.zeros_like(scores.duration), 0.0
    for path, p in zip(paths, np.exp(values - total), strict=True):
        starts[path.nodes, path.starts] += p
        ends[path.nodes, path.ends] += p
        lengths[path.nodes, path.lengths] += p
        change += p * path.squared_rate_change(scores.graph)
    np.testing.assert_allclose(marginals.parts.starts, starts, atol=1e-10)
    np.testing.assert_allclose(marginals.parts.ends, ends, atol=1e-10)
    np.testing.assert_allclose(marginals.parts.lengths, lengths, atol=1e-10)
    assert marginals.parts.squared_rate_change == pytest.approx(change, rel=1e-9, abs=1e-10)


@given(
    seed=st.integers(0, 100_000),
    kind=KINDS,
    rate=RATES,
    holes=st.booleans(),
    apart=st.integers(0, 2),
    largest=st.sampled_from([np.inf, 1.0]),
)
def test_gaps_to_the_best_alternative(
    seed: int, kind: str, rate: float, holes: bool, apart: int, largest: float
) -> None:
    scores, paths, values = drawn(seed, kind, rate, False, holes)
    best = oracle.best(scores)
    gaps = oracle.gaps(scores, best, apart, largest)
    for k, (node, start) in enumerate(zip(best.nodes, best.starts, strict=True)):
        others = [
            value
            for path, value in zip(paths, values, strict=True)
            if not any(
                n == node and abs(s - start) <= apart for n, s in zip(path.nodes, path.starts, strict=True)
            )
        ]
        expected = min(best.score - max(others, default=-np.inf), largest)
        assert gaps[k] == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20)
@given(
    seed=st.integers(0, 100_000), rate=st.sampled_from([1e-3, 0.1, 1.0, 50.0, 1e4]), shift=st.floats(0, 2000)
)
def test_narrowed_windows_change_nothing(seed: int, rate: float, shift: float) -> None:
    """Larger utterances, with scores far apart: the windows of best and sums against a plain recursion."""
    rng = np.random.default_rng(seed)
    graph = SegmentGraph.chain([1] * 5, [8] * 5, rng.uniform(1, 6, 5))
    scores = random_scores(graph, 20, rate, rng)
    scores = SegmentScores(graph, scores.prefix * (1 + shift), scores.boundary, scores.duration, rate)
    best, total = recursion(scores, max), recursion(scores, log_sum)
    assert oracle.best(scores).score == pytest.approx(best, rel=1e-12, abs=1e-9)
    assert oracle.log_partition(scores) == pytest.approx(total, rel=1e-12, abs=1e-9)
    starts = oracle.marginals(scores).parts.starts
    np.testing.assert_allclose(starts.sum(axis=1), 1.0, rtol=1e-9)


def log_sum(values: list[float]) -> float:
    top = max(values)
    return top + math.log(sum(math.exp(v - top) for v in values))


def recursion(scores: SegmentScores, combine: Callable[[list[float]], float]) -> float:
    """A chain's O(P T L^2) recursion, written down as it is read."""
    graph, t = scores.graph, scores.n_frames
    ended: dict[tuple[int, int], float] = {(0, 0): 0.0}  # (end, length) of the node before
    for i in range(graph.n_nodes):
        new: dict[tuple[int, int], list[float]] = {}
        for (s, before), value in ended.items():
            for length in range(graph.min_length[i], min(graph.max_length[i], t - s) + 1):
                d = length / graph.mean_length[i] - (before / graph.mean_length[i - 1] if i else 0.0)
                score = value + scores.prefix[i, s + length] - scores.prefix[i, s] + scores.boundary[i, s]
                score += scores.duration[i, length] - (scores.rate_weight * d * d if i else 0.0)
                new.setdefault((s + length, length), []).append(score)
        ended = {key: combine(values) for key, values in new.items()}
    return combine([value for (end, _), value in ended.items() if end == t])


@pytest.mark.parametrize("rate", [0.0, 0.5, -0.5])
def test_large_prefix_sums_cost_digits_but_no_path(rate: float) -> None:
    """What all frames of a node have in common cancels, however large the sums are."""
    rng = np.random.default_rng(0)
    graph = SegmentGraph.chain([1] * 5, [8] * 5, rng.uniform(1, 6, 5))
    small = random_scores(graph, 20, rate, rng)
    large = SegmentScores(graph, small.prefix + 1e8, small.boundary, small.duration, rate)
    assert oracle.best(large).starts.tolist() == oracle.best(small).starts.tolist()
    assert oracle.log_partition(large) == pytest.approx(oracle.log_partition(small), abs=1e-5)
    starts = [oracle.marginals(scores).parts.starts for scores in (small, large)]
    np.testing.assert_allclose(*starts, atol=1e-5)
    gaps = [oracle.gaps(scores, oracle.best(scores), 0, 3.0) for scores in (small, large)]
    np.testing.assert_allclose(*gaps, atol=1e-5)


@given(
    seed=st.integers(0, 100_000),
    rate=st.sampled_from([1e-9, 0.1, 3.0, 1e6, -0.1, -3.0]),
    m=st.integers(1, 12),
    k=st.sampled_from([1, 2, 7, 64, 65, 150]),
    scale=st.sampled_from([0.0, 1.0, 1e3]),
)
def test_pairs_against_the_definition(seed: int, rate: float, m: int, k: int, scale: float) -> None:
    rng = np.random.default_rng(seed)
    v = scale * rng.normal(size=(5, m))
    v[rng.random(v.shape) < 0.3] = -np.inf
    v[0] = -np.inf
    a, b = rng.uniform(0.05, 1.0, 2)
    d = a * (2 + np.arange(k)) - b * (3 + np.arange(m))[:, None]
    terms = v[:, :, None] - rate * d * d
    out, squares = np.empty((5, k)), np.empty((5, k))
    pair_max(v, 3, b, 2, a, rate, out)
    np.testing.assert_allclose(out, terms.max(axis=1), rtol=1e-12, atol=1e-9)
    pair_sum(v, 3, b, 2, a, rate, out, squares)
    some = np.isfinite(terms.max(axis=1))
    np.testing.assert_allclose(out[some], logsumexp(terms, axis=1)[some], rtol=1e-12, atol=1e-9)
    assert (out[~some] == -np.inf).all()
    p = np.exp(terms - np.where(some, terms.max(axis=1), 0.0)[:, None])
    mean = np.einsum("kxy,xy->ky", p, d * d) / np.where(some, p.sum(axis=1), 1.0)
    np.testing.assert_allclose(squares[some], mean[some], rtol=1e-9, atol=1e-12)


def test_all_paths_tie_when_all_scores_are_zero() -> None:
    for kind in ("chain", "lattice"):
        graph = random_graph(kind, np.random.default_rng(3))
        paths = all_paths(graph, 7)
        scores = SegmentScores.of(graph, np.zeros((1, 8)))
        assert oracle.best(scores).score == 0.0
        assert oracle.log_partition(scores) == pytest.approx(np.log(len(paths)))
        assert (oracle.gaps(scores, oracle.best(scores))[1:] <= 0.0).any()


def test_a_hand_computed_example() -> None:
    graph = SegmentGraph.chain([1, 1], [3, 3], [2.0, 1.0])
    prefix = [[0.0, 1.0, 3.0, 3.0, 3.0], [0.0, 0.0, 0.0, 1.0, 3.0]]
    boundary = [[0.0] * 5, [0.0, 0.5, 0.25, 0.0, 0.0]]
    duration = [[0.0, 0.1, 0.2, 0.3], [0.0, 0.3, 0.2, 0.1]]
    scores = SegmentScores.of(graph, prefix, boundary, duration, 0.5)
    # starts of node 1: 1 -> 1 + .1 + 3 + .5 + .1 - .5 (3 - .5)^2 = 1.575
    #                   2 -> 3 + .2 + 3 + .25 + .2 - .5 (2 - 1)^2 = 6.15
    #                   3 -> 3 + .3 + 2 + 0 + .3 - .5 (1 - 1.5)^2 = 5.475
    best = oracle.best(scores)
    assert best.starts.tolist() == [0, 2]
    assert best.lengths.tolist() == [2, 2]
    assert best.score == pytest.approx(6.15)
    assert oracle.gaps(scores, best).tolist() == [np.inf, pytest.approx(6.15 - 5.475)]
    assert oracle.gaps(scores, best, apart=1).tolist() == [np.inf, np.inf]
    values = np.array([1.575, 6.15, 5.475])
    assert oracle.log_partition(scores) == pytest.approx(logsumexp(values))
    np.testing.assert_allclose(
        oracle.marginals(scores).parts.starts[1, 1:4], np.exp(values - logsumexp(values))
    )


def test_no_layout_of_the_scores_compiles_the_kernels_anew() -> None:
    graph = SegmentGraph.chain([1, 1], [3, 3])
    table = np.zeros((2, 5))
    oracle.best(SegmentScores.of(graph, table))
    compiled = len(plain_forward.signatures)
    read_only = table.copy()
    read_only.flags.writeable = False
    for prefix in (np.zeros((1, 5)), np.asfortranarray(table), np.zeros((2, 5), np.float32), read_only):
        oracle.best(SegmentScores.of(graph, prefix))
    lengths = np.broadcast_to(np.zeros(4), (2, 4))
    oracle.best(SegmentScores(graph, np.asfortranarray(table), read_only, lengths))
    assert len(plain_forward.signatures) == compiled


@pytest.mark.parametrize("precision", [np.float32, np.float64])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["chain", "lattice"])
def test_scores_are_linear_in_the_features(kind: str, shared: bool, precision: type) -> None:
    """Features in single precision are multiplied and added in double precision."""
    rng = np.random.default_rng(5)
    graph = random_graph(kind, rng)
    features = random_features(graph, 7, rng, shared=shared, precision=precision)
    weights = rng.normal(size=features.dimension)
    scores = features.scores(weights)
    paths = all_paths(graph, 7)
    for path in paths:
        assert weights @ features.of_path(path) == pytest.approx(score_by_hand(scores, path), abs=1e-10)
    values = np.array([score_by_hand(scores, path) for path in paths])
    expected = np.exp(values - logsumexp(values)) @ np.stack([features.of_path(path) for path in paths])
    np.testing.assert_allclose(features.of_parts(oracle.marginals(scores).parts), expected, atol=1e-9)


def test_single_precision_features_stay_so() -> None:
    graph = SegmentGraph.chain([1, 1], [3, 3])
    features = SegmentFeatures.of(graph, 4, prefix=np.ones((1, 2, 5), np.float32))
    assert features.prefix.dtype == np.float32
    assert features.scores(np.ones(1)).prefix.dtype == np.float64
    assert (features.dimension, features.n_frames) == (1, 4)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_too_short_and_too_long_audio(rate: float) -> None:
    graph = SegmentGraph.chain([2, 2, 2], [4, 4, 4])
    for frames, word in ((5, "few"), (13, "many")):
        scores = SegmentScores.of(graph, np.zeros((3, frames + 1)), rate_weight=rate)
        for question in (oracle.best, oracle.marginals, oracle.log_partition):
            with pytest.raises(
                InfeasibleError, match=rf"{frames} frames are too {word} .* 3 phones.* 6 to 12"
            ):
                question(scores)
    # the only feasible path of the shortest and of the longest audio
    for frames, starts in ((6, [0, 2, 4]), (12, [0, 4, 8])):
        scores = SegmentScores.of(graph, np.zeros((3, frames + 1)), rate_weight=rate)
        assert oracle.best(scores).starts.tolist() == starts
        assert oracle.log_partition(scores) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("rate", [0.0, 1.0, -1.0])
def test_forbidden_by_scores_or_by_gaps_in_the_lengths(rate: float) -> None:
    chain = SegmentGraph.chain([1, 1], [3, 3])
    forbidden = SegmentScores.of(chain, np.zeros((2, 5)), np.full((2, 5), -np.inf), rate_weight=rate)
    fork = SegmentGraph.of([2, 6], [2, 6], [[-1], [-1]], [True, True])  # 2 or 6 frames, not 4
    for scores in (forbidden, SegmentScores.of(fork, np.zeros((2, 5)), rate_weight=rate)):
        for question in (oracle.best, oracle.marginals):
            with pytest.raises(InfeasibleError, match="no segmentation"):
                question(scores)
    # node 1 cannot be reached, and no other is final
    lost = SegmentGraph.of([1, 1], [3, 3], [[-1], [-1]], [False, True])
    assert oracle.best(SegmentScores.of(lost, np.zeros((2, 3)), rate_weight=rate)).nodes.tolist() == [1]


def test_bad_input_is_named() -> None:
    chain = SegmentGraph.chain
    good = chain([1, 1], [3, 3])
    for bad, words in [
        (lambda: chain([], []), "empty"),
        (lambda: chain([0], [3]), "node 0"),
        (lambda: chain([3], [2]), "node 0"),
        (lambda: chain([1], [2], [0.0]), "mean"),
        (lambda: SegmentGraph.of([1], [2], [[0]], [True]), "predecessors"),
        (lambda: SegmentGraph.of([1], [2], [[-1]], [False]), "final"),
        (lambda: SegmentGraph.of([1, 1], [2, 2], [[-1]], [True]), "one of each per node"),
        (lambda: SegmentScores.of(good, np.zeros((3, 5))), "prefix"),
        (lambda: SegmentScores.of(good, np.full((2, 5), -np.inf)), "finite"),
        (lambda: SegmentScores.of(good, np.zeros((2, 5)), np.zeros((2, 4))), "boundary"),
        (lambda: SegmentScores.of(good, np.zeros((2, 5)), np.full((2, 5), np.nan)), "NaN"),
        (lambda: SegmentScores.of(good, np.zeros((2, 5)), rate_weight=np.inf), "rate"),
        (lambda: SegmentFeatures.of(good, 0), "frame"),
        (lambda: SegmentFeatures.of(good, 4, rate=-1.0), "rate"),
        (lambda: SegmentFeatures.of(good, 4, prefix=np.zeros((1, 2, 4))), "prefix"),
        (lambda: SegmentFeatures.of(good, 4, prefix=np.zeros((1, 3, 5))), "prefix_rows"),
        (lambda: SegmentFeatures.of(good, 4, prefix=np.zeros((1, 3, 5)), prefix_rows=[0, 3]), "prefix_rows"),
        (lambda: SegmentFeatures.of(good, 4, boundary=np.full((1, 1, 5), np.nan)), "boundary"),
        (lambda: SegmentFeatures.of(good, 4, rate=1.0).scores(np.zeros(2)), "1 features"),
        (
            lambda: oracle.gaps(
                SegmentScores.of(good, np.zeros((2, 5))), SegmentPath.of_chain([0, 1], 4), -1
            ),
            "apart",
        ),
    ]:
        with pytest.raises(DataError, match=words):
            bad()


def test_a_path_that_the_graph_forbids_is_named() -> None:
    graph = SegmentGraph.of([1, 1, 2], [3, 3, 3], [[-1], [0], [0]], [False, True, True])
    scores = SegmentScores.of(graph, np.zeros((3, 5)))
    for nodes, starts, words in [
        ([0, 1], [1, 2], "frame 0"),
        ([0, 5], [0, 2], "3 do not include"),
        ([0, 1, 2], [0, 1, 2], "may not follow"),
        ([0], [0], "may not end"),
        ([0, 2], [0, 3], "segment 1 is 1 frames long"),
    ]:
        with pytest.raises(InfeasibleError, match=words):
            oracle.score(scores, SegmentPath(np.array(nodes), np.array(starts), 4))
