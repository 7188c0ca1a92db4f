"""What would be heard without a transcript: the best sequence of any classes, as far as it goes cheaply.

Score of a sequence of classes c_1, c_2, ... with boundaries, under the weights of ``search.topology``:

    sum_t w_1 g_c(t) + w_2 log p(phi_c | x, t)  +  sum over boundaries w_3 s(t; c, c')

that is classes, articulation and boundaries; lengths and spectral change are left out. A class stands for
its phones with their mean articulation. At a boundary only the ``BRANCH`` best classes on either side are
tried, so that the boundary scores of 16 pairs are computed in a frame and not those of all.

The score of a transcript in the same units, less the score of this sequence, is a log-likelihood ratio that
forgives a recording in which nothing is heard well.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.frame_evidence import FrameEvidence
from trellis.speech.align.doubt.free_loop_kernels import free_path
from trellis.speech.align.search.topology import topology_names

BRANCH = 4


@dataclass(frozen=True, eq=False)
class FreeLoop:
    """``gains``: (T,), the score of each frame of the free sequence and of the boundary before it;
    ``begins``: (T,), 1 where one of its segments begins. ``forced``: (T,), ``gains`` for the transcript."""

    gains: FloatArray
    begins: FloatArray
    forced: FloatArray


def free_loop(
    acoustics: AcousticModel,
    topology: FloatArray,
    evidence: FrameEvidence,
    labels: tuple[str, ...],
    starts: IntArray,
    owner: IntArray,
) -> FreeLoop | None:
    """None for a model without a network. ``starts``: (n,), whole frames; ``owner``: (T,), their phones."""
    network = acoustics.network
    if network is None or evidence.confidences is None or evidence.hidden is None:
        return None
    weights = dict(zip(topology_names(acoustics.names), topology, strict=False))
    scale = dict(zip(acoustics.names, acoustics.scale, strict=True))
    heard, bounded, articulated = (
        weights.get(name, 0.0) / scale.get(name, 1.0) for name in ("classifier", "boundary", "articulation")
    )
    phones = acoustics.phones
    classes = np.eye(len(phones.classes), phones.n_descriptors, dtype=np.float32)
    if phones.centroids is not None:
        classes[:, len(phones.classes) :] = phones.centroids
    encoded = phones.encode(labels)
    scores = heard * evidence.confidences.astype(np.float64)  # noise may have a column of its own, the last
    forced = scores[np.arange(len(owner)), encoded.codes[owner]]
    frames = scores[:, : len(classes)]
    if evidence.articulation is not None and articulated:
        z = evidence.articulation.astype(np.float64)
        rest = np.logaddexp(0.0, z).sum(axis=1)
        frames = frames + articulated * (z @ classes[:, len(phones.classes) :].T - rest[:, None])
        own = encoded.descriptors[:, len(phones.classes) :][owner]
        forced = forced + articulated * (np.sum(z * own, axis=1) - rest)
    units = network.boundary_units(evidence.hidden)
    if len(labels) > 1:
        pairs = encoded.descriptors[:-1] @ units.left + encoded.descriptors[1:] @ units.right
        between = np.maximum(units.around[starts[1:] - 1] + pairs, 0.0) @ units.output + units.offset
        forced[starts[1:]] += bounded * between.astype(np.float64)  # single precision times a number stays so
    path, gains = np.empty(len(frames), dtype=np.int64), np.empty(len(frames))
    room = [np.empty(min(BRANCH, len(classes)), dtype=np.int64) for _ in range(2)]
    free_path(
        np.ascontiguousarray(frames), units.around, classes @ units.left, classes @ units.right, units.output,
        np.float32(units.offset[0]), bounded, *room, path, gains,
    )  # fmt: skip
    begins = np.concatenate([[1.0], (np.diff(path) != 0).astype(np.float64)])
    return FreeLoop(gains, begins, forced)
