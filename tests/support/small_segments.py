"""Small segmentations and all their paths, for brute force."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from trellis.structures.segments.scores.segment_scores import (
    SegmentFeatures,
    SegmentGraph,
    SegmentPath,
    SegmentScores,
)

# nodes 0 and 6 are optional silences at the ends, 2 and 3 two pronunciations, 4 is optional
LATTICE = ([[-1], [-1, 0], [1], [1], [2, 3], [2, 3, 4], [5]], [False] * 5 + [True, True])


def random_graph(kind: str, rng: np.random.Generator, n_nodes: int = 4, longest: int = 4) -> SegmentGraph:
    if kind == "lattice":
        before, final = LATTICE
    elif kind == "dag":
        before = [[-1]] + [
            sorted(rng.choice(np.arange(-1, i), size=rng.integers(1, i + 2), replace=False).tolist())
            for i in range(1, n_nodes)
        ]
        final = (rng.random(n_nodes) < 0.3).tolist()
        final[-1] = True
    else:
        before, final = [[i - 1] for i in range(n_nodes)], [False] * (n_nodes - 1) + [True]
    n = len(before)
    low = rng.integers(1, 3, n)
    return SegmentGraph.of(low, low + rng.integers(0, longest, n), before, final, rng.uniform(0.5, 4.0, n))


def random_scores(
    graph: SegmentGraph,
    n_frames: int,
    rate: float,
    rng: np.random.Generator,
    *,
    ties: bool = False,
    holes: bool = False,
) -> SegmentScores:
    """``ties``: whole numbers, most of them equal. ``holes``: some parts forbidden."""
    p, longest = graph.n_nodes, graph.longest

    def draw(*shape: int) -> np.ndarray:
        return rng.integers(-1, 2, shape).astype(float) if ties else rng.normal(size=shape)

    prefix = np.concatenate([np.zeros((p, 1)), np.cumsum(draw(p, n_frames), axis=1)], axis=1)
    boundary, duration = draw(p, n_frames + 1), draw(p, longest + 1)
    if holes:
        boundary[rng.random(boundary.shape) < 0.2] = -np.inf
        duration[rng.random(duration.shape) < 0.2] = -np.inf
    return SegmentScores.of(graph, prefix, boundary, duration, rate)


def all_paths(graph: SegmentGraph, n_frames: int) -> list[SegmentPath]:
    def extend(nodes: list[int], starts: list[int], end: int) -> Iterator[SegmentPath]:
        last = nodes[-1] if nodes else -1
        if end == n_frames:
            if nodes and graph.final[last]:
                yield SegmentPath(np.array(nodes), np.array(starts), n_frames)
            return
        for i in range(last + 1, graph.n_nodes):
            if last in graph.pred[graph.pred_indptr[i] : graph.pred_indptr[i + 1]]:
                for length in range(graph.min_length[i], graph.max_length[i] + 1):
                    if end + length <= n_frames:
                        yield from extend([*nodes, i], [*starts, end], end + length)

    return list(extend([], [], 0))


def score_by_hand(scores: SegmentScores, path: SegmentPath) -> float:
    """The formula, segment by segment."""
    total, graph, previous = 0.0, scores.graph, None
    for node, start, length in zip(path.nodes, path.starts, path.lengths, strict=True):
        total += scores.prefix[node, start + length] - scores.prefix[node, start]
        total += scores.boundary[node, start] + scores.duration[node, length]
        relative = length / graph.mean_length[node]
        if previous is not None:
            total -= scores.rate_weight * (relative - previous) ** 2
        previous = relative
    return float(total)


def random_features(
    graph: SegmentGraph,
    n_frames: int,
    rng: np.random.Generator,
    *,
    rate: float = 0.5,
    shared: bool = False,
    precision: type = np.float64,
) -> SegmentFeatures:
    """One prefix, two boundary, one duration feature and the rate; ``shared``: nodes share rows."""
    p = graph.n_nodes
    rows = 2 if shared else p
    prefix = np.cumsum(rng.normal(size=(1, rows, n_frames + 1)), axis=2)
    prefix -= prefix[:, :, :1]
    return SegmentFeatures.of(
        graph,
        n_frames,
        prefix=prefix.astype(precision),
        boundary=rng.normal(size=(2, 1 if shared else p, n_frames + 1)).astype(precision),
        duration=rng.normal(size=(1, rows, graph.longest + 1)).astype(precision),
        rate=rate,
        prefix_rows=np.arange(p) % 2 if shared else None,
        duration_rows=np.arange(p) % 2 if shared else None,
    )
