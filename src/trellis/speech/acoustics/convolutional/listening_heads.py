"""What is spoken at each frame, read off a trunk that was trained for where boundaries lie.

Training through the alignment (``learning.end_to_end``) moves what it likes between the heads of a network:
sums over whole segments are all that counts, and a score of a class need no longer mean that class. But long
recordings are searched by the classes of frames, and whether a transcript is what was said is judged by them.
So two more linear heads learn from the finished trunk, which stays as it is: with h_t the trunk (those of a
mixture side by side),

    min  (1/n) sum_t -log softmax(V' h_t + a)[c_t]  +  (1/n) sum_{t,f} log(1 + exp z_f(t)) - phi_f(t) z_f(t)

with z = A' h + e, over the frames of the training utterances: a convex problem, by AdamW from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array
from trellis.core.errors import DataError
from trellis.core.logspace import log_softmax, softmax_and_log_sum
from trellis.core.registration import register
from trellis.speech.acoustics.convolutional.convolutional_training import UNSEEN, AdamW, Schedule
from trellis.speech.acoustics.convolutional.network_mixture import AnyNetwork
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample
from trellis.training.checkpoints import Checkpoints
from trellis.training.passes import Passes, train_passes

RATE, BATCH = 5e-3, 1024  # frames
PASSES, FEWEST_STEPS = 8, 300


@register
@dataclass(frozen=True, eq=False)
class ListeningHeads:
    """``weight``: (H, C + F), ``bias``: (C + F,), of the classes and of articulation; ``prior``: (C,)."""

    weight: Float32Array
    bias: Float32Array
    prior: Float32Array

    def __post_init__(self) -> None:
        arrays = (self.weight, self.bias, self.prior)
        fit = self.weight.ndim == 2 and self.bias.shape == self.weight.shape[1:]
        if not fit or not 0 < len(self.prior) <= len(self.bias):
            raise DataError("the listening heads of the network do not fit each other")
        if not all(a.dtype == np.float32 and np.isfinite(a).all() for a in arrays):
            raise DataError("the weights of the listening heads are not finite numbers")

    def check(self, units: int, n_classes: int, n_articulations: int) -> None:
        """Raise an error unless they are made for such a trunk and such phones."""
        sizes = (len(self.weight), len(self.prior), len(self.bias) - len(self.prior))
        if sizes != (units, n_classes, n_articulations):
            raise DataError("the listening heads do not fit the network and the phones of the model")

    def hear(self, hidden: Float32Array) -> tuple[Float32Array, Float32Array]:
        """log p(c | x, t) less the prior, (T, C), and the log-odds of articulation, (T, F)."""
        outputs, n = hidden @ self.weight + self.bias, len(self.prior)
        return log_softmax(outputs[:, :n]) - self.prior, outputs[:, n:]


def fit_listening_heads(
    network: AnyNetwork,
    examples: Sequence[NetworkExample],
    n_classes: int,
    seed: int,
    checkpoints: Checkpoints | None = None,
) -> ListeningHeads:
    """Heads for the trunk of ``network``, with its prior."""
    return train_passes(HeadTraining(network, examples, n_classes, seed), checkpoints=checkpoints)


class HeadTraining(Passes[ListeningHeads]):
    """The convex problem of the module docstring."""

    kept = ("optimiser", "rng")

    def __init__(
        self, network: AnyNetwork, examples: Sequence[NetworkExample], n_classes: int, seed: int
    ) -> None:
        hidden = np.concatenate([network.hidden(e.frames) for e in examples])
        self._codes = np.concatenate([e.codes[e.phone_of_frame] for e in examples])
        self._phi = np.concatenate([e.descriptors[e.phone_of_frame][:, n_classes:] for e in examples])
        self._size = np.maximum(hidden.std(axis=0), 1e-6).astype(np.float32)  # AdamW wants units of one size
        hidden /= self._size
        self._hidden, self._prior, self._n_classes = hidden, network.prior, n_classes
        units, width = hidden.shape[1], n_classes + self._phi.shape[1]
        theta, self._slope = (np.zeros((units + 1) * width, np.float32) for _ in range(2))
        self._weight, self._bias = theta[:-width].reshape(units, width), theta[-width:]
        self._d_weight, self._d_bias = self._slope[:-width].reshape(units, width), self._slope[-width:]
        self.passes = max(PASSES, -(-FEWEST_STEPS * BATCH // len(self._codes)))
        self._schedule, self.rng = Schedule(RATE, self.passes, 0.0, 0.0), np.random.default_rng(seed)
        self.optimiser = AdamW(theta, 0.0)

    def one_pass(self) -> None:
        n, codes = self._n_classes, self._codes
        order = self.rng.permutation(len(codes))
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            outputs = self._hidden[rows] @ self._weight + self._bias
            d_outputs = np.empty_like(outputs)
            d_outputs[:, :n], _ = softmax_and_log_sum(outputs[:, :n])
            d_outputs[np.arange(len(rows)), codes[rows]] -= 1.0
            d_outputs[:, n:] = 1.0 / (1.0 + np.exp(-outputs[:, n:])) - self._phi[rows]
            d_outputs *= np.float32(1.0 / len(rows))
            np.matmul(self._hidden[rows].T, d_outputs, out=self._d_weight)
            np.sum(d_outputs, axis=0, out=self._d_bias)
            share = (self.done + first / len(order)) / self.passes
            self.optimiser.step(self._slope, self._schedule.rate_at(share))

    @property
    def weights(self) -> ListeningHeads:
        weight, bias = self._weight / self._size[:, None], self._bias.copy()
        unseen = np.flatnonzero(np.bincount(self._codes, minlength=self._n_classes) == 0)
        weight[:, unseen], bias[unseen] = 0.0, UNSEEN
        return ListeningHeads(weight, bias, self._prior)
