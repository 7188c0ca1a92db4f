"""The search on frames against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.speech.align.long_recordings_kernels import frame_trace, frame_viterbi
from trellis.speech.corpus.phone_lattice import word_lattice


def test_frame_viterbi_is_the_best_path_of_frames() -> None:
    rng = np.random.default_rng(0)
    words = {"a": [["x", "y"], ["x"]], "b": [["z"], ["y", "z"], ["z"]]}
    lattice = word_lattice(["a", "b"], words)
    heads = [i for i, b in enumerate(lattice.predecessors) if -1 in b]
    # one head, as the search puts a node before all
    befores = [
        (),
        *(tuple(p + 1 for p in b if p >= 0) + ((0,) if -1 in b else ()) for b in lattice.predecessors),
    ]
    indptr = np.concatenate([[0], np.cumsum([len(b) for b in befores])]).astype(np.int64)
    pred = np.array([p for b in befores for p in b], dtype=np.int64)
    codes = np.arange(len(befores))
    emission = rng.normal(size=(6, len(befores))).astype(np.float32)
    back, score = np.zeros((6, len(befores)), np.uint8), np.empty(len(befores))
    frame_viterbi(emission, codes, indptr, pred, score, back)
    assert heads
    for last in range(len(befores)):
        best = -np.inf
        for way in _walks(befores, last, 6):
            best = max(best, float(sum(emission[t, i] for t, i in enumerate(way))))
        assert score[last] == pytest.approx(best, rel=1e-6)
        if np.isfinite(best):
            path = np.empty(6, np.int64)
            frame_trace(indptr, pred, back, last, path)
            assert sum(emission[t, i] for t, i in enumerate(path)) == pytest.approx(best, rel=1e-6)


def _walks(befores: list[tuple[int, ...]], last: int, n: int) -> list[tuple[int, ...]]:
    """Every sequence of n nodes from node 0 to ``last`` in which a node stays or follows a predecessor."""
    if n == 1:
        return [(0,)] if last == 0 else []
    return [(*walk, last) for p in (last, *befores[last]) for walk in _walks(befores, p, n - 1)]
