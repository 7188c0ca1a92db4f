"""Training the convolutional network from scratch.

AdamW on mini-batches of about ``batch_frames`` frames: with the gradient g (scaled down to the norm ``clip``
where it is longer), its running mean m and mean square v (corrected for their start at 0),

    theta <- theta - rate_i (m / (sqrt(v) + 1e-8) + decay theta)

The rate rises to ``rate`` in the first ``warm_up`` of all steps and falls to 0, both along a cosine. There
are ``passes`` over the utterances, or as many as ``fewest_steps`` steps need.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import Any

import numpy as np

from trellis.core.arrays import Float32Array, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.solvers.resumable import Resumable
from trellis.speech.acoustics.convolutional.augmentation import vary
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.network_gradient import backward, forward
from trellis.speech.acoustics.convolutional.network_losses import AbsentPairs, losses, targets_of
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample, PackedBatch
from trellis.speech.acoustics.frame_classifiers import LOG_MEL
from trellis.speech.audio.cepstra import FrameOptions
from trellis.training.checkpoints import Checkpoints
from trellis.training.passes import Passes, Report, train_passes

BETAS = 0.9, 0.999
UNSEEN = -12.0  # logit of a class without training frames: a probability of about 1e-5


@register
@dataclass(frozen=True)
class ConvolutionalOptions:
    """The network and its training; see the modules of this package. ``articulation``: w_a; ``absent``: the
    weight of pairs that do not occur; ``prior``: the share of the log prior that is taken off class scores.
    ``end_to_end_passes``: through the alignment, with the rate ``end_to_end_rate``. ``networks``: how many
    listen together."""

    units: int = 128
    dilations: tuple[int, ...] = (1, 2, 4)
    dropout: float = 0.2
    augment: bool = True
    passes: int = 30
    fewest_steps: int = 200
    batch_frames: int = 1200
    rate: float = 2e-3
    warm_up: float = 0.15
    decay: float = 1e-2
    clip: float = 5.0
    articulation: float = 5.0
    absent: float = 0.3
    target_ms: float = 5.0
    prior: float = 1.0
    end_to_end_passes: int = 4
    end_to_end_rate: float = 1e-3
    networks: int = 1

    def __post_init__(self) -> None:
        if self.networks < 1 or self.end_to_end_passes < 0:
            raise DataError(
                f"networks is {self.networks} and end_to_end_passes {self.end_to_end_passes}; give at least "
                "1 network, and 0 passes or more"
            )

    def frames(self) -> FrameOptions:
        return LOG_MEL

    def fit(
        self,
        examples: Sequence[NetworkExample],
        n_classes: int,
        step_ms: float,
        seed: int,
        report: Report | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> ConvolutionalNetwork:
        """A network from scratch; ``report(share)`` is called as training goes on. ``checkpoints``: of the
        fit that this training is a stage of."""
        rng = np.random.default_rng(seed)
        codes = np.concatenate([e.codes[e.phone_of_frame] for e in examples])
        seen = np.bincount(codes, minlength=n_classes)
        if np.count_nonzero(seen) < 2:
            raise DataError(
                "the frames for the classifier are all of one phone class; give more utterances, or another "
                "fold"
            )
        if all(len(e.starts) < 2 for e in examples):
            raise DataError(
                "the utterances for the classifiers have no boundary between two phones; give longer ones"
            )
        n_descriptors = examples[0].descriptors.shape[1]
        start = ConvolutionalNetwork.random(
            examples[0].frames.shape[1], self.units, self.dilations, n_classes,
            n_descriptors - n_classes, n_descriptors, rng,
        )  # fmt: skip
        prior = np.log((seen + 1.0) / (seen + 1.0).sum())
        start = start.with_prior((self.prior * prior).astype(np.float32))
        per_pass = sum(1 for _ in batches(examples, self.batch_frames, np.random.default_rng(0)))
        passes = max(self.passes, -(-self.fewest_steps // per_pass))
        schedule = Schedule(self.rate, passes, self.warm_up, self.decay)
        training = NetworkTraining(self, start, examples, schedule, step_ms, rng)
        network = train_passes(training, report, checkpoints)
        network.class_weight[:, seen == 0] = 0.0
        network.class_bias[seen == 0] = UNSEEN
        return network


class NetworkTraining(Passes[ConvolutionalNetwork]):
    """``start`` trained on."""

    kept = ("optimiser", "rng")

    def __init__(
        self,
        options: ConvolutionalOptions,
        start: ConvolutionalNetwork,
        examples: Sequence[NetworkExample],
        schedule: Schedule,
        step_ms: float,
        rng: np.random.Generator,
    ) -> None:
        self.passes, self.rng = schedule.passes, rng
        self._options, self._examples, self._schedule = options, examples, schedule
        self._sigma = options.target_ms / step_ms
        theta = start.flat()
        self._slope = np.zeros_like(theta)
        self._network, self._gradient = start.on(theta), start.on(self._slope)
        self._absent = AbsentPairs.of(examples) if options.absent > 0.0 else None
        self.optimiser = AdamW(theta, schedule.decay, options.clip)

    @property
    def weights(self) -> ConvolutionalNetwork:
        return self._network.on(self.optimiser.theta.copy())

    def one_pass(self) -> None:
        options, examples, network, rng = self._options, self._examples, self._network, self.rng
        parts = list(batches(examples, options.batch_frames, rng))
        for i, chosen in enumerate(parts):
            part = [vary(examples[k], rng) if options.augment else examples[k] for k in chosen]
            batch = PackedBatch.of([e.frames for e in part], network.gap)
            pairs, targets = targets_of(part, batch, self._absent, options.absent, self._sigma, rng)
            trace = forward(network, batch, pairs, options.dropout, rng)
            _, derivatives = losses(trace, targets, options.articulation)
            backward(network, trace, derivatives, self._gradient)
            share = (self.done + i / len(parts)) / self.passes
            self.optimiser.step(self._slope, self._schedule.rate_at(share))


@dataclass(frozen=True)
class Schedule:
    """``passes`` over the utterances with at most the rate ``rate``."""

    rate: float
    passes: int
    warm_up: float
    decay: float

    def rate_at(self, share: float) -> float:
        """The rate when ``share`` of all steps are done."""
        if share < self.warm_up:
            return self.rate * (0.04 + 0.48 * (1.0 - cos(pi * share / self.warm_up)))
        return self.rate * 0.5 * (1.0 + cos(pi * (share - self.warm_up) / (1.0 - self.warm_up)))


class AdamW(Resumable):
    """Changes ``theta`` in place; see the module docstring."""

    kept = ("n",)

    def __init__(self, theta: Float32Array, decay: float, clip: float = np.inf) -> None:
        self.theta, self.decay, self.clip = theta, decay, clip
        self.mean, self.square, self.n = np.zeros_like(theta), np.zeros_like(theta), 0

    def step(self, gradient: Float32Array, rate: float) -> None:
        one, two = BETAS
        self.n += 1
        norm = float(np.linalg.norm(gradient))
        if not np.isfinite(norm):
            raise DataError("training the network diverged; give a smaller rate")
        scale = min(1.0, self.clip / norm) if norm > 0.0 else 1.0
        self.mean *= one
        self.mean += gradient * np.float32((1.0 - one) * scale)
        self.square *= two
        self.square += np.square(gradient) * np.float32((1.0 - two) * scale**2)
        change = self.theta * np.float32(rate * self.decay)
        root = np.sqrt(self.square)
        root *= np.float32((1.0 - two**self.n) ** -0.5)
        root += np.float32(1e-8)
        change += self.mean / root * np.float32(rate / (1.0 - one**self.n))
        self.theta -= change

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "theta": self.theta, "mean": self.mean, "square": self.square}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        for name in ("theta", "mean", "square"):  # in place: networks are views of theta
            getattr(self, name)[...] = snapshot[name]


def batches(
    examples: Sequence[NetworkExample], batch_frames: int, rng: np.random.Generator
) -> Iterator[IntArray]:
    """The examples in random order, cut into runs of about ``batch_frames`` frames."""
    order = rng.permutation(len(examples))
    ends = np.cumsum([len(examples[k].frames) for k in order])
    n_batches = max(1, round(float(ends[-1]) / batch_frames))
    number = np.minimum((ends - 1) * n_batches // ends[-1], n_batches - 1)
    for batch in np.unique(number):
        yield order[number == batch]
