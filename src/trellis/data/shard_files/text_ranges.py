"""Bytes of a file from one place to another, counted in its plain text; gzip files are unfolded up to there.

Shards of one gzip file are mostly read one after the other. So the streams that were read last stay open, and
the next range goes on from there instead of unfolding the file from its beginning.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO, Any

from trellis.core.errors import DataError
from trellis.data.streams import opened, reading
from trellis.data.unfolded_gzip import UnfoldedGzip

_CHUNK = 4 * 2**20
_KEPT_OPEN = 8


def read_head(path: str, size: int) -> bytes:
    """The first whole lines of a file, about ``size`` bytes of plain text; all of a smaller file."""
    with opened(path) as stream:
        head: bytes = stream.read(size)
        if len(head) < size:
            return head
        return head[: head.rfind(b"\n") + 1] or head


def iter_whole_lines(path: str) -> Iterator[bytes]:
    """All of a file in pieces that end with a line, as far as there are line ends."""
    rest: list[bytes] = []
    with opened(path) as stream:
        check = stream.check if isinstance(stream, UnfoldedGzip) else None
        while chunk := stream.read(_CHUNK):
            end = chunk.rfind(b"\n") + 1
            if end:
                yield b"".join([*rest, chunk[:end]])
                rest = []
            if end < len(chunk):
                rest.append(chunk[end:])
            if check is not None:
                check(sum(map(len, rest)))
    if rest:
        yield b"".join(rest)


def read_range(path: str, start: int, stop: int) -> bytes:
    """Plain text from byte ``start`` to before ``stop``."""
    cursor = _taken(path, start)
    try:
        text = cursor.read(start, stop)
    except BaseException:
        cursor.close()
        raise
    _give_back(cursor)
    if len(text) != stop - start:
        raise DataError(f"{path}: the file is shorter than when it was cut into shards; start again")
    return text


@dataclass
class _Cursor:
    """An open file and the place in its plain text up to which it has been read."""

    path: str
    stack: ExitStack
    stream: IO[Any]
    version: tuple[int, int]
    process: int = field(default_factory=os.getpid)
    place: int = 0

    @classmethod
    def opened(cls, path: str, version: tuple[int, int]) -> _Cursor:
        stack = ExitStack()
        return cls(path, stack, stack.enter_context(opened(path)), version)

    def read(self, start: int, stop: int) -> bytes:
        with reading(self.path):
            if not isinstance(self.stream, UnfoldedGzip):
                self.stream.seek(start)
                return bytes(self.stream.read(stop - start))
            while self.place < start:
                skipped = len(self.stream.read(min(_CHUNK, start - self.place)))
                if not skipped:
                    break
                self.place += skipped
            self.stream.check(stop - start)
            text = bytes(self.stream.read(stop - start))
            self.place += len(text)
            return text

    def close(self) -> None:
        self.stack.close()


_lock = threading.Lock()
_open: list[_Cursor] = []


def _taken(path: str, start: int) -> _Cursor:
    """A gzip stream that is open before ``start``, the nearest one, or a new stream."""
    with reading(path):
        found = os.stat(path)
    version = (found.st_size, found.st_mtime_ns)
    with _lock:
        usable = [
            one
            for one in _open
            if one.path == path
            and one.version == version
            and one.place <= start
            and one.process == os.getpid()
        ]
        if usable:
            best = max(usable, key=lambda one: one.place)
            _open.remove(best)
            return best
    return _Cursor.opened(path, version)


def _give_back(cursor: _Cursor) -> None:
    if not isinstance(cursor.stream, UnfoldedGzip):
        cursor.close()
        return
    with _lock:
        _open.append(cursor)
        dropped = _open[:-_KEPT_OPEN]
        del _open[:-_KEPT_OPEN]
    for one in dropped:
        one.close()
