"""Numeric inputs: dense arrays and scipy sparse matrices, whose columns are the features.

``X`` is a list of (length, n_columns) arrays or matrices, or one of them with ``lengths``. A column keeps its
number. Zeros are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse, vstack

from trellis.core.arrays import AnyArray, BoolArray, IntArray
from trellis.core.errors import DataError
from trellis.core.file_checks import check_type
from trellis.core.registration import register
from trellis.data.row_checks import LARGEST, row_error
from trellis.data.sequences import Sequences, offsets_from_lengths, step_name
from trellis.data.user_input import as_arrays, frame_columns
from trellis.features.encoded import CodedEncoder, CodedSteps, Encoded


@dataclass(frozen=True, eq=False)
class ColumnCounts:
    """How many numbers of each column are not 0."""

    counts: NDArray[np.int64]

    def __add__(self, other: ColumnCounts) -> ColumnCounts:
        if len(self.counts) != len(other.counts):
            raise DataError(
                f"X has sequences of {len(self.counts)} and of {len(other.counts)} columns; all need the same"
            )
        return ColumnCounts(self.counts + other.counts)


@register
class ArrayEncoder(CodedEncoder):
    """Columns as features.

    ``min_count``: columns with fewer non-zeros in ``fit`` are ignored. ``transition_features``: ``True`` for
    all columns, or the numbers of those that also score transitions.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.features import ArrayEncoder
    >>> encoder = ArrayEncoder()
    >>> encoded = encoder.fit([np.array([[1.0, 0.0], [0.0, 2.0]])])
    >>> encoded.nodes.n_features, encoded.nodes.values.tolist()
    (2, [1.0, 2.0])
    """

    _key = (int, np.integer)
    _keys_are = "column numbers, for arrays"
    _kept: BoolArray = np.empty(0, np.bool_)
    _columns: tuple[str, ...] | None = None  # of the frames that it was fitted on

    def fit(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        self._columns = frame_columns(X)
        steps, width = _code_columns(X, lengths)
        self._set_columns(np.bincount(steps.codes, minlength=width) >= self.min_count)
        return self._encode(steps, self._ids())

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        self._check_columns(frame_columns(X))
        steps, width = _code_columns(X, lengths)
        if width != self.n_features:
            raise DataError(f"X has {width} columns, but there were {self.n_features} in training")
        return self._encode(steps, self._ids())

    encode = transform  # a zero of an array is no feature

    def count(self, X: Any, lengths: ArrayLike | None = None) -> ColumnCounts:
        steps, width = _code_columns(X, lengths)
        return ColumnCounts(np.bincount(steps.codes, minlength=width))

    def learn(self, counts: ColumnCounts) -> None:
        self._set_columns(counts.counts >= self.min_count)

    def feature_names(self) -> list[str]:
        return [f"x{j}" for j in range(self.n_features)]

    def to_state(self) -> dict[str, Any]:
        return {
            "min_count": self.min_count,
            "transition_features": self.transition_features,
            "kept": self._kept.astype(np.uint8),
            "columns": self._columns,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        encoder = cls(state["min_count"], state["transition_features"])
        check_type("the columns it knows", state["kept"], 1, np.uint8)
        encoder._set_columns(state["kept"].astype(np.bool_))
        columns = state.get("columns")  # files written before columns were kept have none
        if columns is not None:
            encoder._columns = tuple(map(str, columns))
        return encoder

    def _check_columns(self, found: tuple[str, ...] | None) -> None:
        """Frames must have the columns of training at their places; arrays cannot be asked."""
        if found is None or self._columns is None or found == self._columns:
            return
        if sorted(found) == sorted(self._columns):
            raise DataError(f"X has the columns of training in another order; give X[{list(self._columns)}]")
        raise DataError(f"X has the columns {list(found)}, but in training it had {list(self._columns)}")

    def _set_columns(self, kept: BoolArray) -> None:
        width, columns = len(kept), self.transition_features
        chosen = np.full(width, columns is True)
        for column in () if isinstance(columns, bool) else columns:
            if not -width <= column < width:
                raise DataError(
                    f"transition_features names column {column}, but X has {width} columns (from 0)"
                )
            chosen[column] = True
        self._kept = kept
        self._set_edges(chosen)

    def _ids(self) -> NDArray[np.int32]:
        return np.where(self._kept, np.arange(self.n_features), -1).astype(np.int32)


def _code_columns(X: Any, lengths: ArrayLike | None) -> tuple[CodedSteps, int]:
    """The non-zeros of all rows, coded by their columns, and the number of columns."""
    X = as_arrays(X)
    if lengths is None and (issparse(X) or (isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype != object)):
        raise DataError(
            f"X is one array of shape {X.shape}; pass lengths, or a list with one array for each sequence"
        )
    if issparse(X) or (isinstance(X, list | tuple) and any(map(issparse, X))):
        matrix, offsets = _stack_sparse([X] if issparse(X) else X, lengths)
    else:
        packed = Sequences.pack(X, lengths, check=_check_numbers)
        matrix, offsets = csr_array(packed.values, dtype=np.float64), packed.offsets
    if not offsets[-1]:
        raise DataError(f"X has {len(offsets) - 1} sequences and no steps; at least one step is needed")
    bad = np.flatnonzero(~(np.abs(matrix.data) <= LARGEST))
    if bad.size:
        entry = int(bad[0])
        step = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise DataError(
            f"{step_name(offsets, step)} holds {matrix.data[entry]} in column {int(matrix.indices[entry])}; "
            f"features must be finite numbers of at most {LARGEST:g} in size"
        )
    codes, indptr = matrix.indices.astype(np.int32, copy=False), matrix.indptr.astype(np.int64)
    return CodedSteps(codes, matrix.data, indptr, offsets), matrix.shape[1]


def _stack_sparse(blocks: Any, lengths: ArrayLike | None) -> tuple[csr_array, IntArray]:
    """Matrices (and arrays) below each other, without stored zeros, and the offsets of the sequences."""
    blocks = [block if issparse(block) else _dense(block, i) for i, block in enumerate(blocks)]
    filled = [block for block in blocks if block.shape != (0,)]
    for block in filled:
        _check_numbers(block)
        if block.shape[1] != filled[0].shape[1]:
            raise DataError(
                f"X has matrices of {filled[0].shape[1]} and of {block.shape[1]} columns; all sequences need "
                "the same columns"
            )
    matrix = csr_array(vstack(filled, format="csr"), dtype=np.float64, copy=len(filled) == 1)
    matrix.eliminate_zeros()
    if lengths is None:
        return matrix, offsets_from_lengths([np.shape(block)[0] for block in blocks])
    return matrix, Sequences.from_lengths(np.broadcast_to(np.nan, matrix.shape), lengths).offsets


def _dense(block: Any, index: int) -> AnyArray:
    """A sequence that stands among sparse ones."""
    try:
        return np.asanyarray(as_arrays(block))
    except ValueError as error:
        raise DataError(f"sequence {index} of X is ragged; every step must have the same shape") from error


def _check_numbers(rows: AnyArray) -> AnyArray:
    if rows.dtype.kind not in "buif":
        raise DataError(
            f"X holds values of type {rows.dtype}; arrays of features must hold real numbers (give other "
            "columns as dictionaries, {name: value} for each step)"
        )
    if rows.ndim != 2 and rows.shape != (0,):
        hint = "; if its first axis counts sequences, give list(X)" if rows.ndim == 3 else ""
        raise DataError(
            f"X has rows of shape {rows.shape[1:]}; a sequence has shape (length, n_columns){hint}"
        )
    if np.ma.is_masked(rows):
        row, column = np.argwhere(np.ma.getmaskarray(rows))[0]
        raise row_error(row, f"column {column} of X is masked; fill it, or leave the column out")
    return np.asarray(rows) if isinstance(rows, np.ma.MaskedArray) else rows
