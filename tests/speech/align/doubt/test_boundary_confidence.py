"""Confidences, refinement and beta against enumeration."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from trellis.speech.align.doubt.boundary_confidence import confidences, fit_beta, refine_starts, sharpen
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentScores


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
