"""The hash table of :class:`trellis.data.vocabulary.Vocabulary`: byte strings to codes 0, 1, ..., exactly.

The strings lie end to end in ``pool``; string ``c`` is ``pool[bounds[c]:bounds[c + 1]]``. A slot of the table
holds -1 (empty) or ``hash << 32 | code`` with a 31-bit hash, so that most mismatches are found without
reading the pool. Where the hashes agree the bytes are compared: two different strings never share a code.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.numerics import kernel

ONE, EIGHT, HALF = np.uint64(1), np.uint64(8), np.uint64(32)
GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 / golden ratio, the multiplier of Fibonacci hashing


@kernel
def _word(text: Any, i: Any) -> Any:
    """Eight bytes as one number; LLVM makes a single load of it."""
    low = np.uint64(text[i]) | np.uint64(text[i + ONE]) << np.uint64(8)
    low |= np.uint64(text[i + np.uint64(2)]) << np.uint64(16) | np.uint64(
        text[i + np.uint64(3)]
    ) << np.uint64(24)
    high = np.uint64(text[i + np.uint64(4)]) | np.uint64(text[i + np.uint64(5)]) << np.uint64(8)
    high |= np.uint64(text[i + np.uint64(6)]) << np.uint64(16) | np.uint64(
        text[i + np.uint64(7)]
    ) << np.uint64(24)
    return low | high << HALF


@kernel
def _hash_bytes(text: Any, start: Any, end: Any) -> Any:
    # multiply and fold, eight bytes at a time; the length goes in first, so that trailing zero bytes count
    i, stop = np.uint64(start), np.uint64(end)
    h = (stop - i) * GOLDEN
    while i + EIGHT <= stop:
        h = (h ^ _word(text, i)) * GOLDEN
        h ^= h >> HALF
        i += EIGHT
    rest = np.uint64(0)
    while i < stop:
        rest = rest << EIGHT | np.uint64(text[i])
        i += ONE
    h = (h ^ rest) * GOLDEN
    return np.int64((h ^ (h >> HALF)) & np.uint64(0x7FFFFFFF))


@kernel
def _same_bytes(text: Any, start: Any, end: Any, pool: Any, pool_start: Any, pool_end: Any) -> Any:
    if end - start != pool_end - pool_start:
        return False
    i, stop, j = np.uint64(start), np.uint64(end), np.uint64(pool_start)
    while i + EIGHT <= stop:
        if _word(text, i) != _word(pool, j):
            return False
        i += EIGHT
        j += EIGHT
    while i < stop:
        if text[i] != pool[j]:
            return False
        i += ONE
        j += ONE
    return True


@kernel
def _rehashed(slots: Any, size: Any) -> Any:
    """The same entries in a table of another size; their hashes are in the slots."""
    grown = np.full(size, -1, np.int64)
    for entry in slots:
        if entry >= 0:
            slot = (entry >> 32) & (size - 1)
            while grown[slot] >= 0:
                slot = (slot + 1) & (size - 1)
            grown[slot] = entry
    return grown


@kernel
def look_up(
    text: Any, starts: Any, ends: Any, add: Any, pool: Any, bounds: Any, slots: Any, used: Any
) -> Any:
    """Codes of the spans of ``text``: -1 for a new string, or if ``add`` is set its new code.

    Returns the codes and the table, which is the given one unless it had to grow.
    """
    n = len(starts)
    codes = np.empty(n, np.int32)
    mask = len(slots) - 1
    for i in range(n):
        start, end = starts[i], ends[i]
        h = _hash_bytes(text, start, end)
        slot = h & mask
        code = np.int64(-1)
        while slots[slot] >= 0:
            entry = slots[slot]
            if entry >> 32 == h:
                candidate = entry & 0xFFFFFFFF
                if _same_bytes(text, start, end, pool, bounds[candidate], bounds[candidate + 1]):
                    code = candidate
                    break
            slot = (slot + 1) & mask
        if code < 0 and add:
            code = used
            used += 1
            slots[slot] = (h << 32) | code
            if used == len(bounds):
                grown_bounds = np.zeros(2 * used, np.int64)
                for b in range(used):
                    grown_bounds[b] = bounds[b]
                bounds = grown_bounds
            bounds[used] = bounds[code] + end - start
            if bounds[used] > len(pool):
                grown_pool = np.zeros(2 * bounds[used], np.uint8)
                for b in range(bounds[code]):
                    grown_pool[b] = pool[b]
                pool = grown_pool
            for b in range(end - start):
                pool[bounds[code] + b] = text[start + b]
            if 2 * used > len(slots):  # at most half full
                slots = _rehashed(slots, 4 * len(slots))
                mask = len(slots) - 1
        codes[i] = code
    return codes, pool, bounds, slots, used


@kernel
def gather(pool: Any, bounds: Any, chosen: Any) -> Any:
    """Pool and bounds of the chosen strings, in that order."""
    new_bounds = np.zeros(len(chosen) + 1, np.int64)
    for i in range(len(chosen)):
        new_bounds[i + 1] = new_bounds[i] + bounds[chosen[i] + 1] - bounds[chosen[i]]
    new_pool = np.empty(new_bounds[-1], np.uint8)
    for i in range(len(chosen)):
        shift = bounds[chosen[i]] - new_bounds[i]
        for b in range(new_bounds[i], new_bounds[i + 1]):
            new_pool[b] = pool[b + shift]
    return new_pool, new_bounds
