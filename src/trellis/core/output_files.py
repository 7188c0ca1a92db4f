"""Writing files so that nothing is lost: a path holds the whole old file or the whole new one.

A file is written under a temporary name in the same folder, forced to disk, and replaces the old file in one
step. The temporary name is ``.NAME.0.partial``, with a larger number if another process is writing the same
file. Its writer holds a lock on it, so what a killed process has left is known by its missing lock, and the
next write of the same file removes it.

What is no regular file (a pipe, a device, ``/dev/stdout``) is never replaced: it is opened and written into.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import stat
import sys
import time
from collections.abc import Iterator
from typing import IO, NamedTuple

from trellis.core.errors import DataError, ModelFileError

if sys.platform != "win32":
    import fcntl

PathLike = str | os.PathLike[str]
Target = PathLike | IO[bytes]

_BINARY = getattr(os, "O_BINARY", 0)  # Windows would otherwise translate line ends
_NAME_BYTES = 100  # of the file's name in that of its temporary file: names have at most 255 bytes
_WRITERS = 1000  # at the same time, of one file
_SWEPT = 8  # further temporary names that each write looks at
_OLD = 24 * 3600.0  # seconds after which a temporary file is taken as left behind where there are no locks
_LINKS = 40  # symbolic links in a row, as Linux counts


class _Place(NamedTuple):
    """Where a path leads: a regular file (there or not), else a device or an open descriptor."""

    shown: str
    target: str
    regular: bool = True
    descriptor: int | None = None


@contextlib.contextmanager
def atomic_writer(path: Target) -> Iterator[IO[bytes]]:
    """A binary file that replaces ``path`` if the block succeeds, and is removed if it does not.

    A symbolic link is followed: the file it points to is replaced and the link stays. An existing file keeps
    its permissions; a new one gets those that ``open`` would have given it. A pipe or a device is written
    into as it is, and so is a stream that is given instead of a path.
    """
    if not isinstance(path, str | os.PathLike):
        yield path
        path.flush()
        return
    place = _resolve(path)
    with _replaced(place) if place.regular else _straight(place) as file:
        yield file


@contextlib.contextmanager
def atomic_text(path: PathLike) -> Iterator[IO[str]]:
    """As :func:`atomic_writer`, for text in UTF-8 whose lines end with ``\\n``."""
    with atomic_writer(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="\n")
        try:
            yield text
        except UnicodeEncodeError as error:
            found = error.object[error.start : error.end]
            raise DataError(f"{os.fspath(path)}: {found!r} cannot be written as UTF-8") from error
        finally:
            text.detach()  # writes what is left; the file is closed by its own block


def check_destination(path: PathLike) -> None:
    """Raise a ``ModelFileError`` unless a file can be written to ``path``; it changes nothing.

    For commands that work for long before they write.
    """
    place = _resolve(path)
    try:
        if place.descriptor is not None:
            os.fstat(place.descriptor)
        elif not place.regular:
            if not os.access(place.target, os.W_OK):
                raise PermissionError(0, "Permission denied")
        else:
            descriptor, temporary = _open_partial(place.target)
            os.close(descriptor)
            os.unlink(temporary)
    except OSError as error:
        raise _cannot_write(place.shown, error) from error


def check_folder(path: PathLike) -> None:
    """Raise a ``ModelFileError`` unless files can be written to a folder, which need not be there yet."""
    shown = os.fspath(path)
    try:
        there = os.path.realpath(shown)
        while not os.path.lexists(there):
            there = os.path.dirname(there)
    except ValueError as error:  # a null character
        raise _cannot_write(shown, error) from error
    if not os.path.isdir(there):
        raise ModelFileError(f"{shown}: {there} is a file; give a folder for the results")
    check_destination(os.path.join(there, "results"))


def remove_partial(stem: PathLike) -> None:
    """Delete temporary files that killed processes left of files called ``stem`` with any suffix."""
    folder, name = os.path.split(os.path.realpath(stem))
    for left in glob.glob(f".{glob.escape(_shortened(name))}.*.partial", root_dir=folder):
        _remove_abandoned(os.path.join(folder, left))


def _resolve(path: PathLike) -> _Place:
    shown = os.fspath(path)
    try:
        descriptor = _named_descriptor(shown)
        if descriptor is not None:
            return _Place(shown, shown, False, descriptor)
        mode = _mode(shown)
        if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            return _Place(shown, shown, False)
        target = os.path.realpath(shown)
    except (OSError, ValueError) as error:  # ValueError: a null character
        raise _cannot_write(shown, error) from error
    folder = os.path.dirname(target)
    if os.path.isdir(target) or not os.path.basename(shown):
        raise ModelFileError(f"{shown}: this is a folder; give the path of a file to write")
    if not os.path.isdir(folder):
        raise ModelFileError(f"{shown}: the folder {folder} does not exist; make it first")
    return _Place(shown, target)


def _mode(path: str) -> int | None:
    """Type and permissions of what a path leads to, None if there is nothing."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _named_descriptor(path: str) -> int | None:
    """N if the path is ``/dev/fd/N``, or a link there, as ``/dev/stdout`` is.

    Opening such a path anew would begin at the start of the file that the descriptor is writing to.
    """
    if not os.path.isdir("/dev/fd"):
        return None
    folder = os.path.realpath("/dev/fd")
    for _ in range(_LINKS):
        parent, name = os.path.split(path)
        if name.isascii() and name.isdecimal() and len(name) < 10 and os.path.realpath(parent) == folder:
            return int(name)
        if not os.path.islink(path):
            return None
        path = os.path.join(parent, os.readlink(path))
    return None


