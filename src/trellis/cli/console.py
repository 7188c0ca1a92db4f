"""What commands write: results to stdout or (atomically) to a file, notes to stderr.

Labels, words and names come from files, and a file may hold characters that a terminal obeys: on a terminal,
control characters are shown as escapes (``\\x1b``). Files and pipes get the text as it is.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import re
import sys
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, cast

import typer

from trellis.core.errors import DataError, UnsupportedError

if TYPE_CHECKING:
    from trellis.core.output_files import Target

STDOUT = "-"
# control characters but for tab and line end; marks that reverse the direction of the text after them
_OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with what a terminal would obey written as escapes."""
    return _OBEYED.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def _for(stream: IO[str], text: str) -> str:
    return printable(text) if stream.isatty() else text


def echo(text: object = "", *, end: str = "\n") -> None:
    """A part of the results, on standard output."""
    typer.echo(_for(sys.stdout, str(text)) + end, nl=False)


def echo_table(table: Any, width: int | None = None) -> None:
    """A table of the results; ``width`` in columns, else as wide as the terminal."""
    from rich.console import Console

    Console(width=width, highlight=False).print(_Shown(table))


class _Shown:
    """Something that rich can draw, with its text made printable on a terminal."""

    def __init__(self, content: Any) -> None:
        self._content = content

    def __rich_console__(self, console: Any, options: Any) -> Iterator[Any]:
        for segment in console.render(self._content, options):
            # what rich itself says to the terminal is a control, or a style
            yield segment if segment.control else segment._replace(text=_for(console.file, segment.text))


def note(message: str) -> None:
    """A line for the person at the terminal; it never mixes with results, and none is lost without it."""
    with contextlib.suppress(OSError):
        print(_for(sys.stderr, message), file=sys.stderr, flush=True)


@contextlib.contextmanager
def binary_output(path: str) -> Iterator[IO[bytes]]:
    """Standard output for ``-``, else a file that appears under its name only when it is complete.

    A name that ends in ``.gz`` is compressed.
    """
    if path == STDOUT:
        stream = cast(IO[bytes], _Terminal()) if sys.stdout.isatty() else sys.stdout.buffer
        yield stream
        stream.flush()
        return
    from trellis.core.output_files import atomic_writer

    with atomic_writer(path) as file:
        if path.endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as zipped:
                yield cast(IO[bytes], zipped)
        else:
            yield file


class _Terminal:
    """Standard output for UTF-8 bytes, on a terminal."""

    def write(self, content: bytes) -> None:
        sys.stdout.write(printable(content.decode(errors="backslashreplace")))

    def writelines(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        sys.stdout.flush()


def check_output(path: str, what: str | None = None, *, inputs: Iterable[str | None] = ()) -> None:
    """Refuse an output that cannot be written, or would replace an input, before any work is done.

    ``what`` names what is not text, and so neither fits a terminal. ``inputs``: the files that the command
    reads and that must survive it; what is no path (an option left out, a name, standard input) is passed
    over.
    """
    if path != STDOUT:
        from trellis.core.output_files import check_destination

        check_destination(path)
        for name in inputs:
            if name is not None and name != STDOUT and _is_same_file(name, path):
                raise DataError(f"the output would overwrite {name}, which is an input; give another path")
    elif what is not None and sys.stdout.isatty():
        raise UnsupportedError(f"{what} cannot be shown on a terminal; redirect it, or give -o a file")


def _is_same_file(name: str, output: str) -> bool:
    """Whether two paths lead to the same regular file; a device may be an input and an output at once."""
    try:
        return os.path.isfile(output) and os.path.samefile(name, output)
    except (OSError, ValueError):  # no such file, or no path
        return False


def binary_target(path: str) -> Target:
    """What writers of models take: the path, or the stream of standard output for ``-``."""
    return sys.stdout.buffer if path == STDOUT else path
