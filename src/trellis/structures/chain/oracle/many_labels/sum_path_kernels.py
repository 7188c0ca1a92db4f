# mypy: allow-untyped-defs
"""Sums over the labellings of a chain over allowed pairs of labels: O(n (K + E)) time for E pairs.

    f[t, k] = u[t, k] + log sum_{e into k} exp( f[t-1, j_e] + a[e] ),   f[t] -= max f[t]
    p_{t-1}(j) = sum_{e = (j, k)} p_t(k) exp( f[t-1, j] + a[e] - arrive[t, k] )

A filter forward and conditional probabilities backward, as in
:mod:`trellis.structures.chain.oracle.backward_filter_kernels`, so that scores of any size and chains of any
length are safe: exp(f + a) is exp(f - max f) exp(a - the largest score into k), and where the sum of these
into a label is not far above underflow (``TINY``) it is taken again in logs.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.structures.chain.scores.linear_chain_kernels import pull_back_features
from trellis.structures.chain.scores.step_score_kernels import load_steps

TINY = 1e-250


@kernel
def _arrive_in_logs(pairs, before, k):
    """log sum_{e into k} exp(before[j_e] + a[e]), with its own maximum shifted out."""
    top = -np.inf
    for i in range(pairs.bounds[k], pairs.bounds[k + 1]):
        top = max(top, before[pairs.source[i]] + pairs.a[i])
    if top == -np.inf:
        return top
    total = 0.0
    for i in range(pairs.bounds[k], pairs.bounds[k + 1]):
        total += math.exp(before[pairs.source[i]] + pairs.a[i] - top)
    return top + math.log(total)


@kernel
def _filter_block(scores, known, question, scale, pairs, first, lo, hi, work):
    """Filtered messages of steps lo..hi-1 into ``work.f[1:]``, the largest of each step 0; returns what was
    subtracted, -inf if no prefix is allowed."""
    K = work.u.shape[1]
    bounds, source, e, shift = pairs.bounds, pairs.source, pairs.e, pairs.shift
    load_steps(scores, known, question, scale, lo, hi, work.u)
    total = 0.0
    for t in range(lo, hi):
        s = t - lo
        u, f, before, weight, arrive = work.u[s], work.f[s + 1], work.f[s], work.weight[s], work.arrive[s + 1]
        if t == first:
            for k in range(K):
                f[k] = pairs.start[k] + u[k]
        else:
            for k in range(K):
                weight[k] = math.exp(before[k])
            for k in range(K):
                mass = 0.0
                for i in range(bounds[k], bounds[k + 1]):
                    mass += weight[source[i]] * e[i]
                arrive[k] = mass
            for k in range(K):
                if u[k] == -np.inf:
                    f[k] = -np.inf
                elif arrive[k] > TINY:
                    f[k] = math.log(arrive[k]) + shift[k] + u[k]
                else:
                    f[k] = _arrive_in_logs(pairs, before, k) + u[k]
        top = -np.inf
        for k in range(K):
            top = max(top, f[k])
        if top == -np.inf:
            return top
        for k in range(K):
            f[k] -= top
        total += top
    return total


@kernel
def _filter(scores, known, question, scale, pairs, first, last, work):
    """Run through all blocks; log Z. ``work`` is left as the last block wants it, ``work.p[0]`` holds
    p_{n-1}."""
    B, K = work.u.shape
    blocks = (last - first + B - 1) // B
    log_z = 0.0
    for b in range(blocks):
        lo = first + b * B
        hi = min(lo + B, last)
        for k in range(K):
            work.kept[b, k] = work.f[0, k]
        log_z += _filter_block(scores, known, question, scale, pairs, first, lo, hi, work)
        if log_z == -np.inf:
            return log_z
        if b < blocks - 1:
            for k in range(K):
                work.f[0, k] = work.f[hi - lo, k]
    f, p, top, total = work.f[last - first - (blocks - 1) * B], work.p[0], -np.inf, 0.0
    for k in range(K):
        top = max(top, f[k] + pairs.end[k])
    if top == -np.inf:
        return top
    for k in range(K):
        p[k] = math.exp(f[k] + pairs.end[k] - top)
        total += p[k]
    for k in range(K):
        p[k] /= total
    return log_z + top + math.log(total)


@kernel
def _again(scores, known, question, scale, pairs, first, last, b, work):
    """Block b on the way back: its bounds, with ``work`` as the filter had it there."""
    B, K = work.u.shape
    lo = first + b * B
    hi = min(lo + B, last)
    for k in range(K):
        work.f[0, k] = work.kept[b, k]
    if hi < last:
        _filter_block(scores, known, question, scale, pairs, first, lo, hi, work)
    return lo, hi


@kernel
def sum_paths(scores, known, question, scale, pairs, first, last, work, least, c, marginals, g):
    """log Z of steps first..last-1; with c other than 0, adds c times their expected parts.

    Those of labels go to ``marginals`` (N, K) if it has rows, otherwise through the features to ``g``. A
    label whose probability at a step is at most ``least`` passes nothing on to the step before it."""
    B, K = work.u.shape
    if first == last:
        return 0.0
    log_z = _filter(scores, known, question, scale, pairs, first, last, work)
    if log_z == -np.inf or c == 0.0:
        return log_z
    bounds, source, e, a = pairs.bounds, pairs.source, pairs.e, pairs.a
    now, before = work.p[0], work.p[1]
    for k in range(K):
        g.end[k] += c * now[k]
    for b in range((last - first + B - 1) // B - 1, -1, -1):
        lo, hi = _again(scores, known, question, scale, pairs, first, last, b, work)
        for t in range(hi - 1, lo - 1, -1):
            s = t - lo
            d = work.u[s]
            if t > first:
                f, weight, arrive = work.f[s], work.weight[s], work.arrive[s + 1]
                for k in range(K):
                    before[k] = 0.0
                for k in range(K):
                    if now[k] <= least:
                        continue
                    if arrive[k] > TINY:
                        r = now[k] / arrive[k]
                        for i in range(bounds[k], bounds[k + 1]):
                            x = r * (weight[source[i]] * e[i])
                            before[source[i]] += x
                            g.pairs[i] += c * x
                    else:
                        total = _arrive_in_logs(pairs, f, k)
                        for i in range(bounds[k], bounds[k + 1]):
                            x = now[k] * math.exp(f[source[i]] + a[i] - total)
                            before[source[i]] += x
                            g.pairs[i] += c * x
            for k in range(K):
                d[k] = c * now[k]
            if t == first:
                for k in range(K):
                    g.start[k] += c * now[k]
            now, before = before, now
        if marginals.shape[0] > 0:
            for t in range(lo, hi):
                for k in range(K):
                    marginals[t, k] += work.u[t - lo, k]
        else:
            pull_back_features(scores, scores.label, g, lo, hi, work.u)
    return log_z


@kernel
def sum_batch(
    scores, known, question, scale, pairs, offsets, first, last, work, least, c, values, marginals, g
):
    """log Z of sequences first..last-1, and c[i] times their expected parts."""
    for i in range(first, last):
        values[i] = sum_paths(
            scores, known, question, scale, pairs, offsets[i], offsets[i + 1], work, least, c[i], marginals, g
        )


@kernel
def sample_batch(scores, known, pairs, offsets, first, last, work, uniforms, labels):
    """Samples (m, N) of sequences first..last-1; returns the first sequence that has no labelling, or -1."""
    B, K = work.u.shape
    for n in range(first, last):
        lo0, hi0 = offsets[n], offsets[n + 1]
        if lo0 == hi0:
            continue
        if _filter(scores, known, 0, 0.0, pairs, lo0, hi0, work) == -np.inf:
            return n
        for m in range(labels.shape[0]):
            labels[m, hi0 - 1] = _draw(work.p[0], K, uniforms[m, hi0 - 1])
        for b in range((hi0 - lo0 + B - 1) // B - 1, -1, -1):
            lo, hi = _again(scores, known, 0, 0.0, pairs, lo0, hi0, b, work)
            for t in range(hi - 1, max(lo, lo0 + 1) - 1, -1):
                f, q = work.f[t - lo], work.p[1]
                for m in range(labels.shape[0]):
                    k = labels[m, t]
                    begin, size = pairs.bounds[k], np.int64(pairs.bounds[k + 1]) - np.int64(pairs.bounds[k])
                    top = -np.inf
                    for i in range(size):
                        q[i] = f[pairs.source[begin + i]] + pairs.a[begin + i]
                        top = max(top, q[i])
                    for i in range(size):
                        q[i] = math.exp(q[i] - top)
                    labels[m, t - 1] = pairs.source[begin + _draw(q, size, uniforms[m, t - 1])]
    return -1


@kernel
def _draw(weight, size, uniform):
    """An index with probability proportional to its weight; never one whose weight is 0."""
    total = 0.0
    for i in range(size):
        total += weight[i]
    reached, chosen = 0.0, 0
    for i in range(size):
        if weight[i] > 0.0:
            chosen = i
            reached += weight[i]
            if reached > uniform * total:
                break
    return chosen


@kernel
def filter_batch(scores, known, pairs, offsets, first, last, work, out, log_p):
    """p(y_t | x_1..t) into ``out`` (N, K), which comes as zeros and stays so from a step on that cannot be;
    log of the sum over all prefixes that are as long as the sequence, without end scores."""
    B, K = work.u.shape
    for n in range(first, last):
        log_p[n] = 0.0
        for lo in range(offsets[n], offsets[n + 1], B):
            hi = min(lo + B, offsets[n + 1])
            log_p[n] += _filter_block(scores, known, 0, 0.0, pairs, offsets[n], lo, hi, work)
            for t in range(lo, hi):
                f, total = work.f[t - lo + 1], 0.0
                for k in range(K):
                    out[t, k] = math.exp(f[k])
                    total += out[t, k]
                if total == 0.0:
                    break
                for k in range(K):
                    out[t, k] /= total
            if log_p[n] == -np.inf:
                break
            total = 0.0
            for k in range(K):
                work.f[0, k] = work.f[hi - lo, k]
                total += math.exp(work.f[0, k])
            if hi == offsets[n + 1]:
                log_p[n] += math.log(total)