@contextlib.contextmanager
def _straight(place: _Place) -> Iterator[IO[bytes]]:
    """A pipe, a device or an open descriptor, written into as it is."""
    try:
        if place.descriptor is None:
            number = os.open(place.target, os.O_WRONLY | _BINARY)
        else:
            number = os.dup(place.descriptor)
    except OSError as error:
        raise _cannot_write(place.shown, error) from error
    try:
        with os.fdopen(number, "wb") as file:
            yield file
    except OSError as error:
        raise ModelFileError(f"{place.shown}: writing failed ({_reason(error)})") from error


@contextlib.contextmanager
def _replaced(place: _Place) -> Iterator[IO[bytes]]:
    try:
        mode = _permissions(place.target)
        descriptor, temporary = _open_partial(place.target)
    except OSError as error:
        raise _cannot_write(place.shown, error) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # while the lock is held
                os.chmod(temporary, mode)
                os.replace(temporary, place.target)
        if sys.platform == "win32":  # which renames no open file
            os.chmod(temporary, mode)
            os.replace(temporary, place.target)
    # Ctrl-C as well must not leave the temporary file behind; always raised again
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise ModelFileError(
                f"{place.shown}: writing failed ({_reason(error)}); an existing file is unchanged"
            ) from error
        raise
    _sync_folder(os.path.dirname(place.target))


def _open_partial(target: str) -> tuple[int, str]:
    """A new temporary file beside the target, open and locked, and its path."""
    number = 0
    while number < _WRITERS:
        path = _partial_path(target, number)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        except FileExistsError:
            number += not _remove_abandoned(path)
            continue
        if _lock(descriptor) is not False and _is_at(descriptor, path):
            for further in range(number + 1, number + 1 + _SWEPT):
                _remove_abandoned(_partial_path(target, further))
            return descriptor, path
        os.close(descriptor)  # another process took it for one left behind, and is removing it
        number += 1
    raise OSError(0, f"{_WRITERS} processes are writing it")


def _partial_path(target: str, number: int) -> str:
    folder, name = os.path.split(target)
    return os.path.join(folder, f".{_shortened(name)}.{number}.partial")


def _shortened(name: str) -> str:
    return name.encode(errors="ignore")[:_NAME_BYTES].decode(errors="ignore")


def _remove_abandoned(path: str) -> bool:
    """Remove a temporary file if its writer is dead; whether it is gone."""
    try:
        if sys.platform == "win32":  # which removes no open file
            if time.time() - os.lstat(path).st_mtime > _OLD:
                os.unlink(path)
                return True
            return False
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(descriptor)
            locked = _lock(descriptor)
            dead = time.time() - found.st_mtime > _OLD if locked is None else locked
            if dead and stat.S_ISREG(found.st_mode) and _is_at(descriptor, path):
                os.unlink(path)
                return True
            return False
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return True
    except OSError:  # another user's, or no file
        return False


def _lock(descriptor: int) -> bool | None:
    """Lock an open file until it is closed: whether no other process has. None where there are no locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network drives
        return None
    return True


def _is_at(descriptor: int, path: str) -> bool:
    """Whether the open file still has this path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _permissions(target: str) -> int:
    """The permission bits of the existing file, or those the umask gives to a new one."""
    mode = _mode(target)
    if mode is not None:
        return stat.S_IMODE(mode)
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask


def _sync_folder(folder: str) -> None:
    """Force the renaming to disk as well, where the system lets us open the folder."""
    if hasattr(os, "O_DIRECTORY"):
        with contextlib.suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _cannot_write(shown: str, error: Exception) -> ModelFileError:
    return ModelFileError(f"{shown}: cannot write here ({_reason(error)}); choose another path")


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
