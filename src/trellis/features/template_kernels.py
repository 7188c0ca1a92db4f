"""Template features as integers: n-grams of codes are folded pairwise through exact hash tables.

The code of an n-gram is the id of the pair (code of its first n-1 parts, code of its last part). A pair is
the 64-bit key ``prefix << 32 | last``; tables hold the keys in the order of their ids, and are looked up by
open addressing with the whole key compared, so no two n-grams ever share an id. If a code is -1 (unknown, or
beyond the ends), so is that of the n-gram.

Codes live in a *padded* layout: with radius R, step ``t`` of sequence ``s`` (t counted over all sequences) is
at ``t + R (2 s + 1)``, so that looking R steps to either side never meets another sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.numerics import kernel


@kernel
def _slot_of(key: Any, size: Any) -> Any:
    # the finaliser of splitmix64: every bit of the key reaches the low bits
    h = (key ^ (key >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((h ^ (h >> np.uint64(31))) & np.uint64(size - 1))


@kernel
def _find(key: Any, keys: Any, slots: Any) -> Any:
    """The slot that holds the key, or the empty one where it belongs."""
    size = len(slots)
    slot = _slot_of(key, size)
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & (size - 1)
    return slot


@kernel
def slots_for(keys: Any, n: Any, room: Any) -> Any:
    """A table of the first ``n`` keys, half full when it holds ``room``: slots hold ids, -1 is empty."""
    size = 64
    while size < 2 * room + 2:
        size *= 2
    slots = np.full(size, -1, np.int32)
    for i in range(n):
        slots[_find(keys[i], keys, slots)] = i
    return slots


@kernel
def find_pairs(prefix: Any, last: Any, distance: Any, keys: Any, slots: Any) -> Any:
    """Ids of the pairs ``(prefix[p], last[p + distance])``, -1 where the table does not hold them."""
    n = len(prefix)
    codes = np.full(n, -1, np.int32)
    for p in range(max(0, -distance), min(n, n - distance)):
        if prefix[p] >= 0 and last[p + distance] >= 0:
            key = np.uint64(prefix[p]) << np.uint64(32) | np.uint64(last[p + distance])
            codes[p] = slots[_find(key, keys, slots)]
    return codes


@kernel
def intern_pairs(prefix: Any, last: Any, distance: Any, known: Any) -> Any:
    """Ids of the pairs ``(prefix[p], last[p + distance])``, and the keys of the table, new ones last."""
    n = len(prefix)
    codes = np.full(n, -1, np.int32)
    used = len(known)
    keys = np.empty(max(64, 2 * used), np.uint64)
    for k in range(used):
        keys[k] = known[k]
    slots = slots_for(keys, used, 2 * used)
    for p in range(max(0, -distance), min(n, n - distance)):
        if prefix[p] < 0 or last[p + distance] < 0:
            continue
        key = np.uint64(prefix[p]) << np.uint64(32) | np.uint64(last[p + distance])
        slot = _find(key, keys, slots)
        if slots[slot] < 0:
            if used == len(keys):
                grown = np.empty(2 * used, np.uint64)
                for k in range(used):
                    grown[k] = keys[k]
                keys = grown
            keys[used] = key
            slots[slot] = used
            used += 1
            if 2 * used + 2 > len(slots):
                slots = slots_for(keys, used, 2 * used)
                slot = _find(key, keys, slots)
        codes[p] = slots[slot]
    return codes, keys[:used].copy()


@kernel
def first_codes(codes: Any, n: Any) -> Any:
    """The codes 0..n-1 that occur, in the order of their first appearance."""
    seen, found, used = np.zeros(n, np.uint8), np.empty(n, np.int32), 0
    for code in codes:
        if code >= 0 and seen[code] == 0:
            seen[code] = 1
            found[used] = code
            used += 1
    return found[:used].copy()


@kernel
def padded_codes(codes: Any, offsets: Any, radius: Any, before: Any, after: Any) -> Any:
    """Codes in the padded layout; ``before[r - 1]`` and ``after[r - 1]`` lie r steps beyond the ends."""
    n_sequences = len(offsets) - 1
    out = np.full(len(codes) + 2 * radius * n_sequences, -1, np.int32)
    p = 0
    for s in range(n_sequences):
        for r in range(radius, 0, -1):
            out[p] = before[r - 1]
            p += 1
        for t in range(offsets[s], offsets[s + 1]):
            out[p] = codes[t]
            p += 1
        for r in range(radius):
            out[p] = after[r]
            p += 1
    return out


@kernel
def count_features(
    grams: Any, gram_of: Any, row_of: Any, base_of: Any, offsets: Any, radius: Any, total: Any
) -> Any:
    """How often each feature occurs; template ``f`` and the code of an n-gram give ``base_of[f] + code``."""
    counts = np.zeros(total, np.int64)
    for f in range(len(gram_of)):
        codes = grams[gram_of[f]]
        for s in range(len(offsets) - 1):
            shift = radius * (2 * s + 1) + row_of[f]
            for t in range(offsets[s], offsets[s + 1]):
                code = codes[t + shift]
                if code >= 0:
                    counts[base_of[f] + code] += 1
    return counts


@kernel
def emit_features(
    grams: Any, gram_of: Any, row_of: Any, base_of: Any, id_of: Any, offsets: Any, radius: Any
) -> Any:
    """CSR over steps of the ids ``id_of[base_of[f] + code]``; an id of -1 is left out."""
    n_steps = offsets[-1]
    n_templates = len(gram_of)
    indptr = np.zeros(n_steps + 1, np.int64)
    indices = np.empty(n_steps * n_templates, np.uint32)  # what is not written takes no memory
    nnz = 0
    for s in range(len(offsets) - 1):
        shift = radius * (2 * s + 1)
        for t in range(offsets[s], offsets[s + 1]):
            for f in range(n_templates):
                code = grams[gram_of[f], t + shift + row_of[f]]
                if code >= 0:
                    feature = id_of[base_of[f] + code]
                    if feature >= 0:
                        indices[nnz] = feature
                        nnz += 1
            indptr[t + 1] = nnz
    return indptr, indices[:nnz]
