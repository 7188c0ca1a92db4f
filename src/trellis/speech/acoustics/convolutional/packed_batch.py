"""Utterances side by side in one array, with rows of zeros between them that no layer can see across."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class NetworkExample:
    """An utterance with its reference: ``frames`` (T, D); per phone the class ``codes`` (K,), ``descriptors``
    (K, V) and whether it is ``silent`` (K,); ``starts`` (K,) in frames, not rounded."""

    frames: Float32Array
    codes: IntArray
    descriptors: Float32Array
    silent: BoolArray
    starts: FloatArray

    @cached_property
    def phone_of_frame(self) -> IntArray:
        """The phone at the middle of each frame, (T,)."""
        return np.searchsorted(self.starts[1:], np.arange(len(self.frames)) + 0.5, side="right")


@dataclass(frozen=True, eq=False)
class PhonePairs:
    """R pairs of descriptors with the rows of their boundaries: ``sizes[r]`` rows from ``first[r]`` on, row i
    for the boundary between rows i - 1 and i."""

    left: Float32Array
    right: Float32Array
    first: IntArray
    sizes: IntArray

    @property
    def n_rows(self) -> int:
        return int(self.sizes.sum())


@dataclass(frozen=True, eq=False)
class PackedBatch:
    """``frames``: (N, D), with ``gap`` rows of zeros at both ends and between utterances. ``inside``: (N, 1),
    1 for the rows of frames and 0 for those between. ``rows``: of all frames, in order. ``first``: of each
    utterance."""

    frames: Float32Array
    inside: Float32Array
    rows: IntArray
    first: IntArray
    gap: int

    @classmethod
    def of(cls, frames: Sequence[Float32Array], gap: int) -> PackedBatch:
        sizes = np.array([len(f) for f in frames])
        first = gap + np.concatenate([[0], np.cumsum(sizes[:-1] + gap)]).astype(np.int64)
        n_rows = int(first[-1] + sizes[-1]) + gap
        packed = np.zeros((n_rows, frames[0].shape[1]), dtype=frames[0].dtype)
        inside = np.zeros((n_rows, 1), dtype=packed.dtype)
        for begin, one in zip(first.tolist(), frames, strict=True):
            packed[begin : begin + len(one)] = one
            inside[begin : begin + len(one)] = 1.0
        return cls(packed, inside, np.flatnonzero(inside), first, gap)
