"""Small tagging tasks for the tests of the estimators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LABELS = ("a", "b", "c")


def noisy_words(
    n: int, seed: int = 0, longest: int = 7, labels: Sequence[Any] = LABELS, noise: float = 0.25
) -> tuple[list[list[str]], list[list[Any]]]:
    """Sequences of words that hint at their label, which likes to be followed by the next one."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        length = int(rng.integers(1, longest + 1))
        codes = (rng.integers(3) + np.cumsum(rng.random(length) < 0.7)) % len(labels)
        shown = np.where(rng.random(length) < noise, rng.integers(len(labels), size=length), codes)
        X.append([f"w{code}{rng.integers(3)}" for code in shown])
        y.append([labels[code] for code in codes])
    return X, y


def as_dicts(X: list[list[str]]) -> list[list[dict[str, Any]]]:
    """String, boolean and numeric features, and the word before."""
    return [
        [
            {"word": w, "first": t == 0, "digit": float(w[-1]), "before": x[t - 1] if t else "none"}
            for t, w in enumerate(x)
        ]
        for x in X
    ]


def spans(n: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Words and BIO labels of two types."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(n):
        words, labels = [], []
        for _ in range(int(rng.integers(1, 4))):
            kind = str(rng.choice(["P", "L", ""]))
            size = int(rng.integers(1, 4))
            words += [f"{kind or 'o'}{min(j, 1)}{rng.integers(2)}" for j in range(size)]
            labels += [f"B-{kind}", *[f"I-{kind}"] * (size - 1)] if kind else ["O"] * size
        noisy = rng.random(len(words)) < 0.15
        X.append(["noise" if bad else w for w, bad in zip(words, noisy, strict=True)])
        y.append(labels)
    return X, y


def clouds(n: int, seed: int = 0, width: int = 4) -> tuple[list[np.ndarray], list[list[int]]]:
    """Arrays whose rows lie around the centre of their label."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(3, width))
    X, y = [], []
    for _ in range(n):
        codes = (rng.integers(3) + np.arange(int(rng.integers(1, 6)))) % 3
        X.append(centres[codes] + 0.8 * rng.normal(size=(len(codes), width)))
        y.append(codes.tolist())
    return X, y
