"""Features, durations, refinement and confidence against values computed by hand or by enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from codec_copy import through_codec
from trellis.core.errors import DataError, UnsupportedError
from trellis.speech.acoustics.alignment_features import (
    ALL,
    Evidence,
    feature_names,
    measure_scale,
    segment_features,
    spectral_change,
    whole_frames,
)
from trellis.speech.acoustics.phone_durations import AT_LEAST, PRIOR, SLACK, DurationModel
from trellis.speech.align.boundary_confidence import confidences, fit_beta, refine_starts, sharpen
from trellis.speech.corpus.corpus_split import folds, split_corpus
from trellis.speech.phones.phone_set import PhoneSet
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentScores


def test_spectral_change_by_hand() -> None:
    static = np.array([[0.0, 0.0], [0.0, 0.0], [2.0, 4.0], [4.0, 4.0]], dtype=np.float32)
    change = spectral_change(static, (1, 2))
    # at t = 2: neighbours (0, 0) and (2, 4); means of two: (0, 0) and (3, 4)
    np.testing.assert_allclose(change[0], [0, 0, (4 + 16) / 2, (4 + 0) / 2, 0])
    np.testing.assert_allclose(change[1, 2], (9 + 16) / 2)
    # at t = 1 the first frame is repeated: (0, 0) and ((0 + 2) / 2, (0 + 4) / 2)
    np.testing.assert_allclose(change[1, 1], (1 + 4) / 2)
    assert (change[:, 0] == 0).all()


def test_all_nine_features_of_a_path_by_hand() -> None:
    rng = np.random.default_rng(0)
    n_frames, codes, kinds = 7, np.array([1, 0, 1]), np.array([3, 0, 3])
    graph = SegmentGraph.chain([1] * 3, [6] * 3, [2.0, 1.5, 2.0])
    g, change = rng.normal(size=(n_frames, 2)).astype(np.float32), rng.random((4, n_frames + 1))
    odds, durations = rng.normal(size=(3, n_frames + 1)).astype(np.float32), rng.normal(size=(2, 4, 7))
    scale = np.arange(1.0, 10.0)
    features = segment_features(
        ALL,
        scale,
        graph,
        n_frames,
        3,
        codes,
        kinds,
        Evidence(g, change, odds),
        np.array([0, 1, 2]),
        durations,
    )
    path = SegmentPath.of_chain([0, 2, 6], n_frames)
    expected = [
        g[:2, 1].sum() + g[2:6, 0].sum() + g[6:, 1].sum(),
        *(change[j, 0] + change[j, 2] + change[j, 6] for j in range(4)),
        odds[0, 0] + odds[1, 2] + odds[2, 6],
        durations[0, 3, 2] + durations[0, 0, 4] + durations[0, 3, 1],
        durations[1, 3, 2] + durations[1, 0, 4] + durations[1, 3, 1],
        -((4 / 1.5 - 2 / 2) ** 2) - (1 / 2 - 4 / 1.5) ** 2,
    ]
    np.testing.assert_allclose(features.of_path(path), np.array(expected) / (3 * scale), rtol=1e-5)
    for name in ALL:
        one = segment_features(
            (name,), np.ones(1), graph, n_frames, 3, codes, kinds, Evidence(g, change, odds),
            np.array([0, 1, 2]), durations,
        )  # fmt: skip
        np.testing.assert_allclose(one.of_path(path) * 3, expected[ALL.index(name)], rtol=1e-5)


def test_scale_is_the_change_by_moving_boundaries() -> None:
    graph = SegmentGraph.chain([1, 1], [20, 20])
    tables = np.stack([np.arange(21.0), np.zeros(21), 100 * np.arange(21.0)])[:, None]
    from trellis.structures.segments.scores.segment_scores import SegmentFeatures

    one = SegmentFeatures.of(graph, 20, boundary=tables)
    example = SegmentExample(one, SegmentPath.of_chain([0, 10], 20))
    scale = measure_scale([example] * 400, 2, seed=0)
    assert scale[0] == pytest.approx(np.sqrt(2), rel=0.05)  # of -2..2, each as likely
    assert scale[1] == 1.0  # what never changes
    assert scale[2] == pytest.approx(100 * scale[0])


@given(st.lists(st.floats(0, 30), min_size=1, max_size=12), st.integers(0, 20))
def test_whole_frames_are_apart_and_near(times: list[float], more: int) -> None:
    starts = np.sort(times)
    starts[0] = 0.0
    n_frames = max(len(starts), int(np.ceil(starts[-1])) + 1) + more
    frames = whole_frames(starts, n_frames)
    assert frames[0] == 0
    assert (np.diff(frames) >= 1).all()
    assert frames[-1] < n_frames
    if (np.diff(np.rint(starts)) >= 1).all():
        np.testing.assert_array_equal(frames, np.rint(starts))


def test_too_many_phones_for_the_frames() -> None:
    with pytest.raises(DataError, match="4 phones in 3 frames"):
        whole_frames(np.zeros(4), 3)


def test_feature_names() -> None:
    assert feature_names(["rate", "classifier"]) == ("classifier", "rate")
    assert len(feature_names("paper")) == 7
    with pytest.raises(UnsupportedError, match="choose from"):
        feature_names([])
    with pytest.raises(UnsupportedError, match="paper, standard, all"):
        feature_names("best")


def test_durations_are_shrunken_gaussians() -> None:
    kinds, seconds = (
        [np.array([0, 0, 1]), np.array([2, 0])],
        [np.array([0.1, 0.2, 0.05]), np.array([1.0, 0.3])],
    )
    model = DurationModel.fit(kinds, seconds, np.array([False, False, True, False]))
    overall = np.mean([0.1, 0.2, 0.05, 0.3])
    assert model.mean[0] == pytest.approx((0.6 + PRIOR * overall) / (3 + PRIOR))
    assert model.mean[3] == pytest.approx(overall)  # never seen
    assert model.longest[0] == pytest.approx(max(SLACK * 0.3, AT_LEAST))
    assert np.isinf(model.longest[2])
    tables = model.tables(0.01, 40)
    length = 0.01 * 17
    constant = -0.5 * np.log(2 * np.pi)
    assert tables[0, 1, 17] + constant == pytest.approx(
        norm.logpdf(length, model.mean[1], model.deviation[1])
    )
    assert tables[1, 1, 17] + constant == pytest.approx(
        norm.logpdf(np.log(length), model.log_mean[1], model.log_deviation[1])
    )
    assert (tables[:, 2] == 0).all()
    low, high = model.limits(np.array([0, 2]), 0.01, 500, 0.02)
    assert low.tolist() == [2, 2]
    assert high.tolist() == [round(100 * model.longest[0]), 500]


def random_scores(rng: np.random.Generator, n: int, n_frames: int, rate: float) -> SegmentScores:
    graph = SegmentGraph.chain([1] * n, [n_frames] * n, 1.0 + rng.random(n))
    prefix = np.cumsum(np.c_[np.zeros(n), rng.normal(size=(n, n_frames))], axis=1)
    boundary = rng.normal(size=(n, n_frames + 1))
    return SegmentScores.of(graph, prefix, boundary, rng.normal(size=(n, n_frames + 1)), rate)


@pytest.mark.parametrize("rate", [0.0, 0.7])
def test_confidence_is_the_mass_of_paths_near_the_answer(rate: float) -> None:
    rng = np.random.default_rng(1)
    scores = random_scores(rng, 3, 7, rate)
    path = Segmentation().best(scores)
    every = [np.array([0, *c]) for c in combinations(range(1, 7), 2)]
    mass = np.exp([scores.of_path(SegmentPath.of_chain(c, 7)) for c in every])
    near = np.abs(np.array(every) - path.starts) <= 1
    np.testing.assert_allclose(confidences(scores, path, 1.0), mass @ near / mass.sum(), rtol=1e-9)


@pytest.mark.parametrize("rate", [0.0, 0.7])
def test_refinement_is_the_vertex_of_a_parabola(rate: float) -> None:
    rng = np.random.default_rng(2)
    scores = random_scores(rng, 4, 12, rate)
    path = Segmentation().best(scores)
    found = refine_starts(scores, path)
    assert found[0] == 0
    for k in range(1, 4):
        values = []
        for by in (-1, 0, 1):
            starts = path.starts.copy()
            starts[k] += by
            moved = SegmentPath.of_chain(starts, 12)
            values.append(scores.of_path(moved) if (moved.lengths >= 1).all() else -np.inf)
        if np.isinf(values).any():
            assert found[k] == path.starts[k]
        else:
            a, b, _ = np.polyfit([-1, 0, 1], values, 2)
            assert found[k] == pytest.approx(path.starts[k] + np.clip(-b / (2 * a), -0.45, 0.45))


def test_beta_recovers_the_sharpness_of_the_distribution() -> None:
    rng = np.random.default_rng(3)
    true_beta, scores, references = 1.7, [], []
    for _ in range(150):
        one = random_scores(rng, 2, 15, 0.0)
        starts = np.arange(1, 15)
        value = true_beta * np.array([one.of_path(SegmentPath.of_chain([0, t], 15)) for t in starts])
        p = np.exp(value - value.max())
        scores.append(one)
        references.append(np.array([0.0, rng.choice(starts, p=p / p.sum())]))
    paths = [Segmentation().best(s) for s in scores]
    assert fit_beta(scores, paths, references, [1.0] * 150, 0.0) == pytest.approx(true_beta, rel=0.2)
    doubled = [sharpen(s, 2.0) for s in scores]
    assert fit_beta(doubled, paths, references, [0.5] * 150, 0.0) == pytest.approx(true_beta, rel=0.2)


def test_phone_set() -> None:
    phones = PhoneSet.of(["sil", "a", "aː", "p", "b"], "voiced")
    encoded = phones.encode(["a", "aː", "sil", "p"])
    assert encoded.codes[0] == encoded.codes[1] != encoded.codes[3]
    assert encoded.kinds[0] != encoded.kinds[1]  # long vowels have durations of their own
    assert phones.silent_kinds[encoded.kinds].tolist() == [False, False, True, False]
    assert not np.array_equal(encoded.descriptors[0], encoded.descriptors[1])
    again = through_codec(phones)
    np.testing.assert_array_equal(again.encode(["b"]).descriptors, phones.encode(["b"]).descriptors)
    with pytest.raises(DataError, match=r"new\.wav: the model does not know the phones '\?' '7'"):
        phones.encode(["?", "a", "7"], "new.wav")
    assert phones.stand_in("i̥") == phones.classes[phones.encode(["a"]).codes[0]]  # voiceless: the one vowel
    assert phones.stand_in("a") is None
    timit = PhoneSet.of(["h#", "tcl", "t", "aa"], "timit39")
    closure, silence = timit.encode(["tcl"]), timit.encode(["h#"])
    assert closure.codes == silence.codes
    assert timit.silent_kinds[[closure.kinds[0], silence.kinds[0]]].tolist() == [False, True]
    own = PhoneSet.of(["a", "b", "pau"], {"a": "vowel", "b": "other"})
    assert own.classes == ("other", "sil", "vowel")


def test_splits_are_disjoint_and_keep_groups_together() -> None:
    ids = [f"u{i}" for i in range(60)]
    groups = [f"g{i % 12}" for i in range(60)]
    parts = split_corpus(ids, groups, (0.5, 0.3, 0.2), np.random.default_rng(0))
    every = [*parts.classifier, *parts.weights, *parts.holdout]
    assert sorted(every) == list(range(60))
    for part in (parts.classifier, parts.weights, parts.holdout):
        others = set(every) - set(part)
        assert not {groups[i] for i in part} & {groups[i] for i in others}
    few = split_corpus(ids, ["same"] * 60, (0.5, 0.3, 0.2), np.random.default_rng(0))
    assert [len(few.classifier), len(few.weights), len(few.holdout)] == [30, 18, 12]
    assert sorted(i for fold in folds(groups, 3, np.random.default_rng(1)) for i in fold) == list(range(60))
    with pytest.raises(DataError, match="left for the part 'holdout'"):
        split_corpus(["a", "b"], ["", ""], (0.5, 0.5, 1e-9), np.random.default_rng(0))
    with pytest.raises(DataError, match="not in the corpus: x"):
        split_corpus(
            ["a"], [""], {"classifier": ["x"], "weights": [], "holdout": []}, np.random.default_rng(0)
        )
