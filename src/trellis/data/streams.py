"""Reading bytes from a path, standard input (``-``) or an open stream; gzip is recognised by its magic bytes.

Readers see UTF-8 bytes with ``\\n`` line ends, so that one tokeniser serves every encoding. Blocks of whole
sequences are cut at blank lines, in memory bounded by the block.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any, cast

from trellis.core.errors import DataError
from trellis.data.unfolded_gzip import UnfoldedGzip

Source = str | os.PathLike[str] | IO[bytes] | IO[str]

_GZIP_MAGIC = b"\x1f\x8b"
BOM = b"\xef\xbb\xbf"


def source_name(source: Source) -> str:
    """What error messages call the source."""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        return "<stdin>" if path == "-" else path
    return str(getattr(source, "name", "<stream>"))


def read_utf8(source: Source, encoding: str = "utf-8") -> bytes:
    """All of the source as UTF-8 bytes with ``\\n`` line ends."""
    with opened(source) as stream:
        data = stream.whole() if isinstance(stream, UnfoldedGzip) else stream.read()
    raw = data.encode() if isinstance(data, str) else data
    return to_utf8(raw, encoding, source_name(source), 1)


def iter_sequence_blocks(
    source: Source, sequences_per_block: int, encoding: str = "utf-8", comments: bool = False
) -> Iterator[tuple[bytes, int]]:
    """Blocks of whole sequences as UTF-8 bytes, each with the number of its first line (from 1).

    Blank lines (and, with ``comments``, comments) belong to the sequence that they precede; what follows the
    last sequence is dropped.
    """
    if sequences_per_block < 1:
        raise DataError(f"sequences_per_block is {sequences_per_block}; it must be at least 1")
    name = source_name(source)
    lines: list[bytes] = []
    first_line, sequences, inside, size = 1, 0, False, 0
    with opened(source) as stream:
        unfolded = stream if isinstance(stream, UnfoldedGzip) else None
        for data in stream if unfolded is None else unfolded.lines():
            line = data.encode() if isinstance(data, str) else data
            lines.append(line)
            size += len(line)
            if unfolded is not None:
                unfolded.check(size)
            if not line.isspace():
                inside = inside or not (comments and line.startswith(b"#"))
            elif inside:
                inside = False
                sequences += 1
                if sequences == sequences_per_block:
                    yield to_utf8(b"".join(lines), encoding, name, first_line), first_line
                    first_line, sequences, size = first_line + len(lines), 0, 0
                    lines.clear()
    if inside or sequences:
        yield to_utf8(b"".join(lines), encoding, name, first_line), first_line


def to_utf8(raw: bytes, encoding: str, name: str, first_line: int) -> bytes:
    """Check (or change) the encoding; an error names the line of the first invalid byte."""
    if first_line == 1:
        raw = raw.removeprefix(BOM)
    try:
        text = raw.decode(encoding)
    except UnicodeDecodeError as error:
        line = first_line + raw.count(b"\n", 0, error.start)
        likely = "utf-16" if raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "latin-1"
        raise DataError(
            f"{name}:{line}: byte 0x{raw[error.start]:02x} is not valid {encoding}; "
            f"give the encoding of the file, for instance encoding='{likely}' (--encoding {likely})"
        ) from None
    except LookupError:
        raise DataError(f"unknown encoding {encoding!r}; give one such as 'utf-8'") from None
    if encoding.lower().replace("_", "-") not in {"utf-8", "utf8", "ascii"}:
        raw = text.encode()
    return raw.replace(b"\r\n", b"\n") if b"\r" in raw else raw


@contextmanager
def opened(source: Source) -> Iterator[IO[Any]]:
    """The source as a stream of plain (unzipped) bytes or text; what the caller opened is left open."""
    with reading(source_name(source)):
        if not isinstance(source, str | os.PathLike):
            with _unzipped(source) as stream:
                yield stream
        elif os.fspath(source) == "-":
            with _unzipped(sys.stdin.buffer) as stream:
                yield stream
        else:
            with open(source, "rb") as file, _unzipped(file) as stream:
                yield stream


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What goes wrong in reading a file, in one sentence."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(f"{name}: the gzip data are damaged or cut short ({error})") from None
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error})") from None


@contextmanager
def _unzipped(stream: Any) -> Iterator[IO[Any]]:
    if isinstance(stream, io.TextIOBase):
        yield cast(IO[str], stream)
        return
    if hasattr(stream, "peek"):
        buffered, wrapped = stream, False
    else:
        buffered, wrapped = io.BufferedReader(stream), True
    try:
        if buffered.peek(2)[:2] == _GZIP_MAGIC:
            yield cast(IO[Any], UnfoldedGzip(buffered, source_name(stream)))
        else:
            yield buffered
    finally:
        if wrapped and not stream.closed:
            buffered.detach()  # else collecting the wrapper would close the caller's stream
