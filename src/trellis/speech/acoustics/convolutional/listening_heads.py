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
    network: AnyNetwork, examples: Sequence[NetworkExample], n_classes: int, seed: int
) -> ListeningHeads:
    """Heads for the trunk of ``network``, with its prior."""
    hidden = np.concatenate([network.hidden(e.frames) for e in examples])
    codes = np.concatenate([e.codes[e.phone_of_frame] for e in examples])
    phi = np.concatenate([e.descriptors[e.phone_of_frame][:, n_classes:] for e in examples])
    size = np.maximum(hidden.std(axis=0), 1e-6).astype(np.float32)  # AdamW wants units of one size
    hidden /= size
    units, width = hidden.shape[1], n_classes + phi.shape[1]
    theta, slope = np.zeros((units + 1) * width, np.float32), np.zeros((units + 1) * width, np.float32)
    weight, bias = theta[:-width].reshape(units, width), theta[-width:]
    d_weight, d_bias = slope[:-width].reshape(units, width), slope[-width:]
    passes = max(PASSES, -(-FEWEST_STEPS * BATCH // len(codes)))
    schedule, rng = Schedule(RATE, passes, 0.0, 0.0), np.random.default_rng(seed)
    optimiser = AdamW(theta, 0.0)
    for number in range(passes):
        order = rng.permutation(len(codes))
        for first in range(0, len(order), BATCH):
            rows = order[first : first + BATCH]
            outputs = hidden[rows] @ weight + bias
            d_outputs = np.empty_like(outputs)
            d_outputs[:, :n_classes], _ = softmax_and_log_sum(outputs[:, :n_classes])
            d_outputs[np.arange(len(rows)), codes[rows]] -= 1.0
            d_outputs[:, n_classes:] = 1.0 / (1.0 + np.exp(-outputs[:, n_classes:])) - phi[rows]
            d_outputs *= np.float32(1.0 / len(rows))
            np.matmul(hidden[rows].T, d_outputs, out=d_weight)
            np.sum(d_outputs, axis=0, out=d_bias)
            optimiser.step(slope, schedule.rate_at((number + first / len(order)) / passes))
    weight, bias = weight / size[:, None], bias.copy()
    unseen = np.flatnonzero(np.bincount(codes, minlength=n_classes) == 0)
    weight[:, unseen], bias[unseen] = 0.0, UNSEEN
    return ListeningHeads(weight, bias, network.prior)
