"""The file format of saved models: safetensors with a JSON header, versioned, written atomically.

The arrays are ordinary safetensors, so any tool that knows that format can read them. The metadata have one
entry, ``"trellis"``: the format version, the version of the package that wrote the file, the ``kind`` of
object, its ``meta`` (plain JSON), and a CRC-32 of all of these and of the arrays. Nothing in a file is ever
executed, so a model from a stranger is safe to open; it is never a pickle.

A file is written to a temporary name in the same folder, forced to disk, and replaces the old file in one
step. Whatever stops the program, the path holds either the whole old file or the whole new one.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import stat
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors
import safetensors.numpy
from numpy.typing import NDArray

from trellis import __version__
from trellis.core.errors import DataError, ModelFileError

FORMAT_VERSION = 1
_KEY = "trellis"
_DTYPES = frozenset(
    np.dtype(name) for name in ("<f8", "<f4", "<i8", "<i4", "<u8", "<u4", "<u2", "|u1", "|b1")
)
_AGAIN = "copy it again, or train it again"

PathLike = str | os.PathLike[str]


def save(path: PathLike, kind: str, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write ``arrays`` and the JSON-able ``meta`` to ``path`` as an object of the given ``kind``."""
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
    content = safetensors.numpy.save(packed, metadata={_KEY: json.dumps(head)})
    with atomic_writer(path) as file:
        file.write(content)


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
        newer = version > FORMAT_VERSION
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{shown}: this is not a Trellis model, or it is damaged; {_AGAIN}") from error
    if newer:
        raise ModelFileError(
            f"{shown}: written in format {version} by trellis {head.get('package_version')}; this is trellis "
            f"{__version__}, which reads formats up to {FORMAT_VERSION}; update trellis to open it"
        )
    if head.pop("checksum", None) != _checksum(head, arrays):
        raise ModelFileError(f"{shown}: the file is damaged (its checksum is wrong); {_AGAIN}")
    return head["kind"], head["meta"], arrays


@contextlib.contextmanager
def atomic_writer(path: PathLike) -> Iterator[IO[bytes]]:
    """A binary file that replaces ``path`` if the block succeeds, and is removed if it does not.

    A symbolic link is followed: the file it points to is replaced and the link stays. An existing file keeps
    its permissions; a new one gets those that ``open`` would have given it.
    """
    shown = os.fspath(path)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if os.path.isdir(target):
        raise ModelFileError(f"{shown}: this is a folder; give the path of a file to write")
    if not os.path.isdir(folder):
        raise ModelFileError(f"{shown}: the folder {folder} does not exist; make it first")
    try:
        mode = _mode_for(target)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name[:64]}.", suffix=".partial", dir=folder)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ModelFileError(f"{shown}: cannot write here ({reason}); choose another path") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except (
        BaseException
    ) as error:  # Ctrl-C as well must not leave the temporary file behind; always raised again
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            reason = error.strerror or str(error)
            raise ModelFileError(
                f"{shown}: writing failed ({reason}); an existing file is unchanged"
            ) from error
        raise
    _sync_folder(folder)


def remove_partial(stem: PathLike) -> None:
    """Delete temporary files that killed processes left of files called ``stem`` with any suffix."""
    folder, name = os.path.split(os.path.realpath(stem))
    for left in glob.glob(f".{glob.escape(name)}.*.partial", root_dir=folder):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, left))


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
        checksum = zlib.crc32(arrays[name].tobytes(), checksum)
    return checksum


def _mode_for(target: str) -> int:
    """The permission bits of the existing file, or those the umask gives to a new one."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return 0o666 & ~umask


def _sync_folder(folder: str) -> None:
    """Force the renaming to disk as well, where the system can open folders."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
