# mypy: allow-untyped-defs
"""The best increasing sequence of frames, one per row of a table of gains."""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel


@kernel
def increasing_path(gains, shortest, starts):
    """Fill ``starts`` (K,) with s_0 = 0, s_{k+1} >= s_k + shortest[k], s_{K-1} + shortest[K-1] <= T, that
    maximise sum_{k>0} gains[k, s_k]; the earliest frames among equals. ``gains``: (K, T + 1)."""
    n_rows, n_frames = gains.shape[0], gains.shape[1] - 1
    room = np.empty(n_rows, np.int64)  # the last frame that row k may start at
    end = n_frames
    for k in range(n_rows - 1, -1, -1):
        end -= shortest[k]
        room[k] = end
    best = np.full(n_frames + 1, -np.inf)  # of rows up to k, the last of which starts at or before t
    place = np.zeros((n_rows, n_frames + 1), np.int64)  # where it starts
    best[: room[0] + 1] = 0.0
    first = 0
    for k in range(1, n_rows):
        first += shortest[k - 1]
        total = -np.inf
        for t in range(room[k], first - 1, -1):  # best[t - shortest] is still that of row k - 1
            best[t] = best[t - shortest[k - 1]] + gains[k, t]
        at = first
        for t in range(first, room[k] + 1):
            if best[t] > total:
                total, at = best[t], t
            best[t] = total
            place[k, t] = at
    t = room[n_rows - 1]
    for k in range(n_rows - 1, 0, -1):
        starts[k] = place[k, t]
        t = starts[k] - shortest[k - 1]
    starts[0] = 0
