"""Stretches of an alignment that fit no better than by chance, or far worse than the rest of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.core.arrays import BoolArray, Float32Array, IntArray
from trellis.speech.align.search.derailment import (
    CHANCE,
    FEWEST,
    LEAST,
    ONES,
    PHONES,
    SHARE,
    doubtful_stretches,
)

C = 6  # classes; 0 is silence


def recording(rng: np.random.Generator, n: int) -> tuple[Float32Array, IntArray, IntArray, BoolArray]:
    """Posteriors of ``n`` segments with silences among them, their starts, classes and which are silent."""
    codes = rng.integers(0, C, n)
    lengths = rng.integers(1, 12, n)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    frames = np.repeat(codes, lengths)
    return heard(rng, frames), starts, codes, codes == 0


def heard(rng: np.random.Generator, classes: IntArray) -> Float32Array:
    logits = rng.normal(size=(len(classes), C)) + 4.0 * np.eye(C)[classes]
    posteriors = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return posteriors.astype(np.float32)


def spelt(codes: IntArray, rng: np.random.Generator) -> list[str]:
    """Labels, two of each class."""
    return [f"{code}{'ab'[int(rng.integers(2))]}" for code in codes]


def by_the_formula(
    posteriors: Float32Array, starts: IntArray, codes: IntArray, labels: list[str], silent: BoolArray
) -> list[tuple[int, int]]:
    ends = [*starts[1:].tolist(), len(posteriors)]
    frames = [c for c, begin, end in zip(codes, starts, ends, strict=True) for _ in range(begin, end)]
    share = [frames.count(c) / len(frames) for c in range(C)]
    spoken = []
    for c, label, begin, end, quiet in zip(codes, labels, starts, ends, silent, strict=True):
        each = [
            float(posteriors[t, c])
            - np.log(sum(share[k] * np.exp(float(posteriors[t, k])) for k in range(C)))
            for t in range(begin, end)
        ]
        if not quiet:
            spoken.append((max(float(np.mean(each)), LEAST), label, int(begin), int(end)))
    width = min(PHONES, len(spoken))
    if width < FEWEST:
        return []
    m = float(np.median([e for e, _, _, _ in spoken]))
    found = []
    for i in range(len(spoken) - width + 1):
        run, unusual = spoken[i : i + width], []
        for e, label, _, _ in run:
            own = [other for other, name, _, _ in spoken if name == label]
            habit = len(own) / (len(own) + ONES) * (float(np.median(own)) - m)
            unusual.append(max(e - habit, LEAST))
        if np.mean([e for e, _, _, _ in run]) < CHANCE or np.mean(unusual) < SHARE * m:
            found.append((run[0][2], run[-1][3]))
    return found


@given(st.integers(1, 60), st.integers(0, 999))
def test_it_is_the_formula(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    posteriors, starts, codes, silent = recording(rng, n)
    wrong = np.where(rng.random(n) < rng.random(), rng.integers(0, C, n), codes)
    labels = spelt(wrong, rng)
    assert doubtful_stretches(posteriors, starts, wrong, labels, silent) == by_the_formula(
        posteriors, starts, wrong, labels, silent
    )


@given(st.integers(0, 99))
def test_a_stretch_with_other_phones_is_named_and_nothing_else(seed: int) -> None:
    rng = np.random.default_rng(seed)
    posteriors, starts, codes, silent = recording(rng, 150)
    assert not doubtful_stretches(posteriors, starts, codes, spelt(codes, rng), silent)
    other = codes.copy()
    other[50:100] = np.where(codes[50:100] > 0, 1 + codes[50:100] % (C - 1), 0)  # never the right phone
    found = doubtful_stretches(posteriors, starts, other, spelt(other, rng), silent)
    assert found
    begin, end = min(b for b, _ in found), max(e for _, e in found)
    slack = 4 * PHONES  # segments: runs that are only half wrong, and silences among them
    assert starts[max(50 - slack, 0)] <= begin < starts[50 + slack]
    assert starts[100 - slack] < end <= starts[min(100 + slack, 149)]


@settings(max_examples=30)
@given(st.integers(0, 999))
def test_a_label_that_never_sounds_like_its_class_is_no_sign(seed: int) -> None:
    """One phone in three of a stretch has a label that sounds like another class, here as everywhere: nothing
    is named. Where labels that sound as they should elsewhere fail as often, the stretch is."""
    rng = np.random.default_rng(seed)
    n, stretch = 400, slice(100, 100 + 3 * PHONES)
    codes = rng.integers(2, C, n)
    strange = rng.random(n) < 0.05
    strange[stretch] = np.arange(3 * PHONES) % 3 == 0
    lengths, starts = np.full(n, 6), 6 * np.arange(n)
    sound = np.where(strange, 2 + (codes - 1) % (C - 2), codes)
    posteriors, silent = heard(rng, np.repeat(sound, lengths)), np.zeros(n, dtype=np.bool_)
    habit = [f"{code}{'-strange' * one}" for code, one in zip(codes, strange.tolist(), strict=True)]
    assert not doubtful_stretches(posteriors, starts, codes, habit, silent)
    assert doubtful_stretches(posteriors, starts, codes, [str(code) for code in codes], silent)


@pytest.mark.parametrize("n", [1, FEWEST - 1])
def test_few_phones_are_not_judged(n: int) -> None:
    posteriors = np.log(np.tile([0.9] + [0.02] * 5, (3 * n, 1))).astype(np.float32)
    starts, codes = 3 * np.arange(n), np.ones(n, dtype=np.int64)
    labels = ["x"] * n
    assert not doubtful_stretches(posteriors, starts, codes, labels, np.zeros(n, dtype=np.bool_))
