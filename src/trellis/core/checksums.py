"""A checksum of data and options: the same in every process, another one for other values.

64 bits of BLAKE2b over types, shapes and values; arrays enter it by their CRC-32, which costs little more
than reading them. Python functions, and objects of unknown classes, count by their names alone: what they do
cannot be read off them.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def checksum(value: Any) -> str:
    """Sixteen hexadecimal digits."""
    return _digest(value).hex()


def _digest(value: Any) -> bytes:
    into = hashlib.blake2b(digest_size=8)
    _add(into, value)
    return into.digest()


def _add(into: Any, value: Any) -> None:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        into.update(f"{type(value).__name__} {value!r}\n".encode(errors="backslashreplace"))
    elif isinstance(value, np.ndarray):
        _add_array(into, value)
    elif _has_method(value, "tocsr"):
        rows = value.tocsr()
        _add_parts(into, "sparse", [rows.shape, rows.data, rows.indices, rows.indptr])
    elif isinstance(value, list | tuple):
        if all(type(item) is str for item in value):  # words: at once
            into.update(f"words {len(value)} {[len(item) for item in value]}\n".encode())
            into.update("".join(value).encode(errors="backslashreplace"))
        else:
            _add_parts(into, "list", value)
    elif isinstance(value, set | frozenset):
        _add_parts(into, "set", sorted(_digest(item) for item in value))
    elif isinstance(value, Mapping):
        _add_parts(into, "mapping", sorted(_digest(item) for item in value.items()))
    elif isinstance(value, os.PathLike):
        _add(into, os.fspath(value))
    else:
        _add_object(into, value)


def _add_parts(into: Any, kind: str, parts: Any) -> None:
    into.update(f"{kind} {len(parts)}\n".encode())
    for part in parts:
        _add(into, part)


def _add_array(into: Any, array: np.ndarray[Any, Any]) -> None:
    if array.dtype == object:
        _add_parts(into, f"objects {array.shape}", array.ravel().tolist())
        return
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    into.update(f"array {array.dtype.str} {array.shape} {zlib.crc32(content)}\n".encode())


def _add_object(into: Any, value: Any) -> None:
    name = getattr(value, "__qualname__", type(value).__qualname__)
    if _has_method(value, "get_params") and not isinstance(value, type):
        _add_parts(into, name, sorted(value.get_params(deep=False).items()))
    elif is_dataclass(value) and not isinstance(value, type):
        _add_parts(into, name, [(f.name, getattr(value, f.name)) for f in fields(value) if f.init])
    elif hasattr(value, "to_numpy") or hasattr(value, "__array__"):  # a frame, a series, a tensor
        _add_parts(into, name, [list(map(str, getattr(value, "columns", ()))), np.asarray(value)])
    elif hasattr(value, "to_state"):
        _add_parts(into, name, [value.to_state()])
    else:
        into.update(f"object {name}\n".encode())


def _has_method(value: Any, name: str) -> bool:
    """A frame may have a column of that name."""
    return callable(getattr(value, name, None))
