"""Hashes of strings and of n-grams of them: 64 bits, the same in every process, on every machine.

Models with hashed features depend on these numbers, so they must never change (a test pins some of them).
The hash 0 stands for no value; what would have it gets 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.core.numerics import kernel

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ZERO, ONE, BYTE = np.uint64(0), np.uint64(1), np.uint64(8)


@kernel
def mixed(h: Any) -> Any:
    """The finaliser of splitmix64: every bit of the input reaches every bit of the output."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@kernel
def hash_spans(text: Any, starts: Any, ends: Any) -> Any:
    """Hashes of the byte strings ``text[starts[i]:ends[i]]``."""
    out = np.empty(len(starts), np.uint64)
    for i in range(len(starts)):
        h = np.uint64(ends[i] - starts[i]) * GOLDEN
        word = ZERO
        n = 0
        for j in range(starts[i], ends[i]):
            word = word << BYTE | np.uint64(text[j])
            n += 1
            if n == 8:
                h = mixed(h ^ word) + GOLDEN
                word = ZERO
                n = 0
        h = mixed(h ^ word)
        out[i] = h if h != ZERO else ONE
    return out


@kernel
def padded_hashes(hashes: Any, codes: Any, offsets: Any, radius: Any, before: Any, after: Any) -> Any:
    """``hashes[codes]`` in the padded layout of :mod:`.template_kernels`; a code of -1 is no value."""
    n_sequences = len(offsets) - 1
    out = np.zeros(len(codes) + 2 * radius * n_sequences, np.uint64)
    p = 0
    for s in range(n_sequences):
        for r in range(radius, 0, -1):
            out[p] = before[r - 1]
            p += 1
        for t in range(offsets[s], offsets[s + 1]):
            out[p] = hashes[codes[t]] if codes[t] >= 0 else ZERO
            p += 1
        for r in range(radius):
            out[p] = after[r]
            p += 1
    return out


@kernel
def hash_pairs(prefix: Any, last: Any, distance: Any, out: Any) -> None:
    """Hashes of the pairs ``(prefix[p], last[p + distance])``; none where one of the two has no value."""
    n = len(prefix)
    for p in range(n):
        out[p] = ZERO
    for p in range(max(0, -distance), min(n, n - distance)):
        if prefix[p] != ZERO and last[p + distance] != ZERO:
            h = mixed(prefix[p] * GOLDEN + last[p + distance])
            out[p] = h if h != ZERO else ONE


@kernel
def emit_buckets(
    grams: Any, gram_of: Any, row_of: Any, salt_of: Any, offsets: Any, radius: Any, buckets: Any
) -> Any:
    """CSR over steps of the buckets of all templates; ``salt_of[f]`` tells templates with the same n-grams
    apart."""
    n_steps = offsets[-1]
    n_templates = len(gram_of)
    mask = np.uint64(buckets - 1)
    indptr = np.zeros(n_steps + 1, np.int64)
    indices = np.empty(n_steps * n_templates, np.uint32)  # what is not written takes no memory
    nnz = 0
    for s in range(len(offsets) - 1):
        shift = radius * (2 * s + 1)
        for t in range(offsets[s], offsets[s + 1]):
            for f in range(n_templates):
                h = grams[gram_of[f], t + shift + row_of[f]]
                if h != ZERO:
                    indices[nnz] = np.uint32(mixed(h ^ salt_of[f]) & mask)
                    nnz += 1
            indptr[t + 1] = nnz
    return indptr, indices[:nnz]
