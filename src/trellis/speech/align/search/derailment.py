"""Stretches of a long recording where an alignment does not fit: the search has lost its place there, or
something else was said.

With the posteriors p(c | x_t) of the classes at frame t, the class c(t) that the alignment has there, and the
share f_c of frames that it gives to each class,

    r_t = log p(c(t) | x_t) - log sum_c f_c p(c | x_t)

is what the alignment knows of frame t beyond chance: where classes and sound have nothing to do with each
other its mean is 0 or less. (Posteriors have the offsets of :mod:`.recording_offsets` in them. Their sum is
then not 1, which makes no difference to r_t.) A phone k knows e_k, the mean over its frames, or ``LEAST``
where that is lower: one phone of a class that was rare in training proves nothing. ``PHONES`` phones in a
row, silences left out, are doubtful, from the first to the last of them, if one of two means over them is
low:

    mean of e_k                <  CHANCE       they know nothing
    mean of max(d_k, LEAST)    <  SHARE m      they know far less than those of the recording do, m the median

where d_k = e_k - n / (n + ``ONES``) (m_l - m), with m_l the median of the n phones that have the label l of
k. A label that never sounds as its class should (an accent, another habit of transcription) lowers m_l, and
is no sign that the search is lost; one that usually does and here does not is. How well a model hears a
language is part of m: the bound is that of the recording, not of the corpus that the model comes from.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array, FloatArray, IntArray

LEAST = -2.0
PHONES = 15
CHANCE = -0.1  # 0 but for the spread of such means
SHARE = 0.3
ONES = 4.0  # phones of other labels that a label's own median is weighed against
FEWEST = 10  # phones: fewer have a mean of their own by chance


def doubtful_stretches(
    posteriors: Float32Array, starts: IntArray, codes: IntArray, labels: Sequence[str], silent: BoolArray
) -> list[tuple[int, int]]:
    """From which frame to which an alignment is doubtful, in order of their beginnings.

    ``posteriors``: logarithms, (T, C). Segments begin at the frames ``starts`` (n,), have the classes
    ``codes`` (n,) and the ``labels`` (n) and are ``silent`` or not (n,).
    """
    ends = np.append(starts[1:], len(posteriors))
    evidence = _means(_frame_evidence(posteriors, np.repeat(codes, ends - starts)), starts, ends)
    evidence = np.maximum(evidence, LEAST)[~silent]
    begins, closes = starts[~silent], ends[~silent]
    width = min(PHONES, len(evidence))
    if width < FEWEST:
        return []
    usual = float(np.median(evidence))
    unusual = np.maximum(evidence - _habits(evidence, np.array(labels)[~silent], usual), LEAST)
    low = np.flatnonzero(
        (_running_means(evidence, width) < CHANCE) | (_running_means(unusual, width) < SHARE * usual)
    )
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


def _habits(evidence: FloatArray, labels: np.ndarray, usual: float) -> FloatArray:
    """(n,): n / (n + ONES) (m_l - m) for the label of each phone."""
    names, rows, counts = np.unique(labels, return_inverse=True, return_counts=True)
    medians = np.array([np.median(evidence[rows == i]) for i in range(len(names))])
    return np.asarray((counts / (counts + ONES) * (medians - usual))[rows])


def _running_means(values: FloatArray, width: int) -> FloatArray:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return np.asarray((sums[width:] - sums[:-width]) / width)
