# mypy: allow-untyped-defs
"""The best labelling of one chain that contradicts a partial labelling.

This is what the 0-1 loss asks where gold labels are partly known: with A the labellings that agree with what
is known, the loss is 1 outside A and 0 inside. For a fully known labelling A has one member, and
:func:`trellis.structures.chain.oracle.search_kernels.best_different` answers faster.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import max_kernel


@max_kernel
def agrees(gold, allowed, t, k):
    """Whether label k at step t agrees with what is known (``gold[t]`` = -1: see ``allowed``)."""
    if gold[t] < 0:
        return allowed[t, k]
    return gold[t] == k


@max_kernel
def best_outside(u, a, start, end, gold, allowed, inside, outside, path):
    """Best labelling with at least one label that contradicts the known ones, into ``path``; its score.

    Returns ``-inf`` (and leaves ``path`` as it was) when there is none. Scratch (n, K): the best prefixes
    without and with a contradiction,

        inside[t, k]  = u[t, k] + max_j inside[t-1, j] + a[t, j, k]      if k agrees, else -inf
        outside[t, k] = u[t, k] + max_j max(outside[t-1, j], inside[t-1, j] if k contradicts) + a[t, j, k]
    """
    n, K = u.shape
    if n == 0:
        return -np.inf
    step = 0 if a.shape[0] == 1 else 1
    for k in range(K):
        here = start[k] + u[0, k]
        fits = agrees(gold, allowed, 0, k)
        inside[0, k] = here if fits else -np.inf
        outside[0, k] = -np.inf if fits else here
    for t in range(1, n):
        arc = a[t * step]
        for k in range(K):
            fits = agrees(gold, allowed, t, k)
            best_in, best_out = -np.inf, -np.inf
            for j in range(K):
                best_in = max(best_in, inside[t - 1, j] + arc[j, k])
                best_out = max(best_out, outside[t - 1, j] + arc[j, k])
            inside[t, k] = best_in + u[t, k] if fits else -np.inf
            outside[t, k] = (best_out if fits else max(best_in, best_out)) + u[t, k]
    return _trace_outside(a, step, end, gold, allowed, inside, outside, path)


@max_kernel
def _trace_outside(a, step, end, gold, allowed, inside, outside, path):
    """Walk back. Once a label contradicts, the earlier ones are free: both layers compete there."""
    n, K = inside.shape
    best, label = -np.inf, -1
    for k in range(K):
        if outside[n - 1, k] + end[k] > best:
            best, label = outside[n - 1, k] + end[k], k
    if label < 0:
        return best
    path[n - 1] = label
    free = not agrees(gold, allowed, n - 1, label)
    for t in range(n - 1, 0, -1):
        top, arg = -np.inf, -1
        for j in range(K):
            value = outside[t - 1, j]
            if free:
                value = max(value, inside[t - 1, j])
            value += a[t * step, j, label]
            if value > top:
                top, arg = value, j
        label = arg
        path[t - 1] = label
        free = free or not agrees(gold, allowed, t - 1, label)
    return best
