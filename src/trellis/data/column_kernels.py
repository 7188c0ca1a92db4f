"""Tokenising and interning of text, straight from its bytes: no Python object per token.

A *field* is a span ``[start, end)`` of the text. Interning gives equal spans equal codes 0, 1, ... in order
of first appearance; it compares bytes, so two different fields never share a code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.numerics import kernel

WHITESPACE = 0  # fields are separated by runs of blanks
TAB = 1  # fields are separated by single tabs, and may hold blanks or nothing

COMMENT = -1  # field count of a comment line; a blank line has 0 fields


@kernel
def _is_space(byte: Any) -> Any:
    return byte == 32 or (9 <= byte <= 13)


@kernel
def count_fields(text: Any, mode: Any, comments: Any) -> Any:
    """Number of fields of every line: 0 where blank, ``COMMENT`` where it starts with ``#`` and ``comments``
    is set.
    """
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
    """Starts and ends of the fields of the lines that have any, line by line."""
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


@kernel
def _hash_span(text: Any, start: Any, end: Any) -> Any:
    # FNV-1a over the bytes, then a multiply-shift so that the low bits are as good as the high ones
    h = np.uint64(14695981039346656037)
    for i in range(start, end):
        h = (h ^ np.uint64(text[i])) * np.uint64(1099511628211)
    return h ^ (h >> np.uint64(29))


@kernel
def intern_spans(text: Any, starts: Any, ends: Any) -> Any:
    """Codes (n,) of the spans, and the index of the first span with each code."""
    n = len(starts)
    codes = np.empty(n, np.int32)
    size = 1024
    slots = np.full(size, -1, np.int32)
    firsts = np.empty(size, np.int64)
    hashes = np.empty(size, np.uint64)
    used = 0
    for i in range(n):
        start = starts[i]
        length = ends[i] - start
        h = _hash_span(text, start, ends[i])
        slot = np.int64(h & np.uint64(size - 1))
        while True:
            code = slots[slot]
            if code < 0:
                break
            if hashes[code] == h:
                other = starts[firsts[code]]
                if ends[firsts[code]] - other == length:
                    same = True
                    for b in range(length):
                        if text[start + b] != text[other + b]:
                            same = False
                            break
                    if same:
                        break
            slot = (slot + 1) & (size - 1)
        if code < 0:
            code = np.int32(used)
            slots[slot] = code
            firsts[used] = i
            hashes[used] = h
            used += 1
            if 2 * used >= size:  # keep the table at most half full: rehash into twice the room
                size *= 2
                slots = np.full(size, -1, np.int32)
                grown_firsts = np.empty(size, np.int64)
                grown_hashes = np.empty(size, np.uint64)
                grown_firsts[:used] = firsts[:used]
                grown_hashes[:used] = hashes[:used]
                firsts = grown_firsts
                hashes = grown_hashes
                for c in range(used):
                    slot = np.int64(hashes[c] & np.uint64(size - 1))
                    while slots[slot] >= 0:
                        slot = (slot + 1) & (size - 1)
                    slots[slot] = np.int32(c)
        codes[i] = code
    return codes, firsts[:used].copy()
