"""The part scores of a batch of chains, padded [batch, time, ...] or packed (N, ...) with offsets.

A padded batch comes with ``lengths`` (B,) or a ``mask`` [B, T], true on the steps of each sequence; without
either there is no padding. A packed batch comes with ``offsets`` (S + 1,) or ``lengths``; without them it is
one sequence. Kernels see both as rows (R, ...) and the first row of each sequence: the steps of a sequence
are the first ones of its row (:mod:`trellis.neural.chain.rearranged_batch` brings other masks to this form).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trellis.core.arrays import BoolArray, IntArray
from trellis.core.errors import DataError
from trellis.data.sequences import check_offsets, offsets_from_lengths
from trellis.neural.tensors import constant_array


@dataclass(frozen=True, eq=False)
class Layout:
    """``shape``: (B, T) of a padded batch, (N,) of a packed one. ``begins``: (S,) the first row of each
    sequence. ``offsets``: (S + 1,), those of the packed batch."""

    shape: tuple[int, ...]
    begins: IntArray
    offsets: IntArray

    @classmethod
    def of(cls, scores: Tensor, lengths: Any = None, mask: Any = None, offsets: Any = None) -> Layout:
        """The layout of unary scores, checked. Whole numbers come as tensors, arrays or lists."""
        if scores.ndim not in (2, 3) or scores.shape[-1] == 0:
            raise DataError(
                f"scores have shape {tuple(scores.shape)}; give [batch, time, labels], or (steps, labels) "
                "for a packed batch"
            )
        if sum(given is not None for given in (lengths, mask, offsets)) > 1:
            raise DataError("give only one of lengths, mask and offsets")
        if scores.ndim == 2:
            return cls._packed(scores.shape[0], lengths, mask, offsets)
        if offsets is not None:
            raise DataError(
                f"offsets are for packed scores (steps, labels), these are padded {tuple(scores.shape)}; "
                "give lengths or a mask"
            )
        batch, time = scores.shape[0], scores.shape[1]
        if mask is not None:
            marks = mask_array(mask, (batch, time))
            if has_gaps(marks):
                raise DataError(
                    "the mask has gaps; the steps of a sequence must be the first ones of its row"
                )
            lengths = marks.sum(axis=1)
        sizes = np.full(batch, time) if lengths is None else _whole_numbers("lengths", lengths)
        if sizes.shape != (batch,) or (batch and (sizes.min() < 0 or sizes.max() > time)):
            raise DataError(
                f"lengths are {sizes.tolist()[:8]}; for scores of shape {tuple(scores.shape)} give {batch} "
                f"numbers from 0 to {time}"
            )
        return cls((batch, time), np.arange(batch) * time, offsets_from_lengths(sizes))

    @classmethod
    def _packed(cls, n: int, lengths: Any, mask: Any, offsets: Any) -> Layout:
        if mask is not None:
            raise DataError("a mask is for padded scores [batch, time, labels]; give offsets or lengths here")
        if offsets is None:
            offsets = offsets_from_lengths([n] if lengths is None else _whole_numbers("lengths", lengths))
        bounds = _whole_numbers("offsets", offsets)
        check_offsets(bounds, n)
        return cls((n,), bounds[:-1], bounds)

    @property
    def n_sequences(self) -> int:
        return len(self.begins)

    @property
    def n_rows(self) -> int:
        return int(np.prod(self.shape))

    @cached_property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    @cached_property
    def full(self) -> bool:
        """Whether there is no padding: then padded and packed are the same memory."""
        return bool(self.offsets[-1] == self.n_rows)

    @cached_property
    def steps(self) -> IntArray:
        """(N,) the rows that are not padding, in the order of the packed batch."""
        within = np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], self.lengths)
        rows: IntArray = np.repeat(self.begins, self.lengths) + within
        return rows

    @cached_property
    def owners(self) -> IntArray:
        """(R,) the sequence that each row belongs to, padding included."""
        if len(self.shape) == 2:
            return np.repeat(np.arange(self.shape[0]), self.shape[1])
        return np.repeat(np.arange(self.n_sequences), self.lengths)

    @cached_property
    def first_and_last(self) -> tuple[IntArray, IntArray, IntArray]:
        """The sequences that have steps, and the rows of their first and last step."""
        some = np.flatnonzero(self.lengths > 0)
        return some, self.begins[some], self.begins[some] + self.lengths[some] - 1

    @cached_property
    def mask(self) -> Tensor | None:
        """[B, T] true where there is no padding; None where there is none at all."""
        if self.full or len(self.shape) == 1:
            return None
        return torch.from_numpy(np.arange(self.shape[1]) < self.lengths[:, None])

    def pack(self, values: Tensor, width: tuple[int, ...] = ()) -> NDArray[Any]:
        """A tensor of the batch's shape and ``width`` more axes, without its padding."""
        if tuple(values.shape) != (*self.shape, *width):
            raise DataError(
                f"a tensor has shape {tuple(values.shape)}; to match the scores it must be "
                f"{(*self.shape, *width)}"
            )
        rows = constant_array(values).reshape((self.n_rows, *width))
        return rows if self.full else rows[self.steps]

    def unpack(self, labels: NDArray[Any]) -> Tensor:
        """Packed labels (..., N) in the shape of the batch [..., *shape], -1 in the padding."""
        rows = np.full((*labels.shape[:-1], self.n_rows), -1, dtype=np.int64)
        rows[..., self.steps] = labels
        return torch.from_numpy(rows).reshape((*labels.shape[:-1], *self.shape))


@dataclass(frozen=True, eq=False)
class ChainTensors:
    """``unary`` [..., K]; ``transitions`` (K, K) or [..., K, K]; ``start``, ``end`` (K,)."""

    unary: Tensor
    transitions: Tensor
    start: Tensor
    end: Tensor
    layout: Layout

    @property
    def shared(self) -> bool:
        """Whether all steps have the same transitions."""
        return self.transitions.ndim == 2

    @property
    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.unary, self.transitions, self.start, self.end


def _whole_numbers(name: str, values: Any) -> IntArray:
    array = constant_array(values) if isinstance(values, Tensor) else np.asarray(values)
    if array.ndim != 1 or not (np.issubdtype(array.dtype, np.integer) or array.size == 0):
        raise DataError(
            f"{name} must be a one-dimensional array of whole numbers, not {array.dtype} of shape "
            f"{array.shape}"
        )
    return np.ascontiguousarray(array, dtype=np.int64)


def mask_array(mask: Any, shape: tuple[int, ...]) -> BoolArray:
    """A mask as booleans, checked."""
    marks = np.asarray(constant_array(mask) if isinstance(mask, Tensor) else mask).astype(bool)
    if marks.shape != shape:
        raise DataError(f"the mask has shape {marks.shape}; for these scores it must be {shape}")
    return marks


def has_gaps(marks: BoolArray) -> bool:
    """Whether padding stands before or between the steps of a row."""
    return bool((~marks[:, :-1] & marks[:, 1:]).any())
