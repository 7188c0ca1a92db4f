"""What the convolutional network is trained for: three losses, summed over a batch of n frames and m
boundaries.

    classes        (1/n) sum_t -log softmax(logits_t)[c_t]
    articulation   w_a (1/(n F)) sum_{t,f} log(1 + exp z_f(t)) - phi_f(t) z_f(t)
    boundaries     (1/m) sum_pairs omega (log(1 + sum_t exp s(t)) - sum_t q(t) s(t))

A boundary of the reference at time y has the target q(t) proportional to exp(-(t step - y)^2 / (2 sigma^2)),
sigma = ``target_ms``, and omega = 1. *Absent* pairs have q = 0 and omega = ``absent``: pairs that a lattice
might put there, namely phone and silence where no silence is (between phones and at the ends), the two
neighbours of a silence as if it were not there; and for each boundary one with another phone, drawn from the
corpus, on one of its sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array, IntArray
from trellis.core.logspace import softmax_and_log_sum
from trellis.speech.acoustics.convolutional.network_gradient import Derivatives, Trace
from trellis.speech.acoustics.convolutional.packed_batch import NetworkExample, PackedBatch, PhonePairs


@dataclass(frozen=True, eq=False)
class Targets:
    """What the outputs for a batch should be: ``codes`` (n,), ``articulation`` (n, F); ``boundary``: q, one
    pair after the other; ``omega``: (R,); ``n_boundaries``: m."""

    codes: IntArray
    articulation: Float32Array
    boundary: Float32Array
    omega: Float32Array
    n_boundaries: int


@dataclass(frozen=True, eq=False)
class AbsentPairs:
    """Draws pairs that do not occur. ``silence``: its descriptor, if there is one; ``pool``: the descriptors
    of the phones of the corpus, one row per occurrence."""

    silence: Float32Array | None
    pool: Float32Array

    @classmethod
    def of(cls, examples: Sequence[NetworkExample]) -> AbsentPairs:
        silences = [e.descriptors[e.silent][:1] for e in examples if e.silent.any()]
        return cls(silences[0][0] if silences else None, np.concatenate([e.descriptors for e in examples]))

    def of_example(
        self, example: NetworkExample, rng: np.random.Generator
    ) -> tuple[Float32Array, Float32Array]:
        """Descriptors on the left and on the right, (A, V) each."""
        phones, silent = example.descriptors, example.silent
        left, right = [], []
        if self.silence is not None:
            # where silence would have to lie between two phones, or a phone and an end, that are not silent
            heard = np.concatenate([[True], ~silent, [True]])
            places = np.flatnonzero(heard[:-1] & heard[1:])
            before, after = places[places > 0] - 1, places[places < len(phones)]
            left += [phones[before], np.repeat(self.silence[None], len(after), axis=0)]
            right += [np.repeat(self.silence[None], len(before), axis=0), phones[after]]
        around = np.flatnonzero(silent[1:-1]) + 1
        left.append(phones[around - 1])
        right.append(phones[around + 1])
        n = len(phones) - 1
        others, on_left = self.pool[rng.integers(len(self.pool), size=n)], rng.random(n) < 0.5
        left.append(np.where(on_left[:, None], others, phones[:-1]))
        right.append(np.where(on_left[:, None], phones[1:], others))
        return np.concatenate(left), np.concatenate(right)


def targets_of(
    examples: Sequence[NetworkExample],
    batch: PackedBatch,
    absent: AbsentPairs | None,
    omega: float,
    sigma: float,
    rng: np.random.Generator,
) -> tuple[PhonePairs, Targets]:
    """The pairs of a batch, those that occur and those that do not, and the targets; ``sigma`` in frames."""
    left, right, first, sizes, weight, answers = [], [], [], [], [], []
    n_boundaries = 0
    n_classes = examples[0].descriptors.shape[1]
    for example, begin in zip(examples, batch.first.tolist(), strict=True):
        phones, n_frames, n = example.descriptors, len(example.frames), len(example.starts) - 1
        if n < 1:
            continue
        n_boundaries += n
        left.append(phones[:-1])
        right.append(phones[1:])
        distance = np.arange(1, n_frames) - example.starts[1:, None]
        q = np.exp(-0.5 * (distance / sigma) ** 2) + 1e-12
        answers.append((q / q.sum(axis=1, keepdims=True)).ravel())
        weight.append(np.ones(n))
        if absent is not None and omega > 0.0:
            a, b = absent.of_example(example, rng)
            left.append(a)
            right.append(b)
            answers.append(np.zeros(len(a) * (n_frames - 1)))
            weight.append(np.full(len(a), omega))
            n += len(a)
        first.append(np.full(n, begin + 1))
        sizes.append(np.full(n, n_frames - 1))
    dtype = batch.frames.dtype
    none = np.zeros((0, n_classes), dtype)
    pairs = PhonePairs(
        np.concatenate([none, *left]).astype(dtype, copy=False),
        np.concatenate([none, *right]).astype(dtype, copy=False),
        np.concatenate([np.zeros(0, np.int64), *first]),
        np.concatenate([np.zeros(0, np.int64), *sizes]),
    )
    codes = np.concatenate([e.codes[e.phone_of_frame] for e in examples])
    articulation = np.concatenate([e.descriptors[e.phone_of_frame] for e in examples])
    return pairs, Targets(
        codes,
        articulation.astype(dtype, copy=False),
        np.concatenate([np.zeros(0), *answers]).astype(dtype),
        np.concatenate([np.zeros(0), *weight]).astype(dtype),
        n_boundaries,
    )


def losses(trace: Trace, targets: Targets, articulation_weight: float) -> tuple[float, Derivatives]:
    """The loss, and its derivatives."""
    dtype = trace.logits.dtype.type
    n = len(trace.logits)
    d_logits, log_sum = softmax_and_log_sum(trace.logits)
    at = np.arange(n), targets.codes
    total = float(np.sum(log_sum[:, 0] - trace.logits[at])) / n
    d_logits[at] -= 1.0
    d_logits *= dtype(1.0 / n)

    z = trace.articulation
    d_articulation = np.zeros_like(z)
    if z.shape[1]:
        phi = targets.articulation[:, -z.shape[1] :]
        share = articulation_weight / z.size
        total += share * float(np.sum(np.logaddexp(0.0, z) - phi * z))
        d_articulation[...] = (1.0 / (1.0 + np.exp(-z)) - phi) * dtype(share)

    d_scores = np.zeros_like(trace.scores)
    if len(targets.omega):
        sizes = trace.pairs.sizes
        begins = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        top = np.maximum(np.maximum.reduceat(trace.scores, begins), 0.0)  # "nowhere" has the score 0
        weights = np.exp(trace.scores - np.repeat(top, sizes))
        sums = np.add.reduceat(weights, begins) + np.exp(-top)
        omega = targets.omega / dtype(targets.n_boundaries)
        match = np.add.reduceat(targets.boundary * trace.scores, begins)
        total += float(np.sum(omega * (np.log(sums) + top - match)))
        d_scores[...] = weights * np.repeat(omega / sums, sizes) - targets.boundary * np.repeat(omega, sizes)
    return total, Derivatives(d_logits, d_articulation, d_scores)
