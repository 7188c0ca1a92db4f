"""How sure each boundary is, and finer times than the frames.

**Confidence.** Under p(path) proportional to exp(beta K score), the probability that the start of a phone
lies within ``tolerance`` of the answer:

    confidence_k = sum_{|t - s_k| <= tolerance} P(node k starts at t)

Scores are divided by the number of phones K (``alignment_features``), which the K takes back.
Objectives other than the log-likelihood do not care about the size of w; beta is therefore fitted after
training, so that confidences are the frequencies with which boundaries are within the tolerance on the
hold-out utterances: it minimises their mean cross-entropy. With a tolerance of 0 only the exact frame
counts.

**Margin.** By how much the score falls (in the same units, nats) on the best path whose boundary k lies more
than the tolerance away.

**Refinement.** Frames quantise the answer. With its neighbours fixed, the score of boundary k at s_k - 1,
s_k and s_k + 1 defines a parabola; its vertex, less than half a frame from s_k, is the answer. A boundary
that cannot move is left where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize_scalar

from trellis.core.arrays import FloatArray, IntArray
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.scores.segment_graph import SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentScores

LOG_BETA = (-8.0, -6.0, -4.5, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)
_CLIP = 1e-6
LARGEST_OFFSET = 0.45  # frames: a phone of one frame keeps some length


def sharpen(scores: SegmentScores, factor: float) -> SegmentScores:
    """Every score times ``factor``."""
    return replace(
        scores,
        prefix=scores.prefix * factor,
        boundary=scores.boundary * factor,
        duration=scores.duration * factor,
        rate_weight=scores.rate_weight * factor,
    )


def confidences(scores: SegmentScores, path: SegmentPath, tolerance: float) -> FloatArray:
    """The probability of each start of ``path`` within ``tolerance`` frames, (n,); of scores that are
    sharpened already."""
    posterior = Segmentation().marginals(scores).parts.starts[path.nodes]
    return probability_near(posterior, path.starts, tolerance)


def probability_near(posterior: FloatArray, starts: IntArray, tolerance: float) -> FloatArray:
    """The probability of each start within ``tolerance`` frames, (n,); ``posterior``: (n, T + 1)."""
    near = np.abs(np.arange(posterior.shape[1]) - starts[:, None]) <= tolerance + 1e-9
    return np.asarray(np.clip(np.sum(posterior, axis=1, where=near), 0.0, 1.0))


def fit_beta(
    scores: Sequence[SegmentScores],
    paths: Sequence[SegmentPath],
    references: Sequence[FloatArray],
    factors: Sequence[float],
    tolerance: float,
) -> float:
    """beta for chains with known starts (in frames), by minimising the cross-entropy of the confidences.

    ``factors``: the K of each utterance.
    """
    hits = [
        np.abs(path.starts[1:] - reference[1:]) <= tolerance + 1e-9
        for path, reference in zip(paths, references, strict=True)
    ]
    n_boundaries = sum(len(hit) for hit in hits)
    if n_boundaries == 0:
        return 1.0
    doubt = 1.0 / (n_boundaries + 2.0)  # as if one more boundary were right and one wrong: beta stays finite

    def cross_entropy(log_beta: float) -> float:
        total = 0.0
        for one, path, hit, factor in zip(scores, paths, hits, factors, strict=True):
            sure = confidences(sharpen(one, float(np.exp(log_beta)) * factor), path, tolerance)[1:]
            sure = np.clip(sure, _CLIP, 1.0 - _CLIP)
            right = np.where(hit, 1.0 - doubt, doubt)
            total -= float(np.sum(right * np.log(sure) + (1.0 - right) * np.log(1.0 - sure)))
        return total

    # Far from the minimum the cross-entropy is flat: a grid finds the valley, golden sections its floor.
    values = [cross_entropy(log_beta) for log_beta in LOG_BETA]
    best = int(np.argmin(values))
    valley = LOG_BETA[max(best - 1, 0)], LOG_BETA[min(best + 1, len(LOG_BETA) - 1)]
    found = minimize_scalar(cross_entropy, bounds=valley, method="bounded", options={"xatol": 0.1})
    return float(np.exp(found.x if found.fun < values[best] else LOG_BETA[best]))


def refine_starts(scores: SegmentScores, path: SegmentPath) -> FloatArray:
    """Starts between frames, (n,), in frames."""
    starts = path.starts.astype(np.float64)
    if len(starts) < 2:
        return starts
    here, low, high = (_moved(scores, path, by) for by in (0, -1, 1))
    movable = np.isfinite(here) & np.isfinite(low) & np.isfinite(high)
    here, low, high = (np.where(movable, value, 0.0) for value in (here, low, high))
    bend = low - 2.0 * here + high
    offset = np.zeros(len(bend))
    np.divide(0.5 * (low - high), bend, out=offset, where=bend < 0.0)
    starts[1:] += np.clip(offset, -LARGEST_OFFSET, LARGEST_OFFSET)
    return starts


def _moved(scores: SegmentScores, path: SegmentPath, by: int) -> FloatArray:
    """(n - 1,): the part of the score that depends on boundary k, moved by ``by`` frames while the others
    stay."""
    graph, nodes, starts = scores.graph, path.nodes, path.starts
    left, right = nodes[:-1], nodes[1:]
    at = starts[1:] + by
    before, after = at - starts[:-1], path.ends[1:] - at
    allowed = (before >= graph.min_length[left]) & (before <= graph.max_length[left])
    allowed &= (after >= graph.min_length[right]) & (after <= graph.max_length[right])
    longest = scores.duration.shape[1] - 1
    value = scores.prefix[left, at] - scores.prefix[right, at] + scores.boundary[right, at]
    value += scores.duration[left, np.clip(before, 0, longest)]
    value += scores.duration[right, np.clip(after, 0, longest)]
    if scores.rate_weight:
        ratio = path.lengths / graph.mean_length[nodes]
        earlier, later = before / graph.mean_length[left], after / graph.mean_length[right]
        change = (later - earlier) ** 2
        change[1:] += (earlier[1:] - ratio[:-2]) ** 2
        change[:-1] += (ratio[2:] - later[:-1]) ** 2
        value = value - scores.rate_weight * change
    return np.where(allowed, value, -np.inf)
