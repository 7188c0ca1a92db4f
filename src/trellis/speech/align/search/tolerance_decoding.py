"""Boundaries that are probably within a tolerance, in place of those of the single best path.

The best path is the most probable alignment as a whole. What people measure is how many boundaries lie within
10 or 20 ms, each by itself. With p_k(u) the probability that phone k starts at frame u, the expected share of
tolerances that a boundary at frame t meets is

    gain_k(t) = (1/N) sum_tau sum_u p_k(u) c_tau(t - u),     c_tau(d) = |[d - 1/2, d + 1/2] cut with [-w, w]|,

w = tau / step for N tolerances tau: the reference lies anywhere within half a frame of u, so that a frame at
the edge of the window counts by the part of it inside. The answer maximises sum_k gain_k(s_k) over frames
with s_1 = 0 and s_{k+1} - s_k at least the minimum length of phone k, in O(K T). It need not be a path of the
model: maximum lengths bound its paths, hence p, but not the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.speech.align.search.tolerance_decoding_kernels import increasing_path

TOLERANCES_MS = (10.0, 20.0)


def tolerance_gains(posterior: FloatArray, widths: Sequence[float]) -> FloatArray:
    """gain_k(t), (K, T + 1), from the probabilities of starts; ``widths``: the tolerances in frames."""
    reach = int(np.ceil(max(widths) + 0.5))
    away = np.arange(-reach, reach + 1.0)
    window = np.mean(
        [np.clip(np.minimum(away + 0.5, w) - np.maximum(away - 0.5, -w), 0.0, 1.0) for w in widths], axis=0
    )
    n = posterior.shape[1]
    padded = np.pad(posterior, ((0, 0), (reach, reach)))
    return np.asarray(sum(window[j] * padded[:, j : j + n] for j in range(2 * reach + 1)))


def decode_starts(posterior: FloatArray, min_length: IntArray, widths: Sequence[float]) -> IntArray:
    """The frames at which phones start, (K,); ``posterior``: (K, T + 1), ``min_length``: (K,) frames."""
    starts = np.zeros(len(posterior), dtype=np.int64)
    gains = np.ascontiguousarray(tolerance_gains(posterior, widths))
    increasing_path(gains, np.asarray(min_length, np.int64), starts)
    return starts
