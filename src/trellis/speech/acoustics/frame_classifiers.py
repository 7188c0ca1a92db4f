"""Frame classifiers: how well each phone class fits each frame, from a window of frames around it.

    "mlp"                  log p(c | x) of a network with hidden layers (scikit-learn)
    "linear"               the same without a hidden layer: multinomial logistic regression
    "torch"                the same network trained by PyTorch (extra ``torch``)
    "passive_aggressive"   f_c(x) of the multiclass passive-aggressive algorithm with the Gaussian kernel
                           k(x, x') = exp(-||x - x'||^2 / (2 sigma^2)), as in Keshet et al. (2007): sigma^2 =
                           19, C = 5

The first three return log p(c | x) - ``prior`` log p(c): with prior = 1 a scaled likelihood, in which
frequent classes have no advantage over rare ones.

A network with a window of frames does better on the logarithms of the mel channels than on cepstra with
derivatives, which suit kernels on single frames. So each classifier has its own default frames.

The passive-aggressive classifier is exact up to ``EXACT`` frames. Beyond, it works on a Nystroem map of
``landmarks`` frames. Either way the result is f(x) = sum_b k(x, basis_b) coefficients[b], averaged over all
visits. Its distances are between standardised frames (unit variance per column), without a window
(``context_ms`` 0), as in the paper.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.logspace import log_softmax
from trellis.core.registration import register
from trellis.speech.acoustics.feed_forward import Network, NetworkOptions, start_training
from trellis.speech.acoustics.frame_classifier_kernels import feature_pass, kernel_pass
from trellis.speech.audio.cepstra import FrameOptions
from trellis.speech.audio.windows import PackedFrames, windows
from trellis.training.passes import Converted, Passes, train_passes

EXACT = 4000  # frames: a kernel matrix of 128 MB
LOG_MEL = FrameOptions(cepstra=0, energy=False, deltas=0, low_hz=50.0, high_hz=7600.0, normalise="speech")


class FrameClassifier(Protocol):
    """``confidences(frames)``: (T, C), from windows of ``context`` frames on either side."""

    @property
    def context(self) -> int: ...

    @property
    def shape(self) -> tuple[int, int]:
        """Columns of a window, and classes."""

    def confidences(self, frames: Float32Array) -> Float32Array: ...


@dataclass(frozen=True, eq=False)
class FrameExamples:
    """Frames of utterances, a step of ``step_ms`` apart, each frame with the code of its class."""

    frames: Sequence[Float32Array]
    codes: Sequence[IntArray]
    n_classes: int
    step_ms: float

    @property
    def targets(self) -> IntArray:
        """The codes of all frames."""
        targets = np.concatenate(self.codes).astype(np.int64)
        if len(np.unique(targets)) < 2:
            raise DataError(
                "the frames for the classifier are all of one phone class; give more utterances, or another "
                "fold"
            )
        return targets


class ClassifierOptions(Protocol):
    """A record of options that trains a frame classifier."""

    def frames(self) -> FrameOptions:
        """The default frames of this classifier."""

    def fit(self, examples: FrameExamples, seed: int) -> FrameClassifier: ...

    def training(self, examples: FrameExamples, seed: int) -> Passes[Any]:
        """A run that gives the classifier."""


@register
@dataclass(frozen=True)
class NetworkClassifier:
    """``context_ms``: the window on either side of a frame. ``prior``: see the module docstring."""

    context_ms: float = 50.0
    prior: float = 1.0
    network: NetworkOptions = field(default_factory=NetworkOptions)

    def frames(self) -> FrameOptions:
        return LOG_MEL

    def fit(self, examples: FrameExamples, seed: int) -> FrameNetwork:
        return train_passes(self.training(examples, seed))

    def training(self, examples: FrameExamples, seed: int) -> Passes[FrameNetwork]:
        frames, targets, n_classes = examples.frames, examples.targets, examples.n_classes
        context = round(self.context_ms / examples.step_ms)
        packed = PackedFrames.of(frames, context + 1)
        utterance = np.repeat(np.arange(len(frames)), [len(f) for f in frames])
        position = np.concatenate([np.arange(len(f)) for f in frames])

        def rows(index: IntArray) -> Float32Array:
            return packed.windows(position[index], context, context + 1, utterance[index])

        counts = np.bincount(targets, minlength=n_classes) + 1.0
        log_prior = np.log(counts / counts.sum()).astype(np.float32)
        network = start_training(rows, targets, n_classes, self.network, seed)
        return Converted(network, lambda found: FrameNetwork(found, context, self.prior * log_prior))


@register
@dataclass(frozen=True)
class PassiveAggressiveClassifier:
    """``sigma2``, ``C``: see the module docstring. ``landmarks``: of the Nystroem map. ``max_frames``: trains
    on a random sample of as many frames, if there are more."""

    sigma2: float = 19.0
    C: float = 5.0
    passes: int = 3
    context_ms: float = 0.0
    landmarks: int = 800
    max_frames: int = 200_000

    def frames(self) -> FrameOptions:
        return FrameOptions()

    def fit(self, examples: FrameExamples, seed: int) -> FrameKernelMachine:
        return train_passes(self.training(examples, seed))

    def training(self, examples: FrameExamples, seed: int) -> Passes[FrameKernelMachine]:
        rng = np.random.default_rng(seed)
        targets = examples.targets
        context = round(self.context_ms / examples.step_ms)
        values = np.concatenate([windows(f, context, context + 1) for f in examples.frames])
        if len(values) > self.max_frames:
            chosen = np.sort(rng.choice(len(values), self.max_frames, replace=False))
            values, targets = values[chosen], targets[chosen]
        start = ExactKernelTraining if len(values) <= EXACT else NystroemTraining
        return Converted(
            start(self, values, targets, examples.n_classes, rng),
            lambda found: FrameKernelMachine(found[0], found[1].astype(np.float32), self.sigma2, context),
        )


class KernelTraining(Passes[tuple[Float32Array, FloatArray]]):
    """Gives a basis and coefficients. ``now`` changes with every visit, ``mean`` sums its means."""

    kept = ("rng", "now", "mean")
    now: FloatArray

    def __init__(
        self,
        options: PassiveAggressiveClassifier,
        values: Float32Array,
        targets: IntArray,
        n_classes: int,
        rng: np.random.Generator,
    ) -> None:
        self.passes, self.rng, self._options = options.passes, rng, options
        self._values, self._targets = values, targets
        self.now = self._begin(n_classes)
        self.mean = np.zeros_like(self.now)

    @abstractmethod
    def _begin(self, n_classes: int) -> FloatArray:
        """Coefficients of 0, after what all passes need is computed."""

    @abstractmethod
    def _visit(self, order: IntArray, total: FloatArray) -> None:
        """Each example once: ``now`` moves, and its course is added to ``total``."""

    def one_pass(self) -> None:
        before, total = self.now.copy(), np.zeros_like(self.now)
        self._visit(self.rng.permutation(len(self._values)), total)
        self.mean += before + total / len(self._values)

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        self.now, self.mean = np.array(self.now), np.array(self.mean)  # they change in place


class ExactKernelTraining(KernelTraining):
    """With the kernels of all pairs of frames."""

    def _begin(self, n_classes: int) -> FloatArray:
        self._gram = gaussian_kernel(self._values, self._values, self._options.sigma2).astype(np.float64)
        return np.zeros((len(self._values), n_classes))

    def _visit(self, order: IntArray, total: FloatArray) -> None:
        kernel_pass(self._gram, self._targets, order, self._options.C, self.now, total)

    @property
    def weights(self) -> tuple[Float32Array, FloatArray]:
        used = np.flatnonzero(np.abs(self.mean).any(axis=1))
        return np.ascontiguousarray(self._values[used]), self.mean[used] / self.passes


class NystroemTraining(KernelTraining):
    """On a Nystroem map of some frames."""

    def _begin(self, n_classes: int) -> FloatArray:
        from sklearn.kernel_approximation import Nystroem

        values, rng, landmarks = self._values, self.rng, self._options.landmarks
        chosen = np.sort(rng.choice(len(values), min(len(values), 10 * landmarks), replace=False))
        nystroem = Nystroem(
            gamma=0.5 / self._options.sigma2,
            n_components=min(landmarks, len(chosen)),
            random_state=int(rng.integers(2**31)),
        ).fit(values[chosen])
        self._basis = np.asarray(nystroem.components_, dtype=np.float32)
        self._root = np.asarray(nystroem.normalization_, dtype=np.float64).T  # z(x) = k(x, basis) root
        return np.zeros((n_classes, self._root.shape[1]))

    def _visit(self, order: IntArray, total: FloatArray) -> None:
        for first in range(0, len(order), EXACT):
            block = order[first : first + EXACT]
            mapped = gaussian_kernel(self._values[block], self._basis, self._options.sigma2) @ self._root
            feature_pass(mapped, self._targets[block], self._options.C, self.now, total, first, len(order))

    @property
    def weights(self) -> tuple[Float32Array, FloatArray]:
        return self._basis, self._root @ self.mean.T / self.passes


@register
@dataclass(frozen=True, eq=False)
class FrameNetwork:
    """log p(c | x) of a network minus ``prior`` (C,)."""

    network: Network
    context: int
    prior: Float32Array

    def __post_init__(self) -> None:
        if self.prior.shape != (self.network.n_outputs,):
            raise DataError("the prior of the frame classifier does not fit its classes")

    @property
    def shape(self) -> tuple[int, int]:
        return self.network.n_inputs, self.network.n_outputs

    def confidences(self, frames: Float32Array) -> Float32Array:
        logits = self.network.logits(windows(frames, self.context, self.context + 1))
        return log_softmax(logits) - self.prior


@register
@dataclass(frozen=True, eq=False)
class FrameKernelMachine:
    """f(x) = k(x, basis) coefficients, with (B, D) and (B, C)."""

    basis: Float32Array
    coefficients: Float32Array
    sigma2: float
    context: int

    def __post_init__(self) -> None:
        if self.basis.ndim != 2 or self.coefficients.shape[:-1] != (len(self.basis),):
            raise DataError("the coefficients of the frame classifier do not fit its basis")

    @property
    def shape(self) -> tuple[int, int]:
        return self.basis.shape[1], self.coefficients.shape[1]

    def confidences(self, frames: Float32Array) -> Float32Array:
        rows = windows(frames, self.context, self.context + 1)
        return np.asarray(gaussian_kernel(rows, self.basis, self.sigma2) @ self.coefficients)


def gaussian_kernel(left: Float32Array, right: Float32Array, sigma2: float) -> Float32Array:
    """exp(-||x - x'||^2 / (2 sigma^2)), (len(left), len(right))."""
    distance = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2.0 * (left @ right.T)
    np.maximum(distance, 0.0, out=distance)
    distance *= -0.5 / sigma2
    return np.asarray(np.exp(distance, out=distance))
