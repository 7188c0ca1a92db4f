"""Arrays in files, some rows of which are read without the others: .npy, .npz and safetensors."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from tokenize import TokenError
from typing import Any, ClassVar, Protocol, cast

import numpy as np

from trellis.core.arrays import AnyArray
from trellis.core.errors import DataError
from trellis.data.streams import reading


class ArrayStore(Protocol):
    """The arrays of one open file, by name."""

    def names(self) -> list[str]: ...

    def shape(self, name: str) -> tuple[int, ...]: ...

    def dtype(self, name: str) -> np.dtype[Any]: ...

    def rows(self, name: str, start: int, stop: int) -> AnyArray:
        """Rows ``start`` to before ``stop``, in memory of their own."""


@contextmanager
def open_store(path: str, format: str) -> Iterator[ArrayStore]:
    """The arrays of a file; damage is one sentence."""
    from safetensors import SafetensorError

    kinds: dict[str, Any] = {"npy": _NpyStore, "npz": _NpzStore, "safetensors": _SafetensorsStore}
    try:
        with reading(path), kinds[format](path) as store:
            yield store
    except (zipfile.BadZipFile, SafetensorError, EOFError, zlib.error, TokenError) as error:
        raise DataError(f"{path}: the file is damaged or cut short ({error})") from error
    except ValueError as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: this is not a file of numbers, or it is cut short ({error})") from error


class _NpyStore:
    """A .npy file: one array, called X."""

    def __init__(self, path: str) -> None:
        self._array = np.load(path, mmap_mode="r", allow_pickle=False)

    def __enter__(self) -> _NpyStore:
        return self

    def __exit__(self, *_: object) -> None:
        del self._array

    def names(self) -> list[str]:
        return ["X"]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._array.shape)

    def dtype(self, name: str) -> np.dtype[Any]:
        return cast(np.dtype[Any], self._array.dtype)

    def rows(self, name: str, start: int, stop: int) -> AnyArray:
        return np.array(self._array[start:stop])


class _NpzStore:
    """An archive of .npy files, compressed or not; rows are read from the stream of a member."""

    def __init__(self, path: str) -> None:
        with _whole_archive():
            self._archive = zipfile.ZipFile(path)

    def __enter__(self) -> _NpzStore:
        return self

    def __exit__(self, *_: object) -> None:
        self._archive.close()

    def names(self) -> list[str]:
        return [name.removesuffix(".npy") for name in self._archive.namelist() if name.endswith(".npy")]

    def _member(self, name: str) -> Any:
        with _whole_archive():
            return self._archive.open(f"{name}.npy")

    def shape(self, name: str) -> tuple[int, ...]:
        with self._member(name) as stream:
            return _header(stream)[0]

    def dtype(self, name: str) -> np.dtype[Any]:
        with self._member(name) as stream:
            return _header(stream)[2]

    def rows(self, name: str, start: int, stop: int) -> AnyArray:
        with self._member(name) as stream:
            shape, by_column, dtype = _header(stream)
            if dtype.hasobject:
                raise DataError(f"array {name} contains Python objects, which are never read from files")
            if by_column and len(shape) > 1:
                stream.seek(0)
                return np.array(np.lib.format.read_array(stream)[start:stop])
            size = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
            stream.seek(stream.tell() + start * size)
            content = stream.read((stop - start) * size)
            return np.frombuffer(bytearray(content), dtype).reshape((stop - start, *shape[1:]))


@contextmanager
def _whole_archive() -> Iterator[None]:
    """What zipfile says of a damaged archive in other words: an unknown version, compression or password."""
    try:
        yield
    except (RuntimeError, struct.error, OverflowError) as error:
        raise zipfile.BadZipFile(str(error)) from error


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns are contiguous, and type; the stream is behind the header then."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(stream)
    return tuple(shape), bool(by_column), dtype


class _SafetensorsStore:
    _TYPES: ClassVar[dict[str, str]] = {
        "F64": "f8",
        "F32": "f4",
        "F16": "f2",
        "I64": "i8",
        "I32": "i4",
        "I16": "i2",
        "I8": "i1",
        "U64": "u8",
        "U32": "u4",
        "U16": "u2",
        "U8": "u1",
        "BOOL": "?",
    }

    def __init__(self, path: str) -> None:
        from safetensors import safe_open

        self._file: Any = safe_open(path, framework="numpy")

    def __enter__(self) -> _SafetensorsStore:
        self._file.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(*error)

    def names(self) -> list[str]:
        return list(self._file.keys())

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._file.get_slice(name).get_shape())

    def dtype(self, name: str) -> np.dtype[Any]:
        kind = self._file.get_slice(name).get_dtype()
        if kind not in self._TYPES:
            raise DataError(f"array {name} holds values of type {kind}, which NumPy does not have")
        return np.dtype(self._TYPES[kind])

    def rows(self, name: str, start: int, stop: int) -> AnyArray:
        return np.array(self._file.get_slice(name)[start:stop])
