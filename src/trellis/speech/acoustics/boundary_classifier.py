"""One classifier for the boundaries between all pairs of phones: log-odds that the boundary is at frame t.

Its input is the window of frames around t (``reach_ms`` to either side), followed by the descriptors of the
phones on the left and on the right (``phone_set``). One network for all pairs learns what pairs have in
common, and serves pairs that are not in the corpus. Its first layer is linear in [frames | left | right], so
the contribution of the frames is computed once per t, that of the phones once per pair, and one hidden layer
remains:

    log-odds(t; a, b) = v . max(A x_t + B_left a + B_right b + c, 0) + d

Training: a boundary at time y gives positive examples at every t with |t - y / step| <= ``width`` frames, and
negative ones at the other t within ``near_ms`` of it and at ``far`` random t of the same utterance: the
question is not whether there is *a* boundary at t but whether it is *this* one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.acoustics.boundary_classifier_kernels import pair_log_odds
from trellis.speech.acoustics.feed_forward import Network, NetworkOptions, start_training
from trellis.speech.audio.windows import PackedFrames, windows
from trellis.training.passes import Converted, Passes, train_passes


@dataclass(frozen=True, eq=False)
class BoundaryExamples:
    """One utterance: ``frames`` (T, D), ``descriptors`` (K, V) of its phones, ``starts`` (K,) in frames (not
    rounded)."""

    frames: Float32Array
    descriptors: Float32Array
    starts: FloatArray


@register
@dataclass(frozen=True)
class BoundaryOptions:
    """See the module docstring. ``network`` must have one hidden layer."""

    reach_ms: float = 60.0
    width: float = 0.75
    near_ms: float = 30.0
    far: int = 14
    network: NetworkOptions = field(default_factory=lambda: NetworkOptions(hidden=(128,), epochs=10))

    def __post_init__(self) -> None:
        if len(self.network.hidden) != 1:
            raise DataError(f"the boundary classifier needs one hidden layer, not {len(self.network.hidden)}")

    def fit(self, utterances: Sequence[BoundaryExamples], step_ms: float, seed: int) -> BoundaryClassifier:
        return train_passes(self.training(utterances, step_ms, seed))

    def training(
        self, utterances: Sequence[BoundaryExamples], step_ms: float, seed: int
    ) -> Passes[BoundaryClassifier]:
        """A run that gives the classifier."""
        rng = np.random.default_rng(seed)
        reach = max(1, round(self.reach_ms / step_ms))
        chosen = [self._positions(u, step_ms, rng) for u in utterances]
        owner = np.repeat(np.arange(len(chosen)), [len(c[0]) for c in chosen])
        node, position, target = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
        if len(target) == 0 or target.min() == target.max():
            raise DataError(
                "the utterances for the classifiers have no boundary between two phones; give longer ones"
            )
        packed = PackedFrames.of([u.frames for u in utterances], reach)
        descriptors = np.concatenate([u.descriptors for u in utterances])
        node += np.concatenate([[0], np.cumsum([len(u.descriptors) for u in utterances])])[owner]

        def rows(index: IntArray) -> Float32Array:
            around = packed.windows(position[index], reach, reach, owner[index])
            right = node[index]
            return np.concatenate([around, descriptors[right - 1], descriptors[right]], axis=1)

        network, width = start_training(rows, target, 2, self.network, seed), descriptors.shape[1]
        return Converted(network, lambda found: BoundaryClassifier(found, reach, width))

    def _positions(
        self, u: BoundaryExamples, step_ms: float, rng: np.random.Generator
    ) -> tuple[IntArray, IntArray, IntArray]:
        """(node on the right, frame, answer) of the examples of one utterance."""
        near = round(self.near_ms / step_ms)
        n_frames, n = len(u.frames), len(u.starts) - 1
        if n < 1 or n_frames < 2:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
        centre = np.rint(u.starts[1:]).astype(np.int64)
        close = centre[:, None] + np.arange(-near, near + 1)
        random = rng.integers(1, n_frames, (n, self.far))
        taken = np.abs(random - centre[:, None]) > near
        frames = np.concatenate([close, random], axis=1)
        kept = np.concatenate([(close > 0) & (close < n_frames), taken], axis=1)
        answer = np.abs(frames - u.starts[1:, None]) <= self.width
        node = np.broadcast_to(np.arange(1, n + 1)[:, None], frames.shape)
        return node[kept], frames[kept], answer[kept].astype(np.int64)


@register
@dataclass(frozen=True, eq=False)
class BoundaryClassifier:
    """``reach`` frames to either side; descriptors of ``n_descriptors`` numbers."""

    network: Network
    reach: int
    n_descriptors: int

    def check(self, width: int, n_descriptors: int) -> None:
        """Raise an error unless it is made for frames of ``width`` columns and such descriptors."""
        inputs = 2 * self.reach * width + 2 * n_descriptors
        sizes = (self.n_descriptors, len(self.network.weights), self.network.n_inputs, self.network.n_outputs)
        if self.reach < 1 or sizes != (n_descriptors, 2, inputs, 1):
            raise DataError("the boundary classifier does not fit the frames and the phones of the model")

    def log_odds(self, frames: Float32Array, left: Float32Array, right: Float32Array) -> Float32Array:
        """(R, T + 1) for R pairs of descriptors; 0 at frame 0."""
        first, bias = self.network.weights[0], self.network.biases[0]
        n_pair = 2 * self.n_descriptors
        around = windows(frames, self.reach, self.reach, np.arange(len(frames) + 1)) @ first[:-n_pair]
        around += bias
        pairs = np.concatenate([left, right], axis=1).astype(np.float32) @ first[-n_pair:]
        out = np.empty((len(left), len(frames) + 1), dtype=np.float32)
        pair_log_odds(around, pairs, self.network.weights[1][:, 0].copy(), self.network.biases[1][0], out)
        out[:, 0] = 0.0
        return out
