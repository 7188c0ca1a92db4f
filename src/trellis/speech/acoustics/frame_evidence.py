"""What the classifiers make of the frames of a stretch of sound, before any phones are given."""

from __future__ import annotations

from dataclasses import dataclass

from trellis.core.arrays import Float32Array


@dataclass(frozen=True, eq=False)
class FrameEvidence:
    """``confidences``: (T, C) of the classes, and of noise (``noise_scores``). ``articulation``: (T, F)
    log-odds of articulatory features, and ``hidden``: (T, H) the trunk of the convolutional network,
    where the model has one."""

    confidences: Float32Array | None = None
    articulation: Float32Array | None = None
    hidden: Float32Array | None = None
