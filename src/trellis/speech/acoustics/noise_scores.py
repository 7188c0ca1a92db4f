"""Scores of noise: a segment that any sound can fill, for words that nobody has a pronunciation of.

At every frame, noise scores as the r-th best of all C classes does,

    g_noise(x_t) = r-th largest of g_c(x_t), c = 1..C,        r = min(RANK, max(2, 1 + floor(C / 5))),

(and at least as its own class, if noise was in training), and its articulation as that of the r-th best class
with the mean articulatory features of the class. Where a phone of the transcript is spoken, its own class is
the best or the second at most frames and wins by far at those that are clear; where none of them is spoken,
all of them fall behind. A rank has no unit, so it serves posteriors and margins alike.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray

RANK = 4


def with_noise(confidences: Float32Array, code: int) -> Float32Array:
    """(T, C) scores of classes with the column ``code`` for noise: one more, or that of its class."""
    score = _ranked(confidences)
    if code < confidences.shape[1]:
        together = confidences.copy()
        np.maximum(together[:, code], score, out=together[:, code])
        return together
    return np.concatenate([confidences, score[:, None]], axis=1)


def with_prior(confidences: Float32Array, log_prior: Float32Array, code: int) -> Float32Array:
    """Scores of classes and noise, with ``log_prior`` (C,) added to those of the classes."""
    return with_noise(confidences[:, : len(log_prior)] + log_prior, code)


def noise_articulation(log_odds: Float32Array, centroids: FloatArray) -> Float32Array:
    """(T,) from the (T, F) log-odds of articulatory features and the (C, F) features of the classes."""
    scores = log_odds @ centroids.T.astype(np.float32)
    return np.asarray(_ranked(scores) - np.logaddexp(np.float32(0.0), log_odds).sum(axis=1))


def _ranked(scores: Float32Array) -> Float32Array:
    n_classes = scores.shape[1]
    rank = min(RANK, max(2, 1 + n_classes // 5), n_classes)
    return np.asarray(np.partition(scores, -rank, axis=1)[:, -rank])
