"""What a recording's own sound does to the classes: offsets that make them heard as often as they are said.

The noise of a room may sound like a fricative, and a speaker's vowels like others. Then the classifier hears
some classes in far more frames of the recording than a path through its transcript gives them, and words are
drawn into pauses. With g_c(t) = log p(c | x_t) - log p(c) and the share f_c of the frames that the path gives
to class c,

    q_c = mean over t of  f_c exp(g_c(t) + b_c) / sum_k f_k exp(g_k(t) + b_k)
    b_c <- b_c + log (f_c + FLOOR) / (q_c + FLOOR)

from b = 0, ``ROUNDS`` times, each with the path (:mod:`.coarse_search`) that the offsets of the last round
lead to. Frames of noise, which any sound can fill, do not count. At a fixed point q = f: the classifier hears
each class as often as the path has it. FLOOR keeps classes that hardly occur where they are.

The search adds b to g. Segmental inference adds ``FIT`` b to the scores of classes that alignments are made
by: more than once, because articulation hears the same noise and has no offsets of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray
from trellis.speech.acoustics.frame_evidence import FrameEvidence
from trellis.speech.acoustics.noise_scores import with_noise
from trellis.speech.align.search.coarse_search import coarse_frame_path
from trellis.speech.align.search.lattice_moves import LatticeMoves

ROUNDS = 3
FLOOR = 0.02
FIT = 2.0
PIECE = 8192  # frames


def recording_offsets(
    confidences: Float32Array,
    moves: LatticeMoves,
    step: int,
    evidence_of: Callable[[Float32Array], Float32Array],
    noise_code: int,
) -> Float32Array:
    """b, (C,). ``confidences``: g, (T, C); ``moves``, ``step``: of the coarse search; ``evidence_of``: from
    offsets to its evidence; ``noise_code``: of nodes that any sound can fill, whose frames do not count."""
    n_classes = confidences.shape[1]
    offsets, path = np.zeros(n_classes, dtype=np.float32), None
    for _ in range(ROUNDS):
        path = coarse_frame_path(moves, evidence_of(offsets), step, path)
        if path is None:  # too short for its transcript, as the search will say
            break
        codes = moves.codes[path]
        known = codes != noise_code
        if not known.any():
            break
        said = np.bincount(codes[known], minlength=n_classes) / np.count_nonzero(known)
        heard = heard_shares(confidences if known.all() else confidences[known], said, offsets)
        offsets += np.log((said + FLOOR) / (heard + FLOOR)).astype(np.float32)
    return offsets


def heard_shares(confidences: Float32Array, said: FloatArray, offsets: Float32Array) -> FloatArray:
    """q, (C,)."""
    with np.errstate(divide="ignore"):
        prior = (np.log(said) + offsets).astype(np.float32)
    total = np.zeros(len(said))
    for first in range(0, len(confidences), PIECE):
        logits = confidences[first : first + PIECE] + prior
        logits -= logits.max(axis=1, keepdims=True)
        np.exp(logits, out=logits)
        total += (logits / logits.sum(axis=1, keepdims=True)).sum(axis=0)
    return total / max(len(confidences), 1)


def with_offsets(heard: FrameEvidence, offsets: Float32Array, noise_code: int) -> FrameEvidence:
    """What alignments are scored by, with the offsets of the recording; noise is ranked among the new
    scores."""
    if heard.class_fit is None or not len(offsets):
        return heard
    fits = heard.class_fit[:, : len(offsets)] + np.float32(FIT) * offsets
    return replace(heard, class_fit=with_noise(fits, noise_code))
