"""The convolutional network on a packed batch, with what its gradient needs, and the gradient.

Dropout multiplies what a layer adds to the trunk, and the trunk as the heads see it, by 0 with probability p
and by 1 / (1 - p) otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array
from trellis.speech.acoustics.convolutional.convolutional_network import (
    INNER_TAPS,
    TAPS,
    ConvolutionalNetwork,
    neighbours,
)
from trellis.speech.acoustics.convolutional.packed_batch import PackedBatch, PhonePairs
from trellis.speech.acoustics.convolutional.pair_score_kernels import pair_gradient, pair_scores


@dataclass(eq=False)
class Trace:
    """The outputs for a batch: ``logits`` (n, C) and ``articulation`` (n, F) of its frames; ``scores``: of
    its pairs of phones, one pair after the other. The rest is what the gradient needs."""

    batch: PackedBatch
    pairs: PhonePairs
    hidden: Float32Array
    logits: Float32Array
    articulation: Float32Array
    scores: Float32Array
    around: Float32Array
    pair_units: Float32Array
    columns: list[Float32Array]
    layers: list[Float32Array]
    kept: list[Float32Array]


@dataclass(frozen=True, eq=False)
class Derivatives:
    """Of a loss, in the outputs of a trace."""

    logits: Float32Array
    articulation: Float32Array
    scores: Float32Array


def forward(
    network: ConvolutionalNetwork,
    batch: PackedBatch,
    pairs: PhonePairs,
    dropout: float = 0.0,
    rng: np.random.Generator | None = None,
) -> Trace:
    """The outputs; ``rng`` draws what is dropped."""
    gap, inside = batch.gap, batch.inside
    inner = slice(gap, len(inside) - gap)

    def keep(shape: tuple[int, ...]) -> Float32Array:
        if rng is None or dropout == 0.0:
            return np.ones((1, 1), dtype=inside.dtype)
        drawn = rng.random(shape, dtype=np.float32) >= dropout
        return drawn.astype(inside.dtype) * inside.dtype.type(1.0 / (1.0 - dropout))

    columns = [neighbours(batch.frames, gap, 1, TAPS)]
    layer = columns[0] @ network.input_weight
    layer += network.input_bias
    np.maximum(layer, 0.0, out=layer)
    layer *= inside[inner]
    layers, kept = [layer], [keep(layer.shape)]
    units = np.zeros((len(inside), layer.shape[1]), dtype=layer.dtype)
    units[inner] = layer
    for weight, bias, dilation in zip(
        network.block_weights, network.block_biases, network.dilations, strict=True
    ):
        columns.append(neighbours(units, gap, dilation, INNER_TAPS))
        layer = columns[-1] @ weight
        layer += bias
        np.maximum(layer, 0.0, out=layer)
        layer *= inside[inner]
        layers.append(layer)
        kept.append(keep(layer.shape))
        units[inner] += layer * kept[-1]
    units[inner] *= kept[0]
    hidden = units[batch.rows]
    half = len(network.boundary_bias)
    around = units @ network.boundary_weight[half:]
    around[1:] += units[:-1] @ network.boundary_weight[:half]
    around += network.boundary_bias
    pair_units = np.concatenate([pairs.left, pairs.right], axis=1) @ network.pair_weight
    scores = np.empty(pairs.n_rows, dtype=around.dtype)
    pair_scores(
        around, pair_units, pairs.first, pairs.sizes, network.boundary_output, network.boundary_offset, scores
    )
    return Trace(
        batch,
        pairs,
        units,
        hidden @ network.class_weight + network.class_bias,
        hidden @ network.articulation_weight + network.articulation_bias,
        scores,
        around,
        pair_units,
        columns,
        layers,
        kept,
    )


def backward(
    network: ConvolutionalNetwork,
    trace: Trace,
    derivatives: Derivatives,
    gradient: ConvolutionalNetwork,
) -> None:
    """Set ``gradient`` to that of a loss, given its derivatives in the outputs."""
    d_logits, d_articulation, d_scores = derivatives.logits, derivatives.articulation, derivatives.scores
    batch, pairs = trace.batch, trace.pairs
    units, rows, gap = trace.hidden, batch.rows, batch.gap
    inner = slice(gap, len(units) - gap)
    hidden = units[rows]
    np.matmul(hidden.T, d_logits, out=gradient.class_weight)
    np.sum(d_logits, axis=0, out=gradient.class_bias)
    np.matmul(hidden.T, d_articulation, out=gradient.articulation_weight)
    np.sum(d_articulation, axis=0, out=gradient.articulation_bias)
    d_around, d_pairs = np.zeros_like(trace.around), np.zeros_like(trace.pair_units)
    gradient.boundary_output[...] = 0.0
    pair_gradient(
        trace.around, trace.pair_units, pairs.first, pairs.sizes, network.boundary_output, d_scores,
        d_around, d_pairs, gradient.boundary_output,
    )  # fmt: skip
    gradient.boundary_offset[0] = d_scores.sum()
    np.matmul(np.concatenate([pairs.left, pairs.right], axis=1).T, d_pairs, out=gradient.pair_weight)
    half = len(network.boundary_bias)
    np.sum(d_around, axis=0, out=gradient.boundary_bias)
    np.matmul(units.T, d_around, out=gradient.boundary_weight[half:])
    np.matmul(units[:-1].T, d_around[1:], out=gradient.boundary_weight[:half])

    d_units = d_around @ network.boundary_weight[half:].T
    d_units[:-1] += d_around[1:] @ network.boundary_weight[:half].T
    d_units[rows] += d_logits @ network.class_weight.T + d_articulation @ network.articulation_weight.T
    d_units[:gap] = d_units[len(units) - gap :] = 0.0
    d_units[inner] *= trace.kept[0]
    d_units *= batch.inside
    for m in range(len(network.dilations), 0, -1):
        d_layer: Float32Array = d_units[inner] * trace.kept[m]
        d_layer *= trace.layers[m] > 0
        np.matmul(trace.columns[m].T, d_layer, out=gradient.block_weights[m - 1])
        np.sum(d_layer, axis=0, out=gradient.block_biases[m - 1])
        d_columns: Float32Array = d_layer @ network.block_weights[m - 1].T
        _add_to_neighbours(d_units, d_columns, gap, network.dilations[m - 1])
        d_units *= batch.inside
    d_layer = d_units[inner] * (trace.layers[0] > 0)
    np.matmul(trace.columns[0].T, d_layer, out=gradient.input_weight)
    np.sum(d_layer, axis=0, out=gradient.input_bias)


def _add_to_neighbours(d_units: Float32Array, d_columns: Float32Array, gap: int, dilation: int) -> None:
    """The transpose of :func:`neighbours`."""
    n, width, half = len(d_columns), d_units.shape[1], INNER_TAPS // 2
    for tap in range(INNER_TAPS):
        first = gap + (tap - half) * dilation
        d_units[first : first + n] += d_columns[:, tap * width : (tap + 1) * width]
