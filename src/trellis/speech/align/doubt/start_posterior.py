"""Where each phone starts, and how probable that is, over every path of a lattice.

Under p(path) proportional to exp(score), with the scores of ``search.topology`` (a likelihood of alignments,
silences and pronunciations included), node i starts at frame t with probability P(i, t). A phone of the
transcript can have several nodes: one after silence and one without, one in each pronunciation that has it
(``Lattice.occurrences``). Its start has the posterior

    q_k(t) = sum over nodes i of phone k of P(i, t),      sum_t q_k(t) = P(phone k is spoken at all) <= 1.

So a phone that starts at 0 because the silence before it was left out is as sure as it is sure that there was
no silence. The probability that a start lies within the tolerance d of the answer s, whoever decoded it, is

    c_k = sum_t q_k(t) |[t - 1/2, t + 1/2] and [s - d, s + d]|          (d > 0; the length they share)

because frame t stands for all times nearer to it than to any other frame, and answers lie between frames.
A start at 0 is exactly there: it counts whole, or not at all. With d = 0, the frame nearest to the answer
counts.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.scores.segment_scores import SegmentScores


def start_posterior(scores: SegmentScores, occurrences: IntArray, nodes: IntArray) -> FloatArray:
    """q, (n, T + 1), for the phones that ``nodes`` are nodes of. ``occurrences``: (P,), the phone of each
    node of the lattice."""
    starts = Segmentation().marginals(scores).parts.starts
    wanted = occurrences[nodes]
    if len(wanted) == len(occurrences):  # a chain
        return np.asarray(starts[nodes])
    total = np.zeros((int(occurrences.max()) + 1, starts.shape[1]))
    np.add.at(total, occurrences, starts)
    return np.asarray(total[wanted])


def share_within(posterior: FloatArray, starts: FloatArray, tolerance: float) -> FloatArray:
    """c, (n,): the probability of a start within ``tolerance`` frames of ``starts``."""
    frames = np.arange(posterior.shape[1])
    answers = np.asarray(starts, dtype=np.float64)[:, None]
    if tolerance > 0:
        low = np.maximum(frames - 0.5, answers - tolerance)
        share = np.clip(np.minimum(frames + 0.5, answers + tolerance) - low, 0.0, 1.0)
        share[:, 0] = np.abs(answers[:, 0]) <= tolerance  # what starts at 0 starts at the very beginning
    else:
        share = (frames == np.rint(answers)).astype(np.float64)
    return np.asarray(np.clip(np.sum(posterior * share, axis=1), 0.0, 1.0))
