"""Windows of frames around a frame or a boundary, as rows for a classifier.

Frames of many utterances lie in one array, each utterance with its first and last frame repeated ``reach``
times at its ends, so that a window is a run of rows and no window sees a neighbouring utterance. Rows are
gathered in blocks on demand: all windows of a corpus at once would take twenty times its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array, IntArray


def windows(frames: Float32Array, before: int, after: int, positions: IntArray | None = None) -> Float32Array:
    """For each position t, frames t - before .. t + after - 1 side by side; the ends are repeated.

    ``positions``: 0 .. T (T: the end of the utterance); all frames 0 .. T - 1 unless given.
    """
    return PackedFrames.of([frames], max(before, after)).windows(
        np.arange(len(frames)) if positions is None else positions, before, after
    )


@dataclass(frozen=True, eq=False)
class PackedFrames:
    """``values``: the padded frames. ``first[u]``: the row of frame 0 of utterance u."""

    values: Float32Array
    first: IntArray
    reach: int

    @classmethod
    def of(cls, utterances: Sequence[Float32Array], reach: int) -> PackedFrames:
        padded = [np.pad(frames, ((reach, reach), (0, 0)), mode="edge") for frames in utterances]
        ends = np.cumsum([len(p) for p in padded])
        first = np.concatenate([[0], ends[:-1]]).astype(np.int64) + reach
        return cls(np.concatenate(padded), first, reach)

    def windows(self, rows: IntArray, before: int, after: int, utterance: int | IntArray = 0) -> Float32Array:
        """Windows around frame ``rows`` of ``utterance`` (one, or one per row), side by side."""
        if max(before, after) > self.reach:
            raise ValueError(f"windows of -{before}..{after} need frames padded by as many, not {self.reach}")
        starts = self.first[utterance] + rows - before
        view = np.lib.stride_tricks.sliding_window_view(self.values, before + after, axis=0)
        # (n, D, window) -> frames side by side
        return np.ascontiguousarray(view[starts].transpose(0, 2, 1)).reshape(len(starts), -1)
