"""Features against values computed by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath


def test_spectral_change_by_hand() -> None:
    static = np.array([[0.0, 0.0], [0.0, 0.0], [2.0, 4.0], [4.0, 4.0]], dtype=np.float32)
    change = spectral_change(static, (1, 2))
    # at t = 2: neighbours (0, 0) and (2, 4); means of two: (0, 0) and (3, 4)
    np.testing.assert_allclose(change[0], [0, 0, (4 + 16) / 2, (4 + 0) / 2, 0])
    np.testing.assert_allclose(change[1, 2], (9 + 16) / 2)
    # at t = 1 the first frame is repeated: (0, 0) and ((0 + 2) / 2, (0 + 4) / 2)
    np.testing.assert_allclose(change[1, 1], (1 + 4) / 2)
    assert (change[:, 0] == 0).all()


def test_all_ten_features_of_a_path_by_hand() -> None:
    rng = np.random.default_rng(0)
    n_frames, rows, kinds = 7, np.array([1, 0, 1]), np.array([3, 0, 3])
    graph = SegmentGraph.chain([1] * 3, [6] * 3, [2.0, 1.5, 2.0])
    g, a = rng.normal(size=(2, 2, n_frames)).astype(np.float32)
    change = rng.random((4, n_frames + 1))
    odds, durations = rng.normal(size=(3, n_frames + 1)).astype(np.float32), rng.normal(size=(2, 4, 7))
    scale = np.arange(1.0, 11.0)
    evidence = Evidence(kinds, durations, g, a, rows, change, odds, np.array([0, 1, 2]))
    features = segment_features(ALL, scale, graph, n_frames, 3, evidence)
    path = SegmentPath.of_chain([0, 2, 6], n_frames)
    expected = [
        g[1, :2].sum() + g[0, 2:6].sum() + g[1, 6:].sum(),
        a[1, :2].sum() + a[0, 2:6].sum() + a[1, 6:].sum(),
        *(change[j, 0] + change[j, 2] + change[j, 6] for j in range(4)),
        odds[0, 0] + odds[1, 2] + odds[2, 6],
        durations[0, 3, 2] + durations[0, 0, 4] + durations[0, 3, 1],
        durations[1, 3, 2] + durations[1, 0, 4] + durations[1, 3, 1],
        -((4 / 1.5 - 2 / 2) ** 2) - (1 / 2 - 4 / 1.5) ** 2,
    ]
    np.testing.assert_allclose(features.of_path(path), np.array(expected) / (3 * scale), rtol=1e-5)
    for name in ALL:
        one = segment_features((name,), np.ones(1), graph, n_frames, 3, evidence)
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


def test_articulation_is_left_out_of_presets_where_it_cannot_be_heard() -> None:
    assert "articulation" in feature_names("standard")
    assert "articulation" not in feature_names("standard", articulation=False)
    assert feature_names(["boundary", "articulation"]) == ("articulation", "boundary")
    with pytest.raises(UnsupportedError, match="'articulation' needs classifier='convolutional'"):
        feature_names(["articulation"], articulation=False)


def test_feature_names() -> None:
    assert feature_names(["rate", "classifier"]) == ("classifier", "rate")
    assert len(feature_names("paper")) == 7
    with pytest.raises(DataError, match="choose from"):
        feature_names([])
    with pytest.raises(DataError, match="paper, standard, all"):
        feature_names("best")
