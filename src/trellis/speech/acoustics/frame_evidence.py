"""What the classifiers make of the frames of a stretch of sound, before any phones are given."""

from __future__ import annotations

from dataclasses import dataclass

from trellis.core.arrays import Float32Array


@dataclass(frozen=True, eq=False)
class FrameEvidence:
    """What is spoken: ``confidences``, (T, C) of the classes, and of noise (``noise_scores``);
    ``articulation``, (T, F) log-odds of articulatory features. What alignments are scored by: ``class_fit``
    and ``articulation_fit``, of the same forms; the same numbers, unless the network was trained through the
    alignment. ``hidden``: (T, H), the trunk of the network, where the model has one."""

    confidences: Float32Array | None = None
    articulation: Float32Array | None = None
    class_fit: Float32Array | None = None
    articulation_fit: Float32Array | None = None
    hidden: Float32Array | None = None
