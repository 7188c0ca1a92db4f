"""Stretches of a long recording where an alignment does not fit: the search has lost its place there, or
something else was said.

With the posteriors p(c | x_t) of the classes at frame t, the class c(t) that the alignment has there, and the
share f_c of frames that it gives to each class,

    r_t = log p(c(t) | x_t) - log sum_c f_c p(c | x_t)

is what the alignment knows of frame t beyond chance: where classes and sound have nothing to do with each
other its mean is 0 or less. The mean over the frames of a phone counts as ``LEAST`` where it is lower: one
phone of a class that was rare in training proves nothing. Where the mean over ``PHONES`` phones in a row,
silences left out, is below ``DOUBTFUL``, the stretch from the first to the last of them is doubtful.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array, FloatArray, IntArray

LEAST = -2.0
PHONES = 15
DOUBTFUL = 0.1
FEWEST = 10  # phones: fewer have a mean of their own by chance


def doubtful_stretches(
    posteriors: Float32Array, starts: IntArray, codes: IntArray, silent: BoolArray
) -> list[tuple[int, int]]:
    """From which frame to which an alignment is doubtful, in order of their beginnings.

    ``posteriors``: logarithms, (T, C). Segments begin at the frames ``starts`` (n,), have the classes
    ``codes`` (n,) and are ``silent`` or not (n,).
    """
    ends = np.append(starts[1:], len(posteriors))
    evidence = _means(_frame_evidence(posteriors, np.repeat(codes, ends - starts)), starts, ends)
    evidence = np.maximum(evidence, LEAST)[~silent]
    begins, closes = starts[~silent], ends[~silent]
    width = min(PHONES, len(evidence))
    if width < FEWEST:
        return []
    sums = np.concatenate([[0.0], np.cumsum(evidence)])
    low = np.flatnonzero(sums[width:] - sums[:-width] < DOUBTFUL * width)
    return list(zip(begins[low].tolist(), closes[low + width - 1].tolist(), strict=True))


def _frame_evidence(posteriors: Float32Array, codes: IntArray) -> FloatArray:
    """r_t, (T,), for the class of each frame."""
    share = np.bincount(codes, minlength=posteriors.shape[1]) / len(codes)
    chance = np.log(np.exp(posteriors) @ share.astype(posteriors.dtype) + np.finfo(np.float32).tiny)
    return np.asarray(posteriors[np.arange(len(codes)), codes] - chance, dtype=np.float64)


def _means(values: FloatArray, starts: IntArray, ends: IntArray) -> FloatArray:
    """Over the frames of each segment; 0 of one without frames."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray((sums[ends] - sums[starts]) / np.maximum(ends - starts, 1))
