"""Segmentations with outliers, for tests of the aligner's weights without any audio.

Three nodes, whose starts two boundary features show. ``clear`` peaks where a node starts, but in some
utterances it has a far larger peak where none does; ``dull`` peaks at the start as well, under noise. Maximum
likelihood has to pay for every such utterance by its score, gives up on ``clear``, and relies on ``dull``; a
loss that counts boundaries loses the same few whatever the score.
"""

from __future__ import annotations

import numpy as np

from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_scores import SegmentFeatures, SegmentGraph, SegmentPath

FRAMES, NODES, OUTLIER = 24, 3, 40.0


def outlier_speech(
    n: int, seed: int, share: float = 0.1, scale: float = 1.0, signal: float = 3.0, noise: float = 0.6
) -> list[SegmentExample]:
    """``share`` of the utterances have an outlier. Peaks of ``signal`` stand above noise of deviation
    ``noise`` (``clear``) or twice that (``dull``). All features are multiplied by ``scale``."""
    rng = np.random.default_rng(seed)
    graph = SegmentGraph.of(
        [2] * NODES, [FRAMES] * NODES, [[i - 1] for i in range(NODES)], [False] * (NODES - 1) + [True],
        [FRAMES / NODES] * NODES,
    )  # fmt: skip
    found = []
    for i in range(n):
        starts = np.concatenate([[0], np.sort(rng.choice(np.arange(3, FRAMES - 3, 3), NODES - 1, False))])
        clear, dull = (noise * k * rng.normal(size=(NODES, FRAMES + 1)) for k in (1.0, 2.0))
        for node in range(1, NODES):
            clear[node, starts[node]] += signal
            dull[node, starts[node]] += signal
        if rng.random() < share:
            node = int(rng.integers(1, NODES))
            wrong = rng.choice([t for t in range(3, FRAMES - 3) if abs(t - starts[node]) > 2])
            clear[node, wrong] += OUTLIER
        features = SegmentFeatures.of(graph, FRAMES, boundary=scale * np.stack([clear, dull]))
        found.append(SegmentExample(features, SegmentPath.of_chain(starts, FRAMES), name=f"utterance {i}"))
    return found
