"""Where sequences end in a piece of text."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.numerics import kernel


@kernel
def sequence_ends(text: Any, comments: Any, words: Any, inside: Any) -> Any:
    """Ends of sequences in whole lines of text: behind the first blank line after them.

    ``comments``: lines that start with # are no steps. ``words``: only lines that start with digits and a tab
    are counted as steps (CoNLL-U), though others belong to sequences, too. ``inside``: whether a sequence has
    begun before this text. Returns places (in bytes), the numbers of lines and of steps up to each of them,
    those of the whole text, and whether a sequence goes on behind it.
    """
    n = len(text)
    room = 1
    for i in range(n):
        if text[i] == 10:
            room += 1
    ends = np.empty(room, np.int64)
    lines_to = np.empty(room, np.int64)
    steps_to = np.empty(room, np.int64)
    found = 0
    lines = 0
    steps = 0
    i = 0
    while i < n:
        start = i
        blank = True
        while i < n and text[i] != 10:
            byte = text[i]
            if not (byte == 32 or (9 <= byte <= 13)):
                blank = False
            i += 1
        i += 1
        lines += 1
        if blank:
            if inside:
                ends[found] = min(i, n)
                lines_to[found] = lines
                steps_to[found] = steps
                found += 1
                inside = False
        elif not (comments and text[start] == 35):
            inside = True
            if words:
                j = start
                while j < n and 48 <= text[j] <= 57:
                    j += 1
                if j > start and j < n and text[j] == 9:
                    steps += 1
            else:
                steps += 1
    return ends[:found], lines_to[:found], steps_to[:found], lines, steps, inside
