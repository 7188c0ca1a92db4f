"""Where to cut sequences whose lengths are known."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import IntArray


def cut_places(offsets: IntArray, shard_steps: int) -> list[int]:
    """Numbers of sequences at which pieces begin, and the number of all: each piece ends with the sequence
    that brings it to ``shard_steps`` steps."""
    places, n = [0], len(offsets) - 1
    while places[-1] < n:
        wanted = offsets[places[-1]] + shard_steps
        places.append(max(min(int(np.searchsorted(offsets, wanted)), n), places[-1] + 1))
    if len(places) > 2 and offsets[places[-2]] == offsets[n]:  # empty sequences alone are no piece
        del places[-2]
    return places
