"""Training the acoustic model on utterances with reference alignments.

A reference alignment of K phones becomes a path: its starts in frames, rounded to whole frames at least one
frame apart. The loss still sees the unrounded starts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.blas_threads import one_blas_thread
from trellis.core.errors import DataError
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.alignment_features import whole_frames
from trellis.speech.acoustics.boundary_classifier import BoundaryExamples, BoundaryOptions
from trellis.speech.acoustics.classifier_names import AnyClassifierOptions
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.convolutional.network_mixture import mixed
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample
from trellis.speech.acoustics.frame_classifiers import FrameExamples
from trellis.speech.acoustics.phone_durations import DurationModel
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.phones.phone_set import PhoneSet
from trellis.training.checkpoints import Checkpoints
from trellis.training.passes import Passes, Report, SideBySide, train_passes

SEEDS = 10_000  # from the seed of one network of a mixture to that of the next


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
    classifier: AnyClassifierOptions,
    boundaries: BoundaryOptions,
    seed: int,
    n_jobs: int = 1,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> AcousticModel:
    """Train the classifiers on ``utterances``, and the durations on ``more`` as well; the rest is ``base``.
    ``report(share)`` is called as the convolutional network is trained. ``checkpoints``: of the fit whose
    stages these trainings are.

    BLAS runs on one thread: sums then have one order, and the classifiers do not depend on the number of
    cores. The two classifiers train in parallel instead, epoch by epoch.
    """
    phones, step_ms, names = base.phones, 1000.0 * base.step, base.names
    base = replace(base, durations=fit_durations([*utterances, *more], base))
    if isinstance(classifier, ConvolutionalOptions):
        examples = [network_example(u, phones) for u in utterances]
        n, networks = classifier.networks, []
        for i in range(n):

            def tell(share: float, i: int = i) -> None:
                if report is not None:
                    report((i + share) / n)

            networks.append(
                classifier.fit(examples, len(phones.classes), step_ms, seed + i * SEEDS, tell, checkpoints)
            )
        return replace(base, network=mixed(networks))
    encoded = {u.id: phones.encode(u.labels, u.id) for u in utterances}
    trainings: dict[str, Passes[Any]] = {}
    with one_blas_thread():
        if "classifier" in names:
            codes = [frame_codes(u, encoded[u.id].codes) for u in utterances]
            frames = [u.frames for u in utterances]
            of_frames = FrameExamples(frames, codes, len(phones.classes), step_ms)
            trainings["classifier"] = classifier.training(of_frames, seed)
        if "boundary" in names:
            inner = [BoundaryExamples(u.frames, encoded[u.id].descriptors, u.starts) for u in utterances]
            trainings["boundaries"] = boundaries.training(inner, step_ms, seed + 1)
        trained = train_passes(SideBySide(list(trainings.values()), n_jobs), checkpoints=checkpoints)
    return replace(base, **dict(zip(trainings, trained, strict=True)))


def fit_durations(utterances: Sequence[TrainingUtterance], base: AcousticModel) -> DurationModel:
    """How long the phones of the references are."""
    kinds = [base.phones.encode(u.labels, u.id).kinds for u in utterances]
    lengths = [np.diff(u.starts, append=float(len(u.frames))) * base.step for u in utterances]
    return DurationModel.fit(kinds, lengths, base.phones.silent_kinds)


def network_example(utterance: TrainingUtterance, phones: PhoneSet) -> NetworkExample:
    """The utterance as the convolutional network is trained on it."""
    encoded = phones.encode(utterance.labels, utterance.id)
    silent = phones.silent_kinds[encoded.kinds]
    return NetworkExample(utterance.frames, encoded.codes, encoded.descriptors, silent, utterance.starts)


def frame_codes(utterance: TrainingUtterance, codes: IntArray) -> IntArray:
    """The class at the middle of each frame."""
    middle = np.arange(len(utterance.frames)) + 0.5
    return codes[np.searchsorted(utterance.starts[1:], middle, side="right")]
