# mypy: allow-untyped-defs
"""Bundles: features that always occur together, whose rows of weights are summed once per evaluation.

A feature f *implies* g if g occurs at every step where f does: a trigram of tags implies its tags and
bigrams. At a step with f, the scores of f and of all that it implies are read as one row, their sum; the
gradient goes back the same way. Each step is covered greedily by such *bundles*, the largest first. Only
features that occur ``least`` times or more take part; they have numbers of their own, so that what is known
of each stays in the cache.

What f implies is a list, at first of the (first 64) features of the first step with f; every later step with
f removes what it lacks. A bundle is f, its *head*, and bits: those members of the list that were not covered
by larger bundles.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel

ONE = np.uint64(1)


@kernel
def _number_of(bits):
    n = 0
    while bits:  # LLVM makes one instruction of it
        bits &= bits - ONE
        n += 1
    return n


@kernel
def number_frequent(count, least, number):
    """number[f]: 0, 1, ... for features with ``count[f] >= least``, -1 for the others; returns how many."""
    n = 0
    for f in range(count.shape[0]):
        number[f] = -1
        if count[f] >= least:
            number[f] = n
            n += 1
    return n


@kernel
def implied_features(indptr, entries, n):
    """``entries``: the numbers of features, -1 for rare ones. Returns ``begin``, ``length`` and ``members``:
    f implies ``members[begin[f] : begin[f] + length[f]]``."""
    begin, length = np.full(n, -1, np.int64), np.zeros(n, np.int64)
    members, used = np.empty(4096, np.int32), 0
    last = np.full(n, -1, np.int64)  # the last entry of each feature so far
    for t in range(indptr.shape[0] - 1):
        start, stop = indptr[t], indptr[t + 1]
        for p in range(start, stop):
            if entries[p] >= 0:
                last[entries[p]] = p
        for p in range(start, stop):
            f = entries[p]
            if f < 0 or length[f] == 1:  # one alone makes no bundle
                continue
            if begin[f] < 0:
                if used + 64 > members.shape[0]:
                    grown = np.empty(2 * members.shape[0], np.int32)
                    for i in range(used):
                        grown[i] = members[i]
                    members = grown
                begin[f] = used
                for q in range(start, stop):
                    if entries[q] >= 0 and last[entries[q]] == q and used < begin[f] + 64:  # duplicates once
                        members[used] = entries[q]
                        used += 1
                length[f] = used - begin[f]
                continue
            kept = begin[f]
            for i in range(begin[f], begin[f] + length[f]):
                g = members[i]
                if last[g] >= start:
                    members[kept] = g
                    kept += 1
            length[f] = kept - begin[f]
    return begin, length, members[:used].copy()


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
def _best_head(implied, covered, n, words, frequency, merit):
    """The entry that implies most of what is open, the most frequent of these (so that there are fewer
    different bundles), the first of these; -1 where none implies two."""
    for i in range(n):
        merit[i] = frequency[i]
    for w in range(words):
        for i in range(n):
            merit[i] += np.int64(_number_of(implied[w, i] & ~covered[w])) << 40
    most = np.int64(2) << 40
    for i in range(n):
        most = max(merit[i], most)
    for i in range(n):
        if merit[i] == most:
            return i
    return -1


@kernel
def cover_steps(indptr, entries, count, begin, length, members):
    """Cover the steps: ``entries[p]``, the number of a feature, becomes the bundle that covers it, or -1.
    Returns head, bits and number of uses of bundles. ``count``: of the features that have numbers.

    At a step, what a feature implies is a set of the step's entries, as bits in words of 64: how much of it
    is open is then a matter of counting bits."""
    longest = 0
    for t in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[t + 1] - indptr[t])
    places, here, frequency = (
        np.empty(longest, np.int64),
        np.empty(longest, np.int32),
        np.empty(longest, np.int64),
    )
    merit, opened = np.empty(longest, np.int64), np.empty(64, np.int32)
    place_of = np.zeros(count.shape[0], np.int32)
    implied = np.empty(((longest + 63) // 64, longest), np.uint64)
    covered = np.empty((longest + 63) // 64, np.uint64)
    slots, n = np.full(4096, -1, np.int32), 0
    heads, sets, uses = np.empty(2048, np.uint32), np.empty(2048, np.uint64), np.zeros(2048, np.int64)
    for t in range(indptr.shape[0] - 1):
        n_here = 0
        for p in range(indptr[t], indptr[t + 1]):
            f = entries[p]
            if f >= 0:
                places[n_here], here[n_here], frequency[n_here] = p, f, count[f]
                place_of[f] = n_here
                entries[p] = -1
                n_here += 1
        words = (n_here + 63) >> 6
        for i in range(n_here):
            f = here[i]
            for w in range(words):
                implied[w, i] = 0
            for m in range(begin[f], begin[f] + length[f]):
                j = place_of[members[m]]
                implied[j >> 6, i] |= ONE << np.uint64(j & 63)
        for w in range(words):
            covered[w] = 0
        while True:
            best = _best_head(implied, covered, n_here, words, frequency, merit)
            if best < 0:
                break
            head, bits, n_open = here[best], np.uint64(0), np.int64(0)
            for m in range(length[head]):  # without branches, which nobody could foresee
                j = place_of[members[begin[head] + m]]
                is_open = ~covered[j >> 6] >> np.uint64(j & 63) & ONE
                bits |= is_open << np.uint64(m)
                opened[n_open] = j
                n_open += np.int64(is_open)
            i = _find_slot(slots, heads, sets, head, bits)
            if slots[i] < 0:
                if n == heads.shape[0]:
                    slots, heads, sets, uses = _grown(slots, heads, sets, uses)
                    i = _find_slot(slots, heads, sets, head, bits)
                slots[i], heads[n], sets[n] = n, head, bits
                n += 1
            b = slots[i]
            uses[b] += 1
            for w in range(words):
                covered[w] |= implied[w, best]
            for m in range(n_open):
                entries[places[opened[m]]] = b
                for w in range(words):
                    implied[w, opened[m]] = 0  # no head of another one
    return heads[:n].copy(), sets[:n].copy(), uses[:n].copy()


@kernel
def list_members(feature_of, begin, members, heads, sets, order, bounds, found):
    """The features of the bundles ``order``, end to end; returns their number. With empty ``found`` it only
    counts them. ``feature_of``: the features that have numbers."""
    kept = 0
    for i in range(order.shape[0]):
        bounds[i] = kept
        m, bits = begin[heads[order[i]]], sets[order[i]]
        while bits:
            if bits & ONE:
                if found.shape[0] > 0:
                    found[kept] = feature_of[members[m]]
                kept += 1
            bits >>= ONE
            m += 1
    bounds[order.shape[0]] = kept
    return kept
