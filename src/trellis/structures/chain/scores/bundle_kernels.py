# mypy: allow-untyped-defs
"""Bundles: features that always occur together, whose rows of weights are summed once per evaluation.

A feature f *implies* g if g occurs at every step where f does: a trigram of tags implies its tags and
bigrams. At a step with f, the scores of f and of all that it implies are read as one row, their sum; the
gradient goes back the same way. Each step is covered greedily by such *bundles*, the largest first. Only
features that occur ``least`` times or more take part.

The implied features of f are 64 bits over the features of the first step with f (those beyond the 64th are
ignored); every later step with f clears the bits of features that it lacks.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel

ONE = np.uint64(1)


@kernel
def implied_features(indptr, indices, count, least, first, implied):
    """first[f]: the first step with f (-1 on entry); implied[f]: which of the features there f implies."""
    where = np.full(count.shape[0], -1, np.int64)  # the last entry of each feature so far
    for t in range(indptr.shape[0] - 1):
        begin, end = indptr[t], indptr[t + 1]
        for p in range(begin, end):
            where[indices[p]] = p
        for p in range(begin, end):
            f = indices[p]
            if count[f] < least:
                continue
            if first[f] < 0:
                first[f] = t
                for q in range(min(end - begin, 64)):
                    f_q = indices[begin + q]
                    if count[f_q] >= least and where[f_q] == begin + q:  # count duplicates once
                        implied[f] |= ONE << np.uint64(q)
                continue
            base, left, bit = indptr[first[f]], implied[f], ONE
            while left:
                if left & ONE and where[indices[base]] < begin:
                    implied[f] &= ~bit
                left >>= ONE
                bit <<= ONE
                base += 1


@kernel
def _still_open(base, implied, indices, where, bundle):
    """The implied features that no bundle covers at this step yet: their number and their bits."""
    number, open_bits, bit = 0, np.uint64(0), ONE
    while implied:
        if implied & ONE and bundle[where[indices[base]]] < 0:
            number += 1
            open_bits |= bit
        implied >>= ONE
        bit <<= ONE
        base += 1
    return number, open_bits


@kernel
def _find_slot(slots, heads, sets, head, bits):
    """The slot of the bundle (head, bits) in an open hash table."""
    h = np.uint64(head) * np.uint64(0x9E3779B97F4A7C15) ^ bits * np.uint64(0xC2B2AE3D27D4EB4F)
    h ^= h >> np.uint64(29)
    last = np.uint64(slots.shape[0] - 1)
    i = h & last
    while slots[i] >= 0 and (heads[slots[i]] != head or sets[slots[i]] != bits):
        i = (i + ONE) & last
    return i


@kernel
def _grown(slots, heads, sets, uses):
    """The hash table with twice its capacity."""
    n = heads.shape[0]
    new_heads, new_sets, new_uses = (
        np.empty(2 * n, np.uint32),
        np.empty(2 * n, np.uint64),
        np.zeros(2 * n, np.int64),
    )
    new_slots = np.full(2 * slots.shape[0], -1, np.int32)
    for b in range(n):
        new_heads[b], new_sets[b], new_uses[b] = heads[b], sets[b], uses[b]
        new_slots[_find_slot(new_slots, new_heads, new_sets, heads[b], sets[b])] = b
    return new_slots, new_heads, new_sets, new_uses


@kernel
def cover_steps(indptr, indices, count, least, first, implied, bundle):
    """bundle[p]: the bundle that covers entry p, or -1. Returns head, bits and number of uses of bundles."""
    where = np.zeros(count.shape[0], np.int64)
    size = np.zeros(count.shape[0], np.uint8)  # the most that a bundle with this head can have
    for f in range(count.shape[0]):
        bits = implied[f]
        while bits:
            bits &= bits - ONE
            size[f] += 1
    slots, n = np.full(4096, -1, np.int32), 0
    heads, sets, uses = np.empty(2048, np.uint32), np.empty(2048, np.uint64), np.zeros(2048, np.int64)
    for t in range(indptr.shape[0] - 1):
        begin, end = indptr[t], indptr[t + 1]
        for p in range(begin, end):
            where[indices[p]] = p
            bundle[p] = -1
        while True:
            most, head, bits = 1, np.uint32(0), np.uint64(0)
            for p in range(begin, end):
                f = indices[p]
                if size[f] >= max(most, 2) and bundle[p] < 0:
                    number, open_bits = _still_open(indptr[first[f]], implied[f], indices, where, bundle)
                    # ties: the more frequent one, which makes for fewer different bundles
                    if number > most or (number == most and number > 1 and count[f] > count[head]):
                        most, head, bits = number, f, open_bits
            if most < 2:
                break
            i = _find_slot(slots, heads, sets, head, bits)
            if slots[i] < 0:
                if n == heads.shape[0]:
                    slots, heads, sets, uses = _grown(slots, heads, sets, uses)
                    i = _find_slot(slots, heads, sets, head, bits)
                slots[i], heads[n], sets[n] = n, head, bits
                n += 1
            b = slots[i]
            uses[b] += 1
            base = indptr[first[head]]
            while bits:
                if bits & ONE:
                    bundle[where[indices[base]]] = b
                bits >>= ONE
                base += 1
    return heads[:n].copy(), sets[:n].copy(), uses[:n].copy()


@kernel
def list_members(indptr, indices, first, heads, sets, order, bounds, members):
    """The features of the bundles ``order``, end to end; returns their number. With empty ``members`` it
    only counts them."""
    kept = 0
    for i in range(order.shape[0]):
        bounds[i] = kept
        base, bits = indptr[first[heads[order[i]]]], sets[order[i]]
        while bits:
            if bits & ONE:
                if members.shape[0] > 0:
                    members[kept] = indices[base]
                kept += 1
            bits >>= ONE
            base += 1
    bounds[order.shape[0]] = kept
    return kept
