"""What gzip data unfold to, which may not be much more than they are.

They unfold to at most ``MAX_RATIO`` times their size (``ALWAYS_FINE`` bytes are fine in any case), and what
is held at once is at most a quarter of the free memory, because text that has been read takes several times
its size.
"""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Iterator
from typing import IO, Any, cast

from trellis.core.errors import DataError
from trellis.core.free_memory import free_memory

MAX_RATIO = 200  # of text that people write it is 3 to 30; gzip itself can reach 1,032
ALWAYS_FINE = 64 * 2**20
_CHUNK = 2**20


class UnfoldedGzip(io.BufferedReader):
    """The plain bytes of a gzip stream; ``name`` is what errors call it."""

    def __init__(self, stream: Any, name: str) -> None:
        super().__init__(cast(io.RawIOBase, _Unfolding(stream, name)), _CHUNK)
        self.title = name
        self.free = free_memory()
        self.at_once = sys.maxsize - 1 if self.free is None else max(self.free // 4, ALWAYS_FINE)

    def whole(self) -> bytes:
        parts, size = [], 0
        while part := self.read(16 * _CHUNK):
            parts.append(part)
            size += len(part)
            self.check(size)
        return b"".join(parts)

    def lines(self) -> Iterator[bytes]:
        while line := self.readline(self.at_once + 1):
            self.check(len(line))
            yield line

    def check(self, size: int) -> None:
        """Whether so many bytes may be held at once."""
        if size > self.at_once:
            raise DataError(
                f"{self.title}: the gzip data expand to more than {self.at_once / 2**30:.1f} GiB to be held "
                f"at once, and {(self.free or 0) / 2**30:.1f} GiB of memory are free; split the file, or "
                "read it where there is more memory"
            )


class _Unfolding(io.RawIOBase):
    def __init__(self, stream: Any, name: str) -> None:
        self.packed, self.title, self.count = _Counted(stream), name, 0
        self.file = gzip.GzipFile(fileobj=cast(IO[bytes], self.packed))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self.file.readinto(buffer)
        self.count += size
        if self.count > max(ALWAYS_FINE, MAX_RATIO * self.packed.count):
            raise DataError(
                f"{self.title}: the gzip data expand to more than {MAX_RATIO} times their size; if that is "
                "right, unpack the file and give the unpacked one"
            )
        return size


class _Counted(io.RawIOBase):
    """Compressed bytes, and how many have been read."""

    def __init__(self, stream: Any) -> None:
        self.stream, self.count = stream, 0

    def read(self, size: int = -1) -> bytes:
        data: bytes = self.stream.read(size)
        self.count += len(data)
        return data
