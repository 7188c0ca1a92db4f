"""Ragged data, packed: one array of values and the offsets of the sequences in it.

Lists go in and lists come out at the public interface (:meth:`Sequences.pack`, :meth:`Sequences.unpack`);
below it there is no Python loop over time steps or sequences. Sequence ``i`` is
``values[offsets[i]:offsets[i + 1]]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, TrellisError
from trellis.data.answers import Answers
from trellis.data.user_input import as_dense, frame_columns


@dataclass(frozen=True, eq=False)
class Sequences:
    """``values`` of all sequences end to end, and ``offsets`` (int64, one longer than the number of
    sequences).

    Answers have the form of the input: ``as_list`` says that it was a list, ``single`` that it was one array
    without ``lengths``, so one sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis import Sequences
    >>> batch = Sequences(np.array([1, 2, 3, 4, 5]), np.array([0, 2, 5]))
    >>> len(batch), batch[1].tolist()
    (2, [3, 4, 5])
    """

    values: NDArray[Any]
    offsets: IntArray
    as_list: bool = field(default=True, kw_only=True)
    single: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        check_offsets(self.offsets, self.values.shape[0])

    @classmethod
    def pack(
        cls,
        X: Any,
        lengths: ArrayLike | None = None,
        *,
        name: str = "X",
        check: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> Self:
        """Pack what a user gave as ``name``: a list (tuple, iterator, array of objects) with one array for
        each sequence, or one array or data frame that is one sequence, or with ``lengths`` several end to
        end. Masks are kept.

        ``check`` (see :mod:`trellis.data.row_checks`) takes the packed values and returns them as the model
        reads them; its errors about a row name the sequence and the step.
        """
        if not isinstance(X, np.ndarray | list | tuple):
            X = as_dense(X, name)
            X = np.asarray(X) if hasattr(X, "__array__") and not isinstance(X, np.ndarray) else X
        if isinstance(X, np.ndarray) and not (X.dtype == object and X.ndim == 1 and X.size and np.ndim(X[0])):
            if X.ndim == 0:
                raise DataError(f"{name} is the single value {X}; give an array of shape (length, ...)")
            packed = Sequences.from_lengths(X, [len(X)] if lengths is None else lengths, name)
            packed = replace(packed, single=lengths is None)
        elif lengths is not None:
            raise DataError(f"lengths belong to one array of all sequences, but {name} is a list; omit them")
        else:
            frame_columns(X, name)  # checks that they agree
            packed = Sequences.from_list(_as_list(X, name), name=name)
        try:
            values = packed.values if check is None else check(packed.values)
        except TrellisError as error:
            raise _with_place(error, packed.offsets) from error
        return cls(values, packed.offsets, as_list=packed.as_list, single=packed.single)

    @classmethod
    def from_list(cls, sequences: Sequence[ArrayLike], dtype: Any = None, name: str = "X") -> Sequences:
        """Pack a list of arrays (or lists) that agree in everything but their first axis."""
        masked = any(isinstance(sequence, np.ma.MaskedArray) for sequence in sequences)
        as_array: Any = np.ma.asarray if masked else np.asarray
        arrays: list[Any] = []
        for index, sequence in enumerate(sequences):
            sequence = as_dense(sequence, f"sequence {index} of {name}")
            try:
                arrays.append(as_array(sequence, dtype=dtype))
            except ValueError as error:
                raise DataError(
                    f"sequence {index} of {name} is ragged; every step must have the same shape"
                ) from error
        if not arrays:
            raise DataError(f"{name} has no sequences; give a list with at least one")
        shape = next((a.shape[1:] for a in arrays if a.size), arrays[0].shape[1:])
        for index, array in enumerate(arrays):
            if array.ndim == 0 or (array.size and array.shape[1:] != shape):
                raise DataError(
                    f"sequence {index} of {name} has shape {array.shape}; every sequence must have shape "
                    f"(length{''.join(f', {n}' for n in shape)})"
                )
        arrays = [a if a.shape[1:] == shape else a.reshape((0, *shape)) for a in arrays]
        try:
            values = (np.ma if masked else np).concatenate(arrays)
        except TypeError as error:
            raise DataError(f"the sequences of {name} contain values of different kinds ({error})") from error
        return cls(values, offsets_from_lengths([len(a) for a in arrays]))

    @classmethod
    def from_lengths(cls, values: NDArray[Any], lengths: ArrayLike, name: str = "X") -> Sequences:
        """One array and the length of each sequence in it (hmmlearn's habit)."""
        offsets = offsets_from_lengths(lengths)
        if offsets[-1] != len(values):
            turned = values.ndim == 2 and values.shape[1] == int(offsets[-1])
            hint = f" (it has {offsets[-1]} columns: give {name}.T)" * turned
            raise lengths_error(name, f"{len(values)} rows", offsets, hint)
        return cls(values, offsets, as_list=False)

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    @property
    def n_steps(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return self.n_sequences

    def __getitem__(self, index: int) -> NDArray[Any]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        index %= len(self)
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def to_list(self) -> list[NDArray[Any]]:
        return np.split(self.values, self.offsets[1:-1])

    def unpack(self, rows: NDArray[Any]) -> Any:
        """Values per step in the form in which the sequences came: a list of arrays, or one array."""
        return Answers(np.split(rows, self.offsets[1:-1])) if self.as_list else rows

    def unpack_each(self, items: Any) -> Any:
        """One item per sequence in the form in which the sequences came; a single sequence has its own."""
        return items[0] if self.single else Answers(items) if self.as_list else items

    def locate(self, row: int) -> tuple[int, int]:
        """The sequence and the step of a packed row."""
        return locate(self.offsets, row)

    def mean_per_step(self, totals: NDArray[np.float64]) -> float:
        """The sum of ``totals`` over the sequences, divided by the number of steps."""
        return mean_per_step(totals, self.n_steps)


def mean_per_step(totals: NDArray[np.float64], n_steps: int) -> float:
    """The sum of ``totals``, of sequences with ``n_steps`` steps in all, for each step."""
    if not n_steps:
        raise DataError("X has no steps to score; give at least one")
    return float(totals.sum() / n_steps)


def _as_list(X: Any, name: str) -> Any:
    if not isinstance(X, Iterable) or isinstance(X, Mapping):
        raise DataError(f"{name} is {X!r}; give a list of sequences, or one sequence as an array")
    sequences = X if isinstance(X, Sequence | np.ndarray) else list(X)
    if len(sequences) and (np.isscalar(sequences[0]) or sequences[0] is None):
        raise DataError(
            f"{name} is a list of single values; give a list of sequences, or one sequence as an array"
        )
    return sequences


def _with_place(error: TrellisError, offsets: IntArray) -> TrellisError:
    """An error about a row, as one about a step of a sequence."""
    if error.step is None:
        return error
    problem = str(error).removeprefix(f"row {error.step}: ")
    return type(error)(f"{step_name(offsets, error.step)}: {problem}", error.step)


def locate(offsets: IntArray, row: int) -> tuple[int, int]:
    """The sequence and the step of a packed row."""
    sequence = int(np.searchsorted(offsets, row, side="right")) - 1
    return sequence, int(row - offsets[sequence])


def sum_by_sequence(values: NDArray[Any], offsets: IntArray) -> FloatArray:
    """The sum of ``values`` over each sequence; 0 for one of no steps."""
    sums = np.zeros(len(offsets) - 1)
    filled = np.diff(offsets) > 0
    if filled.any():
        sums[filled] = np.add.reduceat(values, offsets[:-1][filled], dtype=np.float64)
    return sums


def step_name(offsets: IntArray, row: int) -> str:
    """How errors name the step of a packed row."""
    sequence, step = locate(offsets, row)
    return f"step {step} of sequence {sequence}"


def offsets_from_lengths(given: ArrayLike) -> IntArray:
    """Offsets ``[0, l0, l0 + l1, ...]`` of sequences of the given lengths."""
    lengths = np.asarray(given)
    if lengths.ndim != 1 or (lengths.size and not np.issubdtype(lengths.dtype, np.integer)):
        raise DataError(f"lengths is {given!r}; give a list of whole numbers, one for each sequence")
    if lengths.size and lengths.min() < 0:
        raise DataError(f"lengths must not be negative; lengths[{int(lengths.argmin())}] is {lengths.min()}")
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def lengths_error(name: str, found: str, offsets: IntArray, hint: str = "") -> DataError:
    """The error about ``lengths``, given as their sums ``offsets``, that do not fit what was ``found``."""
    lengths, total = np.diff(offsets), int(found.split()[0])
    if (
        not hint
        and len(lengths) > 1
        and lengths[0] == 0
        and lengths[-1] == total
        and (np.diff(lengths) >= 0).all()
    ):
        hint = " (they look like offsets: give their differences, numpy.diff(lengths))"
    return DataError(f"lengths add up to {offsets[-1]}, but {name} has {found}; they must be equal{hint}")


def check_same_lengths(offsets: IntArray, other: IntArray, name: str, of: str = "X") -> None:
    """Refuse what was given as ``name`` unless it has an item for each step; takes the offsets of both."""
    if len(offsets) != len(other):
        raise DataError(
            f"{of} has {len(offsets) - 1} sequences, but {name} has {len(other) - 1}; they must be equal"
        )
    lengths, others = np.diff(offsets), np.diff(other)
    different = np.flatnonzero(lengths != others)
    if different.size:
        i = different[0]
        raise DataError(
            f"sequence {i} has {lengths[i]} steps in {of}, but {others[i]} in {name}; they must be equal"
            # where no sequence fits, arrays may be the wrong way round
            + f" (steps are the rows of an array: give {of}.T if they are its columns)"
            * int(of == "X" and different.size == lengths.size)
        )


def take_runs(offsets: IntArray, chosen: IntArray) -> tuple[IntArray, IntArray]:
    """Indices of the members of the chosen runs (sequences), end to end, and the offsets of these runs."""
    lengths = np.diff(offsets)[chosen]
    new = offsets_from_lengths(lengths)
    return np.repeat(offsets[chosen] - new[:-1], lengths) + np.arange(new[-1]), new


def append_steps(first: IntArray, then: IntArray) -> tuple[IntArray, NDArray[np.bool_], IntArray]:
    """How to put each sequence of one batch before that of another, given the offsets of both.

    Returns the order of the rows of the two batches (stacked), which rows in that order are of the second
    batch, and the offsets of the joined sequences.
    """
    owner = np.concatenate([np.repeat(np.arange(len(o) - 1), np.diff(o)) for o in (first, then)])
    order = np.argsort(owner, kind="stable")  # within a sequence, rows of the first batch come first
    return order, order >= first[-1], first + then


def check_offsets(offsets: IntArray, n_values: int) -> None:
    """Kernels trust their offsets, so they are checked once, here."""
    if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n_values:
        raise DataError(f"offsets must run from 0 to the number of values ({n_values})")
    if np.any(np.diff(offsets) < 0):
        raise DataError(
            f"offsets must not decrease; they do after sequence {int(np.argmin(np.diff(offsets)))}"
        )
