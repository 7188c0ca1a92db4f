"""The file format of saved models: safetensors with a JSON header, versioned, written atomically.

The arrays are ordinary safetensors, so any tool that knows that format can read them. The metadata have one
entry, ``"trellis"``: the format version, the version of the package that wrote the file, the ``kind`` of
object, its ``meta`` (plain JSON), and a CRC-32 of all of these and of the arrays. Nothing in a file is ever
executed, so a model from a stranger is safe to open; it is never a pickle.

Whatever stops the program, the path holds either the whole old file or the whole new one
(:mod:`trellis.core.output_files`).
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from trellis import __version__
from trellis.core.errors import DataError, ModelFileError
from trellis.core.output_files import PathLike as PathLike
from trellis.core.output_files import Target, atomic_writer

FORMAT_VERSION = 1
_KEY = "trellis"
_NAMES = {"<f8": "F64", "<f4": "F32", "<i8": "I64", "<i4": "I32", "<u8": "U64", "<u4": "U32", "<u2": "U16",
          "|u1": "U8", "|b1": "BOOL"}  # fmt: skip
_DTYPES = frozenset(np.dtype(name) for name in _NAMES)
_AGAIN = "copy it again, or train it again"


def save(path: Target, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write ``arrays`` and the JSON-able ``meta`` to a path (or an open binary stream) as an object of this
    ``kind``."""
    packed = {name: _storable(name, array) for name, array in arrays.items()}
    head = {
        "format": _KEY,
        "format_version": FORMAT_VERSION,
        "package_version": __version__,
        "kind": kind,
        "meta": dict(meta),
    }
    try:
        head = json.loads(json.dumps(head, default=_number))  # the checksum is of what a reader will see
    except (TypeError, ValueError) as error:
        raise DataError(
            f"this {kind} cannot be saved: its description is not plain JSON ({error})"
        ) from error
    head["checksum"] = _checksum(head, packed)
    with atomic_writer(path) as file:
        _write(file, packed, json.dumps(head))


def _write(file: IO[bytes], arrays: Mapping[str, NDArray[Any]], head: str) -> None:
    """The format of safetensors, array by array: its own writer copies everything twice, and a checkpoint is
    as large as what is being trained. The widest types come first, so that all are aligned."""
    names = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    listed: dict[str, Any] = {"__metadata__": {_KEY: head}}
    end = 0
    for name in names:
        array = arrays[name]
        begin, end = end, end + array.nbytes
        listed[name] = {
            "dtype": _NAMES[array.dtype.str],
            "shape": list(array.shape),
            "data_offsets": [begin, end],
        }
    header = json.dumps(listed, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    file.write(len(header).to_bytes(8, "little"))
    file.write(header)
    for name in names:
        file.write(_bytes_of(arrays[name]))


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _number(value: object) -> Any:
    """Scalars of NumPy as Python numbers: options often come out of an array."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def read(path: PathLike) -> tuple[str, dict[str, Any], dict[str, NDArray[Any]]]:
    """The ``(kind, meta, arrays)`` that :func:`save` wrote to ``path``."""
    shown = os.fspath(path)
    content = _content(shown)
    try:
        arrays = {name: np.array(array) for name, array in safetensors.numpy.load(content).items()}
        length = int.from_bytes(content[:8], "little")
        head = json.loads(json.loads(content[8 : 8 + length])["__metadata__"][_KEY])
        version = head["format_version"]
        if not isinstance(version, int):
            raise TypeError("the format is a whole number")
        newer = version > FORMAT_VERSION
        foreign = {array.dtype for array in arrays.values()} - _DTYPES
    except (
        safetensors.SafetensorError,
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ModelFileError(f"{shown}: this is not a Trellis model, or it is damaged; {_AGAIN}") from error
    if newer:
        raise ModelFileError(
            f"{shown}: written in format {version} by trellis {head.get('package_version')}; this is trellis "
            f"{__version__}, which reads formats up to {FORMAT_VERSION}; update trellis to open it"
        )
    if foreign or head.pop("checksum", None) != _checksum(head, arrays):
        raise ModelFileError(f"{shown}: the file is damaged (its checksum is wrong); {_AGAIN}")
    kind, meta = head.get("kind"), head.get("meta")
    if not isinstance(kind, str) or not isinstance(meta, dict):
        raise ModelFileError(f"{shown}: the file does not say what it contains; {_AGAIN}")
    return kind, meta, arrays


def _content(shown: str) -> bytes:
    if os.path.isdir(shown):
        raise ModelFileError(f"{shown}: this is a folder; give the path of a model file")
    try:
        return Path(shown).read_bytes()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()  # "no such file or directory", "permission denied"
        raise ModelFileError(f"{shown}: {reason}; check the path") from error


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    little_endian = array.dtype.newbyteorder("<")
    if little_endian not in _DTYPES:
        known = ", ".join(sorted(str(dtype) for dtype in _DTYPES))
        raise DataError(f"array {name!r} has type {array.dtype}, which cannot be saved; use one of {known}")
    return np.require(array, little_endian, "C")


def _checksum(head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> int:
    """CRC-32 of the header, then of name, type, shape and bytes of each array, in the order of the names."""
    names = sorted(arrays)
    shapes = [[name, arrays[name].dtype.str, list(arrays[name].shape)] for name in names]
    checksum = zlib.crc32(json.dumps([head, shapes], sort_keys=True).encode())
    for name in names:
        checksum = zlib.crc32(_bytes_of(arrays[name]), checksum)
    return checksum
