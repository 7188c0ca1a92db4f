"""An acoustic model with a random network over four columns, and utterances that speak through them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.acoustic_training import TrainingUtterance, fit_durations
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.phone_durations import DurationModel
from trellis.speech.audio.cepstra import FrameOptions
from trellis.speech.phones.phone_set import PhoneSet

LABELS = ("sil", "a", "b", "s")
NAMES = ("classifier", "articulation", "change_1", "boundary", "duration", "log_duration")


def utterance(seed: int, labels: tuple[str, ...] | None = None, noise: float = 1.0) -> TrainingUtterance:
    rng = np.random.default_rng(seed)
    if labels is None:
        labels = ("sil", *rng.permutation(["a", "b", "s"]).tolist(), "sil")
    lengths = rng.integers(2, 6, len(labels))
    starts = np.concatenate([[0.0], np.cumsum(lengths)[:-1] + rng.uniform(-0.4, 0.4, len(labels) - 1)])
    column = np.repeat([LABELS.index(label) for label in labels], lengths)
    frames = np.eye(4)[column] + noise * rng.normal(size=(len(column), 4))
    return TrainingUtterance(str(seed), frames.astype(np.float32), labels, starts)


def acoustic_model(names: tuple[str, ...] = NAMES, seed: int = 0) -> AcousticModel:
    phones = PhoneSet.of(LABELS, "voiced")
    n_classes, n_descriptors = len(phones.classes), phones.n_descriptors
    ones = np.ones(phones.n_kinds)
    network = ConvolutionalNetwork.random(
        4, 16, (1, 2), n_classes, n_descriptors - n_classes, n_descriptors, np.random.default_rng(seed)
    )
    base = AcousticModel(
        options=FrameOptions(channels=4, cepstra=0, energy=False, deltas=0),
        phones=phones,
        mean=np.zeros(4, np.float32),
        deviation=np.ones(4, np.float32),
        classifier=None,
        boundaries=None,
        durations=DurationModel(ones, ones, ones, ones, ones),
        names=names,
        scale=np.arange(1.0, len(names) + 1.0),
        shortest=0.01,
        network=network.with_prior(np.linspace(-1, 0, n_classes).astype(np.float32)),
    )
    return replace(base, durations=fit_durations([utterance(i) for i in range(10)], base))
