"""Training the network through the alignment: all that it hears is judged by the boundaries that follow.

The network was trained for classes, articulation and boundaries, one frame or one boundary at a time. Here
the likelihood of whole alignments (``alignment_likelihood``) is raised in all parameters together, the
network's and the weights of the features, by AdamW over a few passes; a share ``LOOSE`` of the visits is to a
lattice with optional silences. After each pass the share of held-out boundaries within 10, 20, 30 and 40 ms,
averaged, is measured; the best pass is kept, and the start counts as one.

The frame scores may forget what they mean meanwhile: any part of a score may be in any head. Two new heads
learn to tell what is spoken afterwards (``listening_heads``). Frame losses that would keep the old ones in
their place cost more than half a point on held-out languages.

Beside the boundary scores the frame scores of an untuned network count for little, and a head with the weight
0 has no gradient: their weights start at ``FLOOR`` nats or more.

The weights serve the training only: ``fit`` learns its own afterwards, on utterances that the network has not
seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray
from trellis.core.blas_threads import one_blas_thread
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.acoustic_training import TrainingUtterance, network_example
from trellis.speech.acoustics.convolutional.augmentation import vary
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.convolutional_training import (
    AdamW,
    ConvolutionalOptions,
    Schedule,
    batches,
)
from trellis.speech.acoustics.convolutional.listening_heads import fit_listening_heads
from trellis.speech.acoustics.convolutional.network_gradient import backward
from trellis.speech.acoustics.convolutional.network_mixture import members, mixed
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample
from trellis.speech.align.learning.alignment_likelihood import AlignmentLikelihood, LatticeExample
from trellis.speech.align.search.topology import topology_names
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.training.checkpoints import Checkpoints
from trellis.training.passes import Passes, Report, train_passes

LOOSE = 0.5
FRAME_SCORES, FLOOR = ("classifier", "articulation"), 0.15
CLIP = 1.0
TOLERANCES_MS = (10.0, 20.0, 30.0, 40.0)


def train_end_to_end(
    acoustics: AcousticModel,
    weights: FloatArray,
    utterances: Sequence[TrainingUtterance],
    holdout: Sequence[TrainingUtterance],
    options: ConvolutionalOptions,
    seed: int,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> AcousticModel:
    """The acoustic model with its networks trained on, each by itself. ``weights``: where those of the
    features start, as ``search.topology`` has them. ``checkpoints``: of the fit whose stages these are."""
    heard = {"classifier", "articulation", "boundary"} & set(acoustics.names)
    if acoustics.network is None or not heard or options.end_to_end_passes == 0:
        return acoustics
    each, trained = members(acoustics.network), []
    for i, start in enumerate(each):

        def tell(share: float, i: int = i) -> None:
            if report is not None:
                report((i + share) / len(each))

        one = _train(acoustics, start, weights, utterances, holdout, options, seed + i, tell, checkpoints)
        trained.append(one)
    network = mixed(trained)
    examples = [network_example(u, acoustics.phones) for u in utterances]
    listening = fit_listening_heads(network, examples, len(acoustics.phones.classes), seed, checkpoints)
    return replace(acoustics, network=network, listening=listening)


def _train(
    acoustics: AcousticModel,
    start: ConvolutionalNetwork,
    weights: FloatArray,
    utterances: Sequence[TrainingUtterance],
    holdout: Sequence[TrainingUtterance],
    options: ConvolutionalOptions,
    seed: int,
    report: Report,
    checkpoints: Checkpoints | None,
) -> ConvolutionalNetwork:
    likelihood = AlignmentLikelihood(acoustics)
    examples = [network_example(u, acoustics.phones) for u in utterances]
    held = [likelihood.example(network_example(u, acoustics.phones), loose=False) for u in holdout]
    schedule = Schedule(options.end_to_end_rate, options.end_to_end_passes, 0.0, 0.0)
    nats = _starting_weights(acoustics, weights)
    rising = RisingLikelihood(likelihood, start, nats, examples, schedule, options, LOOSE, seed)
    return train_passes(BestPass(rising, held, 1000.0 * acoustics.step), report, checkpoints)


def continue_end_to_end(
    acoustics: AcousticModel,
    start: ConvolutionalNetwork,
    weights: FloatArray,
    examples: Sequence[NetworkExample],
    schedule: Schedule,
    options: ConvolutionalOptions,
    seed: int,
    report: Report | None = None,
    checkpoints: Checkpoints | None = None,
) -> ConvolutionalNetwork:
    """The network after all passes of ``schedule`` over the phones as they are given; ``weights``: see
    :func:`train_end_to_end`."""
    nats = in_nats(acoustics, weights).astype(np.float32)
    likelihood = AlignmentLikelihood(acoustics)
    rising = RisingLikelihood(likelihood, start, nats, examples, schedule, options, 0.0, seed)
    return train_passes(rising, report, checkpoints)


class RisingLikelihood(Passes[ConvolutionalNetwork]):
    """Passes that raise the likelihood of ``examples``, from the network ``start`` and the weights ``nats``.
    ``loose``: the share of visits to a lattice with optional silences."""

    kept = ("optimiser", "rng")

    def __init__(
        self,
        likelihood: AlignmentLikelihood,
        start: ConvolutionalNetwork,
        nats: Float32Array,
        examples: Sequence[NetworkExample],
        schedule: Schedule,
        options: ConvolutionalOptions,
        loose: float,
        seed: int,
    ) -> None:
        self.likelihood, self.passes, self.rng = likelihood, schedule.passes, np.random.default_rng(seed)
        self._examples, self._schedule, self._options, self._loose = examples, schedule, options, loose
        theta, n = np.concatenate([start.flat(), nats]), len(start.flat())
        self._slope = np.zeros_like(theta)
        self.network, self.nats = start.on(theta[:n]), theta[n:]  # they change with every batch
        self._gradient, self._nats_slope = start.on(self._slope[:n]), self._slope[n:]
        self.optimiser = AdamW(theta, 0.0, CLIP)

    @property
    def weights(self) -> ConvolutionalNetwork:
        return self.network.on(self.network.flat())

    def one_pass(self) -> None:
        likelihood, options, rng, network = self.likelihood, self._options, self.rng, self.network
        parts = list(batches(self._examples, options.batch_frames // 2, rng))
        for i, chosen in enumerate(parts):
            visited = [self._examples[k] for k in chosen]
            varied = [vary(e, rng) if options.augment else e for e in visited]
            free = (rng.random(len(chosen)) < self._loose).tolist()
            part = [likelihood.example(e, one) for e, one in zip(varied, free, strict=True)]
            trace = likelihood.listen(network, part, options.dropout, rng)
            now = self.nats.astype(np.float64)
            _, derivatives, self._nats_slope[...] = likelihood.gradient(network, trace, part, now)
            backward(network, trace, derivatives, self._gradient)
            share = (self.done + i / len(parts)) / self.passes
            self.optimiser.step(self._slope, self._schedule.rate_at(share))


class BestPass(Passes[ConvolutionalNetwork]):
    """The network of the pass that places most boundaries of ``held`` well; the start counts as one."""

    kept = ("rising", "best", "network")

    def __init__(self, rising: RisingLikelihood, held: Sequence[LatticeExample], step_ms: float) -> None:
        self.rising, self._held, self._step_ms, self.passes = rising, held, step_ms, rising.passes
        self.best, self.network = self._share(), rising.weights

    def one_pass(self) -> None:
        self.rising.step()
        share = self._share()
        if share > self.best:
            self.best, self.network = share, self.rising.weights

    def _share(self) -> float:
        rising = self.rising
        with one_blas_thread():
            return held_out_share(rising.likelihood, rising.network, rising.nats, self._held, self._step_ms)

    @property
    def weights(self) -> ConvolutionalNetwork:
        return self.network


def in_nats(acoustics: AcousticModel, weights: FloatArray) -> FloatArray:
    """The weights of ``search.topology`` for features that no scale divides."""
    scale = [s for name, s in zip(acoustics.names, acoustics.scale, strict=True) if name != "rate"]
    return np.asarray(weights / np.append(scale, 1.0))


def _starting_weights(acoustics: AcousticModel, weights: FloatArray) -> Float32Array:
    nats = in_nats(acoustics, weights)
    heard = [name in FRAME_SCORES for name in topology_names(acoustics.names)]
    nats[:-1][heard] = np.maximum(nats[:-1][heard], FLOOR)
    return nats.astype(np.float32)


def held_out_share(
    likelihood: AlignmentLikelihood,
    network: ConvolutionalNetwork,
    weights: Float32Array | FloatArray,
    held: Sequence[LatticeExample],
    step_ms: float,
) -> float:
    """The share of boundaries within each of ``TOLERANCES_MS``, averaged over them."""
    errors = []
    for e in held:
        trace = likelihood.listen(network, [e])
        (features,) = likelihood.features(network, trace, [e])
        path = Segmentation().best(features.scores(np.asarray(weights, np.float64)))
        errors.append(step_ms * np.abs(path.starts - e.starts)[1:])
    together = np.concatenate(errors)
    if not len(together):
        return 0.0
    return float(np.mean([np.mean(together <= ms + 1e-6) for ms in TOLERANCES_MS]))
