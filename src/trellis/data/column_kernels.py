"""Tokenise text straight from its bytes, without a Python object per token.

A *field* is a span ``[start, end)`` of the text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.numerics import kernel

WHITESPACE = 0  # fields are separated by runs of blanks
TAB = 1  # fields are separated by single tabs, and may hold blanks or nothing

COMMENT = -1  # field count of a comment line; a blank line has 0 fields


@kernel
def _is_space(byte: Any) -> Any:
    return byte == 32 or (9 <= byte <= 13)


@kernel
def count_fields(text: Any, mode: Any, comments: Any) -> Any:
    """Number of fields of every line: 0 if blank, ``COMMENT`` if it starts with ``#`` (with ``comments``)."""
    n = len(text)
    lines = 0
    for i in range(n):
        if text[i] == 10:
            lines += 1
    if n > 0 and text[n - 1] != 10:
        lines += 1
    counts = np.zeros(lines, np.int32)
    i = 0
    for line in range(lines):
        if comments and text[i] == 35:
            counts[line] = COMMENT
        blank = True
        words = 0
        tabs = 0
        inside = False
        while i < n and text[i] != 10:
            space = _is_space(text[i])
            if text[i] == 9:
                tabs += 1
            if not space:
                blank = False
                if not inside:
                    words += 1
            inside = not space
            i += 1
        i += 1
        if counts[line] != COMMENT and not blank:
            counts[line] = tabs + 1 if mode == TAB else words
    return counts


@kernel
def field_spans(text: Any, counts: Any, mode: Any) -> Any:
    """Starts and ends of all fields, line by line."""
    total = 0
    for line in range(len(counts)):
        if counts[line] > 0:
            total += counts[line]
    starts = np.empty(total, np.int64)
    ends = np.empty(total, np.int64)
    n = len(text)
    i = 0
    field = 0
    for line in range(len(counts)):
        if counts[line] <= 0:
            while i < n and text[i] != 10:
                i += 1
            i += 1
            continue
        inside = False
        if mode == TAB:
            starts[field] = i
        while i < n and text[i] != 10:
            if mode == TAB:
                if text[i] == 9:
                    ends[field] = i
                    field += 1
                    starts[field] = i + 1
            else:
                space = _is_space(text[i])
                if inside and space:
                    ends[field] = i
                    field += 1
                elif not inside and not space:
                    starts[field] = i
                inside = not space
            i += 1
        if mode == TAB or inside:
            ends[field] = i
            field += 1
        i += 1
    return starts, ends
