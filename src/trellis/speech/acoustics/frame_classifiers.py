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

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.logspace import log_softmax
from trellis.core.registration import register
from trellis.speech.acoustics.feed_forward import Network, NetworkOptions, fit_network
from trellis.speech.acoustics.frame_classifier_kernels import feature_pass, kernel_pass
from trellis.speech.audio.cepstra import FrameOptions
from trellis.speech.audio.windows import PackedFrames, windows

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
        frames, targets, n_classes = examples.frames, examples.targets, examples.n_classes
        context = round(self.context_ms / examples.step_ms)
        packed = PackedFrames.of(frames, context + 1)
        utterance = np.repeat(np.arange(len(frames)), [len(f) for f in frames])
        position = np.concatenate([np.arange(len(f)) for f in frames])

        def rows(index: IntArray) -> Float32Array:
            return packed.windows(position[index], context, context + 1, utterance[index])

        network = fit_network(rows, targets, n_classes, self.network, seed)
        counts = np.bincount(targets, minlength=n_classes) + 1.0
        log_prior = np.log(counts / counts.sum()).astype(np.float32)
        return FrameNetwork(network, context, self.prior * log_prior)


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
        rng = np.random.default_rng(seed)
        targets = examples.targets
        context = round(self.context_ms / examples.step_ms)
        values = np.concatenate([windows(f, context, context + 1) for f in examples.frames])
        if len(values) > self.max_frames:
            chosen = np.sort(rng.choice(len(values), self.max_frames, replace=False))
            values, targets = values[chosen], targets[chosen]
        train = self._exact if len(values) <= EXACT else self._nystroem
        basis, coefficients = train(values, targets, examples.n_classes, rng)
        return FrameKernelMachine(basis, coefficients.astype(np.float32), self.sigma2, context)

    def _exact(
        self, values: Float32Array, targets: IntArray, n_classes: int, rng: np.random.Generator
    ) -> tuple[Float32Array, FloatArray]:
        gram = gaussian_kernel(values, values, self.sigma2).astype(np.float64)
        alpha = np.zeros((len(values), n_classes))
        mean = np.zeros_like(alpha)
        for _ in range(self.passes):
            before, total = alpha.copy(), np.zeros_like(alpha)
            kernel_pass(gram, targets, rng.permutation(len(values)), self.C, alpha, total)
            mean += before + total / len(values)
        used = np.flatnonzero(np.abs(mean).any(axis=1))
        return np.ascontiguousarray(values[used]), mean[used] / self.passes

    def _nystroem(
        self, values: Float32Array, targets: IntArray, n_classes: int, rng: np.random.Generator
    ) -> tuple[Float32Array, FloatArray]:
        from sklearn.kernel_approximation import Nystroem

        chosen = np.sort(rng.choice(len(values), min(len(values), 10 * self.landmarks), replace=False))
        nystroem = Nystroem(
            gamma=0.5 / self.sigma2,
            n_components=min(self.landmarks, len(chosen)),
            random_state=int(rng.integers(2**31)),
        ).fit(values[chosen])
        basis = np.asarray(nystroem.components_, dtype=np.float32)
        root = np.asarray(nystroem.normalization_, dtype=np.float64).T  # z(x) = k(x, basis) root
        weights = np.zeros((n_classes, root.shape[1]))
        mean = np.zeros_like(weights)
        visits = len(values)
        for _ in range(self.passes):
            order = rng.permutation(visits)
            before, total = weights.copy(), np.zeros_like(weights)
            for first in range(0, visits, EXACT):
                block = order[first : first + EXACT]
                mapped = gaussian_kernel(values[block], basis, self.sigma2) @ root
                feature_pass(mapped, targets[block], self.C, weights, total, first, visits)
            mean += before + total / visits
        return basis, root @ mean.T / self.passes


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
