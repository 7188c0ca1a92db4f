"""Stretches of an alignment that fit no better than by chance."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.arrays import BoolArray, Float32Array, IntArray
from trellis.speech.align.search.derailment import DOUBTFUL, FEWEST, LEAST, PHONES, doubtful_stretches

C = 6  # classes; 0 is silence


def recording(rng: np.random.Generator, n: int) -> tuple[Float32Array, IntArray, IntArray, BoolArray]:
    """Posteriors of ``n`` segments with silences among them, their starts, classes and which are silent."""
    codes = rng.integers(0, C, n)
    lengths = rng.integers(1, 12, n)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    frames = np.repeat(codes, lengths)
    logits = rng.normal(size=(len(frames), C)) + 4.0 * np.eye(C)[frames]
    posteriors = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return posteriors.astype(np.float32), starts, codes, codes == 0


def by_the_formula(
    posteriors: Float32Array, starts: IntArray, codes: IntArray, silent: BoolArray
) -> list[tuple[int, int]]:
    ends = [*starts[1:].tolist(), len(posteriors)]
    frames = [c for c, begin, end in zip(codes, starts, ends, strict=True) for _ in range(begin, end)]
    share = [frames.count(c) / len(frames) for c in range(C)]
    spoken = []
    for c, begin, end, quiet in zip(codes, starts, ends, silent, strict=True):
        each = [
            float(posteriors[t, c])
            - np.log(sum(share[k] * np.exp(float(posteriors[t, k])) for k in range(C)))
            for t in range(begin, end)
        ]
        if not quiet:
            spoken.append((max(float(np.mean(each)), LEAST), int(begin), int(end)))
    width = min(PHONES, len(spoken))
    if width < FEWEST:
        return []
    runs = [spoken[i : i + width] for i in range(len(spoken) - width + 1)]
    return [(run[0][1], run[-1][2]) for run in runs if np.mean([r for r, _, _ in run]) < DOUBTFUL]


@given(st.integers(1, 60), st.integers(0, 999))
def test_it_is_the_formula(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    posteriors, starts, codes, silent = recording(rng, n)
    wrong = np.where(rng.random(n) < rng.random(), rng.integers(0, C, n), codes)
    assert doubtful_stretches(posteriors, starts, wrong, silent) == by_the_formula(
        posteriors, starts, wrong, silent
    )


@given(st.integers(0, 99))
def test_a_stretch_with_other_phones_is_named_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    posteriors, starts, codes, silent = recording(rng, 150)
    assert not doubtful_stretches(posteriors, starts, codes, silent)
    other = codes.copy()
    other[50:100] = np.where(codes[50:100] > 0, 1 + codes[50:100] % (C - 1), 0)  # never the right phone
    found = doubtful_stretches(posteriors, starts, other, silent)
    assert found
    begin, end = min(b for b, _ in found), max(e for _, e in found)
    slack = 4 * PHONES  # segments: runs that are only half wrong, and silences among them
    assert starts[max(50 - slack, 0)] <= begin < starts[50 + slack]
    assert starts[100 - slack] < end <= starts[min(100 + slack, 149)]


@pytest.mark.parametrize("n", [1, FEWEST - 1])
def test_few_phones_are_not_judged(n: int) -> None:
    posteriors = np.log(np.tile([0.9] + [0.02] * 5, (3 * n, 1))).astype(np.float32)
    starts, codes = 3 * np.arange(n), np.ones(n, dtype=np.int64)
    assert not doubtful_stretches(posteriors, starts, codes, np.zeros(n, dtype=np.bool_))
