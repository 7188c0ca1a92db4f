"""What speaks for and against each phone of a transcript, once it is aligned.

For a phone of class c in frames s <= t < e, with the scores g of the classes and the log-odds z of
articulation in each frame (``FrameEvidence``; what a model does not hear is left out):

    rival         mean over t of  max_c' g_c'(t) - g_c(t)         by how much the best class is better
    posterior     mean over t of  log softmax(g)_c(t)
    worst         the largest mean of ``rival`` over WINDOW frames that begin in the phone
    clarity       mean over t of  max_c' log softmax(g)_c'(t)     how sure the classes are here at all
    articulation  mean over t of  -log p(phi_f | x, t), one for each feature f
    boundaries    score of the boundary at s and at e; how far that at s stays below its best elsewhere
    doubt         logit of the probability that s, and e, are within the tolerance
    free          by how much the free sequence of classes (:mod:`.free_loop`) scores better in its frames, in
                  sum and per frame, and how many segments that begins there
    length        z = (log length - m) / s of its kind, and z^2
    class         one-hot: some classes are heard less well than others

For the whole transcript: the mean of ``rival`` over its frames; the largest gain by giving one stretch of
frames to another class, max over c' and stretches of sum_t g_c'(t) - g_own(t), per phone; the logarithms of
the mean length of its phones and of their number; the score per phone; by how much the free sequence is
better, per phone, per frame and in sum, and how many segments it has more, per phone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.alignment_features import whole_frames
from trellis.speech.acoustics.frame_evidence import FrameEvidence
from trellis.speech.align.doubt.free_loop import free_loop
from trellis.speech.align.doubt.ridge_logistic import log_odds

WINDOW = 3  # frames
SMALLEST = 1e-4
LARGEST_Z = 6.0


@dataclass(frozen=True, eq=False)
class AlignedPhones:
    """An alignment to judge: ``starts`` (n,) in frames, ``share`` (n,) the probability that each is within
    the tolerance, ``boundary`` (n, T + 1) the score of a start at each frame, ``score`` per phone."""

    labels: tuple[str, ...]
    starts: FloatArray
    share: FloatArray
    boundary: FloatArray
    score: float


@dataclass(frozen=True, eq=False)
class MatchStatistics:
    """``phones``: (n, J), one row per phone that is not silence; ``places``: (n,), which phones they are;
    ``whole``: (U,), of the transcript."""

    phones: FloatArray
    places: IntArray
    whole: FloatArray


def match_statistics(
    acoustics: AcousticModel, topology: FloatArray, evidence: FrameEvidence, aligned: AlignedPhones
) -> MatchStatistics:
    """``topology``: the weights of ``search.topology``."""
    n_frames = aligned.boundary.shape[1] - 1
    encoded = acoustics.phones.encode(aligned.labels)
    starts = whole_frames(aligned.starts, n_frames)
    lengths = np.diff(starts, append=n_frames)
    owner = np.repeat(np.arange(len(starts)), lengths)
    spoken = ~acoustics.phones.silent_kinds[encoded.kinds]
    n_classes = len(acoustics.phones.classes)
    columns, rival, gain = _heard_classes(evidence, n_classes, encoded.codes, owner, starts, lengths)
    if evidence.articulation is not None:
        phi = encoded.descriptors[:, n_classes:]
        columns.append(_articulation(evidence.articulation, phi, owner, starts, lengths))
    columns.append(_boundaries(aligned, starts))
    free = free_loop(acoustics, topology, evidence, aligned.labels, starts, owner)
    better: list[float] = []
    if free is not None:
        gain_of = np.add.reduceat(free.gains - free.forced, starts)
        begun = np.add.reduceat(free.begins, starts)
        columns.append(np.stack([gain_of, gain_of / lengths, begun], axis=1))
        total, more = float(gain_of.sum()), float(begun.sum()) - len(starts)
        better = [total / len(starts), total / n_frames, total, more / len(starts)]
    kinds, durations = encoded.kinds, acoustics.durations
    z = (np.log(lengths * acoustics.step) - durations.log_mean[kinds]) / durations.log_deviation[kinds]
    z = np.where(spoken, np.clip(z, -LARGEST_Z, LARGEST_Z), 0.0)
    classes = np.eye(n_classes + 1)[encoded.codes][:, :n_classes]  # noise has none
    table = np.concatenate([*columns, np.stack([z, z**2], axis=1), classes], axis=1)
    n_spoken = max(int(spoken.sum()), 1)
    whole = [
        float(rival[spoken[owner]].mean()) if spoken.any() else 0.0,
        gain / n_spoken,
        float(np.log(max(lengths[spoken].sum(), 1) * acoustics.step / n_spoken)),
        float(np.log(n_spoken)),
        aligned.score,
        *better,
    ]
    return MatchStatistics(table[spoken], np.flatnonzero(spoken), np.array(whole))


def _heard_classes(
    evidence: FrameEvidence,
    n_classes: int,
    codes: IntArray,
    owner: IntArray,
    starts: IntArray,
    lengths: IntArray,
) -> tuple[list[FloatArray], FloatArray, float]:
    """Columns of the phones, ``rival`` of each frame, and the largest gain of a stretch in another class."""
    if evidence.confidences is None:
        return [], np.zeros(len(owner)), 0.0
    g = evidence.confidences.astype(np.float64)
    own = g[np.arange(len(owner)), codes[owner]]
    g = g[:, :n_classes]  # noise is nobody's rival
    top = g.max(axis=1)
    total = top + np.log(np.exp(g - top[:, None]).sum(axis=1))
    rival = top - own
    padded = np.concatenate([rival, np.repeat(rival[-1:], WINDOW - 1)])
    window = sum(padded[i : i + len(rival)] for i in range(WINDOW)) / WINDOW
    table = np.stack(
        [
            np.add.reduceat(rival, starts) / lengths,
            np.add.reduceat(own - total, starts) / lengths,
            np.maximum.reduceat(window, starts),
            np.add.reduceat(top - total, starts) / lengths,
        ],
        axis=1,
    )
    gains = np.cumsum(g - own[:, None], axis=0)
    lowest = np.minimum(np.minimum.accumulate(gains, axis=0), 0.0)
    return [table], rival, float((gains - lowest).max())


def _articulation(
    z: Float32Array, phi: Float32Array, owner: IntArray, starts: IntArray, lengths: IntArray
) -> FloatArray:
    surprise = np.logaddexp(0.0, z) - phi[owner] * z
    return np.asarray(np.add.reduceat(surprise, starts, axis=0) / lengths[:, None], dtype=np.float64)


def _boundaries(aligned: AlignedPhones, starts: IntArray) -> FloatArray:
    at = aligned.boundary[np.arange(len(starts)), starts]
    below = np.minimum(aligned.boundary.max(axis=1) - at, 50.0)
    doubt = log_odds(aligned.share, SMALLEST)
    return np.stack([at, np.append(at[1:], 0.0), below, doubt, np.append(doubt[1:], 0.0)], axis=1)
