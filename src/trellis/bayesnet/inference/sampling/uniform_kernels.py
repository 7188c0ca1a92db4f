# mypy: allow-untyped-defs
"""Uniform random numbers from a counter, so that threads and blocks cannot change them.

    uniform(key, c) = the c-th number of the SplitMix64 sequence that starts at ``key``, as 53 bits in [0, 1)

A draw is known by its particle (or chain and sweep) and its variable: no state is passed around, nothing is
stored, and one seed gives the same samples for any number of threads.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _11, _1 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11), np.uint64(1)


@kernel
def uniform(key, counter):
    z = np.uint64(key) + (np.uint64(counter) + _1) * _STEP
    z = (z ^ (z >> _30)) * _FIRST
    z = (z ^ (z >> _27)) * _SECOND
    z = z ^ (z >> _31)
    return (z >> _11) * (1.0 / 9007199254740992.0)
