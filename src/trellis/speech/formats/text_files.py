"""Text files in any Unicode encoding, and lines with their places for messages."""

from __future__ import annotations

import codecs
import math
import os
from collections.abc import Iterator
from pathlib import Path

from trellis.core.errors import DataError
from trellis.core.output_files import PathLike, atomic_writer

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_text(path: PathLike, encoding: str | None = None) -> str:
    """The text of a file. Without ``encoding``: UTF-8, or UTF-16 if it begins with that byte order mark."""
    shown = os.fspath(path)
    if os.path.isdir(path):
        raise DataError(f"{shown}: this is a folder; give the path of a file")
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError as error:
        raise DataError(f"{shown}: no such file; check the path") from error
    except OSError as error:
        raise DataError(f"{shown}: the file cannot be read ({error.strerror}); check the path") from error
    chosen = encoding or next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(chosen).replace("\r\n", "\n")
    except (UnicodeDecodeError, LookupError) as error:
        raise DataError(
            f"{shown}: the text is not {chosen} ({error}); give the right encoding or save it as UTF-8"
        ) from error


def write_text(path: PathLike, text: str, encoding: str = "utf-8") -> None:
    """Replace the file in one step."""
    try:
        content = text.encode(encoding)
    except (UnicodeEncodeError, LookupError) as error:
        raise DataError(f"{os.fspath(path)}: cannot be written as {encoding} ({error}); use utf-8") from error
    with atomic_writer(path) as file:
        file.write(content)


def read_lines(
    path: PathLike, encoding: str | None = None, comment: str | None = None
) -> Iterator[tuple[str, str]]:
    """``file:number`` and each line that is not blank and does not begin with ``comment``."""
    for number, line in enumerate(read_text(path, encoding).split("\n"), 1):
        if line.strip() and not (comment and line.startswith(comment)):
            yield f"{os.fspath(path)}:{number}", line


def expect(condition: bool, line: str, where: str, form: str) -> None:
    """An error at ``where`` unless the line has the right form."""
    if not condition:
        raise DataError(f"{where}: {line.strip()!r} does not have the form: {form}; correct the line")


def parse_number(word: str, where: str, what: str) -> float:
    """A finite number, or an error at ``where``."""
    try:
        value = float(word)
    except ValueError as error:
        raise DataError(f"{where}: the {what} is {word!r}, not a number; correct the line") from error
    if not math.isfinite(value):
        raise DataError(f"{where}: the {what} is {word}; correct the line")
    return value


def check_word(label: str, format_name: str) -> str:
    """The label, if it can be a column of a format that separates columns by blanks."""
    if not label or label.split() != [label]:
        raise DataError(f"{format_name} cannot store the label {label!r}; write TextGrid or JSON")
    return label
