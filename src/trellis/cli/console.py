"""What commands write: results to stdout or (atomically) to a file, notes to stderr."""

from __future__ import annotations

import contextlib
import gzip
import sys
from collections.abc import Iterator
from typing import IO, cast


@contextlib.contextmanager
def binary_output(path: str) -> Iterator[IO[bytes]]:
    """Standard output for ``-``, else a file that appears under its name only when it is complete.

    A name that ends in ``.gz`` is compressed.
    """
    if path == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    from trellis.core.storage import atomic_writer

    with atomic_writer(path) as file:
        if path.endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped:
                yield cast(IO[bytes], zipped)
        else:
            yield file


def note(message: str) -> None:
    """A line for the person at the terminal; it never mixes with results."""
    print(message, file=sys.stderr)
