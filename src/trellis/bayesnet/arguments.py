"""Options that builders, samplers and learners take: whole numbers and seeds, checked in one place."""

from __future__ import annotations

import numpy as np

from trellis.emissions.checks import is_whole, whole
from trellis.errors import DataError

__all__ = ["RandomState", "generator", "is_whole", "whole"]

RandomState = int | np.random.Generator | None


def generator(random_state: RandomState) -> np.random.Generator:
    """The generator itself, or a new one for a seed (None: another one each time)."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise DataError(
            f"random_state is {random_state!r}; give a seed (a whole number, 0 or more), a numpy Generator "
            "or None"
        ) from None
