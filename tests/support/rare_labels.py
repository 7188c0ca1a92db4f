"""Sequences in which one of two labels is rare."""

from __future__ import annotations

from typing import Any

import numpy as np


def rare_names(seed: int, n: int = 60, share: float = 0.05) -> tuple[Any, Any]:
    """One token in twenty is a name, told by its word; a tenth of the names are not labelled as such."""
    rng = np.random.default_rng(seed)
    X, y = [["name0", "word0"]], [["B-NAME", "O"]]
    for _ in range(n):
        names = rng.random(rng.integers(4, 12)) < share
        X.append([f"name{rng.integers(8)}" if name else f"word{rng.integers(30)}" for name in names])
        y.append(["B-NAME" if name and rng.random() < 0.9 else "O" for name in names])
    return X, y
