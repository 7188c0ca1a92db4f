# mypy: allow-untyped-defs
"""Viterbi for few labels and transitions that all steps share: what decoding a batch spends its time on.

With few labels a step is too short for the loops of ``chain_kernels.viterbi``: entering one costs more than
its work. Here labels come in groups of ``GROUP`` = 8, ``-inf`` beyond K, and a group is one expression, a
tree of comparisons without a branch; up to eight labels are then one loop a step forwards and none backwards.

    v[t, k] = max over groups g of ( u[t, k] + max_{j in g} (v[t-1, j] + a[j, k]) )

Rounding is monotone, so adding u before the last maximum gives the same number as adding it after. Answers,
ties included, are bit for bit those of ``viterbi``.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel, optimized_alone

GROUP = 8
FEW = 32  # labels up to which this beats the general kernel


@max_kernel
def grouped_transitions(a):
    """The matrix (K, K) with rows and columns of -inf up to whole groups."""
    K = a.shape[0]
    size = (K + GROUP - 1) // GROUP * GROUP
    grouped = np.full((size, size), -np.inf)
    for j in range(K):
        for k in range(K):
            grouped[j, k] = a[j, k]
    return grouped


@max_kernel
def _higher(x, y):
    return y if y > x else x


@max_kernel
def _reach(x0, x1, x2, x3, x4, x5, x6, x7, a, j, k):
    """max of x_i + a[j + i, k]."""
    y0 = _higher(x0 + a[j, k], x1 + a[j + 1, k])
    y2 = _higher(x2 + a[j + 2, k], x3 + a[j + 3, k])
    y4 = _higher(x4 + a[j + 4, k], x5 + a[j + 5, k])
    y6 = _higher(x6 + a[j + 6, k], x7 + a[j + 7, k])
    return _higher(_higher(y0, y2), _higher(y4, y6))


@max_kernel
def _predecessor(v, t, a, j, k):
    """max and argmax over the group i = j .. j + 7 of v[t, i] + a[i, k]; the smallest i among equals."""
    y0, y1 = v[t, j] + a[j, k], v[t, j + 1] + a[j + 1, k]
    y2, y3 = v[t, j + 2] + a[j + 2, k], v[t, j + 3] + a[j + 3, k]
    y4, y5 = v[t, j + 4] + a[j + 4, k], v[t, j + 5] + a[j + 5, k]
    y6, y7 = v[t, j + 6] + a[j + 6, k], v[t, j + 7] + a[j + 7, k]
    i0, y0 = 1 if y1 > y0 else 0, _higher(y0, y1)
    i2, y2 = 3 if y3 > y2 else 2, _higher(y2, y3)
    i4, y4 = 5 if y5 > y4 else 4, _higher(y4, y5)
    i6, y6 = 7 if y7 > y6 else 6, _higher(y6, y7)
    i0, y0 = i2 if y2 > y0 else i0, _higher(y0, y2)
    i4, y4 = i6 if y6 > y4 else i4, _higher(y4, y6)
    return _higher(y0, y4), j + (i4 if y4 > y0 else i0)


@optimized_alone
@max_kernel
def small_viterbi(u, lo, n, a, start, end, v, path):
    """Best labelling of rows lo..lo+n-1 (n > 0) into ``path`` (n,), its score returned.

    ``a``: from :func:`grouped_transitions`. Scratch: ``v`` (n or more, as many columns as ``a``), which comes
    with -inf beyond K. Indices and not views of rows: a view counts references.
    """
    K, size = u.shape[1], a.shape[0]
    for k in range(K):
        v[0, k] = start[k] + u[lo, k]
    for t in range(1, n):
        s, row = t - 1, lo + t
        x0, x1, x2, x3 = v[s, 0], v[s, 1], v[s, 2], v[s, 3]
        x4, x5, x6, x7 = v[s, 4], v[s, 5], v[s, 6], v[s, 7]
        for k in range(K):
            v[t, k] = _reach(x0, x1, x2, x3, x4, x5, x6, x7, a, 0, k) + u[row, k]
        for j in range(GROUP, size, GROUP):
            x0, x1, x2, x3 = v[s, j], v[s, j + 1], v[s, j + 2], v[s, j + 3]
            x4, x5, x6, x7 = v[s, j + 4], v[s, j + 5], v[s, j + 6], v[s, j + 7]
            for k in range(K):
                v[t, k] = _higher(v[t, k], _reach(x0, x1, x2, x3, x4, x5, x6, x7, a, j, k) + u[row, k])
    best, label = -np.inf, 0
    for k in range(K):
        if v[n - 1, k] + end[k] > best:
            best, label = v[n - 1, k] + end[k], k
    path[n - 1] = label
    for t in range(n - 1, 0, -1):
        top, previous = _predecessor(v, t - 1, a, 0, label)
        for j in range(GROUP, size, GROUP):
            value, arg = _predecessor(v, t - 1, a, j, label)
            if value > top:
                top, previous = value, arg
        label = previous
        path[t - 1] = label
    return best
