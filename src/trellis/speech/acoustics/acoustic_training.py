"""Training the acoustic model on utterances with reference alignments.

A reference alignment of K phones becomes a path: its starts in frames, rounded to whole frames at least one
frame apart. The loss still sees the unrounded starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.shards import over_items
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.alignment_features import whole_frames
from trellis.speech.acoustics.boundary_classifier import (
    BoundaryClassifier,
    BoundaryExamples,
    BoundaryOptions,
)
from trellis.speech.acoustics.frame_classifiers import ClassifierOptions, FrameClassifier, FrameExamples
from trellis.speech.acoustics.phone_durations import DurationModel
from trellis.speech.corpus.utterance import Utterance


@dataclass(frozen=True, eq=False)
class TrainingUtterance:
    """``frames``: (T, D), standardised. ``starts``: (K,) of the reference in frames, not rounded."""

    id: str
    frames: Float32Array
    labels: tuple[str, ...]
    starts: FloatArray

    @property
    def gold(self) -> IntArray:
        return whole_frames(self.starts, len(self.frames))

    @classmethod
    def of(cls, utterance: Utterance, frames: Float32Array, step: float) -> TrainingUtterance:
        """The reference must cover the recording without gaps, as those of a corpus do."""
        id, reference = utterance.id, utterance.reference
        if reference is None or not reference.phones:
            raise DataError(f"{id}: the reference has no phones; leave the utterance out")
        labels, starts = reference.labels, reference.starts / step
        if len(labels) > len(frames):
            raise DataError(
                f"{id}: {len(labels)} phones in {len(frames)} frames of {1000 * step:g} ms; use a shorter "
                "step or leave the utterance out"
            )
        return cls(id, frames, labels, np.minimum(starts, len(frames) - 1.0))


def fit_acoustics(
    utterances: Sequence[TrainingUtterance],
    more: Sequence[TrainingUtterance],
    base: AcousticModel,
    classifier: ClassifierOptions,
    boundaries: BoundaryOptions,
    seed: int,
    n_jobs: int = 1,
) -> AcousticModel:
    """Train the classifiers on ``utterances``, and the durations on ``more`` as well; the rest is ``base``.

    BLAS runs on one thread: sums then have one order, and the classifiers do not depend on the number of
    cores. The two classifiers train in parallel instead.
    """
    phones, step_ms = base.phones, 1000.0 * base.step
    encoded = {u.id: phones.encode(u.labels, u.id) for u in (*utterances, *more)}

    def fit_classifier() -> FrameClassifier | None:
        if "classifier" not in base.names:
            return None
        codes = [frame_codes(u, encoded[u.id].codes) for u in utterances]
        frames = [u.frames for u in utterances]
        return classifier.fit(FrameExamples(frames, codes, len(phones.classes), step_ms), seed)

    def fit_boundaries() -> BoundaryClassifier | None:
        if "boundary" not in base.names:
            return None
        examples = [BoundaryExamples(u.frames, encoded[u.id].descriptors, u.starts) for u in utterances]
        return boundaries.fit(examples, step_ms, seed + 1)

    trainers: list[Callable[[], Any]] = [fit_classifier, fit_boundaries]
    with threadpool_limits(limits=1, user_api="blas"):
        frame_classifier, boundary_classifier = over_items(lambda i: trainers[i](), 2, n_jobs)
    both = [*utterances, *more]
    lengths = [np.diff(u.starts, append=float(len(u.frames))) * base.step for u in both]
    durations = DurationModel.fit([encoded[u.id].kinds for u in both], lengths, phones.silent_kinds)
    return replace(base, classifier=frame_classifier, boundaries=boundary_classifier, durations=durations)


def frame_codes(utterance: TrainingUtterance, codes: IntArray) -> IntArray:
    """The class at the middle of each frame."""
    middle = np.arange(len(utterance.frames)) + 0.5
    return codes[np.searchsorted(utterance.starts[1:], middle, side="right")]
