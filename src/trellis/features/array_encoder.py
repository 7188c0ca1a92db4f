"""Numeric inputs: dense arrays and scipy sparse matrices, whose columns are the features. Zeros are not
stored.

``X`` is a list of (length, n_columns) arrays or matrices, or one of them with ``lengths``. A column keeps its
number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse, vstack

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.data.sequences import offsets_from_lengths, step_name
from trellis.data.user_input import as_arrays
from trellis.features.encoded import Encoded, check_min_count, features_from_codes


@register
class ArrayEncoder:
    """Columns as features.

    ``min_count``: columns with fewer non-zeros in ``fit`` are ignored. ``transition_features``: ``True`` for
    all columns, or the numbers of those that also score transitions.
    """

    def __init__(self, min_count: int = 1, transition_features: bool | Iterable[int] = ()) -> None:
        self.min_count = check_min_count(min_count)
        if not isinstance(transition_features, bool):
            transition_features = tuple(transition_features)
            for column in transition_features:
                if isinstance(column, bool) or not isinstance(column, int | np.integer):
                    raise DataError(
                        f"transition_features holds {column!r}; for arrays it must hold column numbers"
                    )
        self.transition_features = transition_features
        self._kept: NDArray[np.bool_] = np.empty(0, np.bool_)
        self._edge_columns: NDArray[np.int64] = np.empty(0, np.int64)

    @property
    def n_features(self) -> int:
        return len(self._kept)

    @property
    def n_edge_features(self) -> int:
        return len(self._edge_columns)

    def fit(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        matrix, offsets = _stack(X, lengths, None)
        self._set_columns(np.bincount(matrix.indices, minlength=matrix.shape[1]) >= self.min_count)
        return self._encoded(matrix, offsets)

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        return self._encoded(*_stack(X, lengths, self.n_features))

    def feature_names(self) -> list[str]:
        return [f"x{j}" for j in range(self.n_features)]

    def edge_feature_names(self) -> list[str]:
        return [f"x{j}" for j in self._edge_columns.tolist()]

    def to_state(self) -> dict[str, Any]:
        return {
            "min_count": self.min_count,
            "transition_features": self.transition_features,
            "kept": self._kept.astype(np.uint8),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        encoder = cls(state["min_count"], state["transition_features"])
        encoder._set_columns(state["kept"].astype(np.bool_))
        return encoder

    def _set_columns(self, kept: NDArray[np.bool_]) -> None:
        width = len(kept)
        columns = self.transition_features
        if isinstance(columns, bool):
            self._edge_columns = np.arange(width if columns else 0)
        else:
            for column in columns:
                if not -width <= column < width:
                    raise DataError(
                        f"transition_features names column {column}, but X has {width} columns (from 0)"
                    )
            self._edge_columns = np.unique(np.array(columns, np.int64) % width)
        self._kept = kept

    def _encoded(self, matrix: csr_array, offsets: IntArray) -> Encoded:
        columns = matrix.indices.astype(np.int32, copy=False)
        indptr = matrix.indptr.astype(np.int64)
        ids = np.where(self._kept, np.arange(self.n_features), -1).astype(np.int32)
        nodes = features_from_codes(columns, matrix.data, indptr, ids, self.n_features, offsets)
        if not self.transition_features:
            return Encoded(nodes)
        edge_ids = np.full(self.n_features, -1, np.int32)
        edge_ids[self._edge_columns] = np.arange(self.n_edge_features)
        edge_ids[~self._kept] = -1
        edges = features_from_codes(columns, matrix.data, indptr, edge_ids, self.n_edge_features, offsets)
        return Encoded(nodes, edges)


def _stack(X: Any, lengths: ArrayLike | None, width: int | None) -> tuple[csr_array, IntArray]:
    """All rows as one float64 CSR matrix without stored zeros, and the offsets of the sequences."""
    X = as_arrays(X)
    if lengths is not None:
        parts, offsets = [X], offsets_from_lengths(lengths)
    else:
        if issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype != object):
            raise DataError(
                f"X is one array of shape {X.shape}; pass lengths, or a list with one array for each sequence"
            )
        parts = list(X)
        offsets = np.empty(0, np.int64)
    if not parts:
        raise DataError("X has no sequences; at least one is needed")
    blocks = [_block(as_arrays(part), index, lengths is not None) for index, part in enumerate(parts)]
    # an empty list has no columns, so none that could be wrong
    first = next((index for index, block in enumerate(blocks) if block.ndim == 2), -1)
    expected = width if width is not None else blocks[first].shape[1] if first >= 0 else 0
    blocks = [block.reshape(0, expected) if block.ndim == 1 else block for block in blocks]
    for index, block in enumerate(blocks):
        if block.shape[1] != expected:
            what = "X" if lengths is not None else f"sequence {index}"
            other = f"sequence {first} has" if width is None else "there were in training:"
            raise DataError(f"{what} has {block.shape[1]} columns, but {other} {expected}")
    if lengths is None:
        offsets = offsets_from_lengths([block.shape[0] for block in blocks])
    elif offsets[-1] != blocks[0].shape[0]:
        raise DataError(
            f"lengths add up to {offsets[-1]}, but X has {blocks[0].shape[0]} rows; they must be equal"
        )
    if not offsets[-1]:
        raise DataError(f"X has {len(offsets) - 1} sequences and no steps; at least one step is needed")
    sparse = any(issparse(block) for block in blocks)
    if sparse:
        matrix = csr_array(vstack(blocks, format="csr"), dtype=np.float64, copy=len(blocks) == 1)
        matrix.eliminate_zeros()
    else:
        matrix = csr_array(blocks[0] if len(blocks) == 1 else np.concatenate(blocks), dtype=np.float64)
    _check_finite(matrix, offsets)
    return matrix, offsets


def _block(part: Any, index: int, whole: bool) -> Any:
    name = "X" if whole else f"sequence {index}"
    if np.ma.is_masked(part):
        raise DataError(f"{name} has masked values; fill them, or leave these columns out")
    if not issparse(part):
        try:
            part = np.asarray(part)
        except ValueError:
            raise DataError(
                f"{name} has rows of different lengths; all steps need the same columns"
            ) from None
    if part.dtype.kind not in "buif":
        raise DataError(
            f"{name} holds values of type {part.dtype}; an array of features must hold real numbers "
            "(columns that are not go in as dictionaries, {name: value} for each step)"
        )
    if part.shape == (0,) and not whole:
        return part
    if part.ndim != 2:
        raise DataError(f"{name} has shape {part.shape}; it must have shape (length, n_columns)")
    return part


def _check_finite(matrix: csr_array, offsets: IntArray) -> None:
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if bad.size:
        entry = int(bad[0])
        step = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise DataError(
            f"{step_name(offsets, step)} holds {matrix.data[entry]} in column {int(matrix.indices[entry])}; "
            "features must be finite numbers"
        )
