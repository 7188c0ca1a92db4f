"""A small convolutional network over frames, as arrays: what it computes, by matrix products in NumPy.

Frames x_t (standardised, zeros beyond both ends) pass through a *trunk*; H units everywhere:

    h^0_t = max(sum_{|j| <= 2} W_j' x_{t+j} + b, 0)
    h^m_t = h^{m-1}_t + max(sum_{|j| <= 1} U_{mj}' h^{m-1}_{t + j d_m} + c_m, 0),    m = 1..M, dilations d_m

Beyond the ends every layer is 0. Three heads read the trunk, h = h^M:

    class scores     log p(c | x, t) - prior_c = log softmax_c(V_c . h_t + a_c) - prior_c
    articulation     z_f(t) = A_f . h_t + e_f, log-odds that the phone at t has articulatory feature f; a
    phone with
                     features phi scores sum_f log p(phi_f | x, t) = sum_f phi_f z_f(t) - log(1 + exp z_f(t))
    boundary         s(t; a, b) = v . max(B_1' h_{t-1} + B_2' h_t + P_1' a + P_2' b + g, 0) + o

for the start at frame t of a phone with descriptor b after one with descriptor a. Training
(``network_losses``) makes s the log-odds of "the boundary of a and b lies at t" against "a and b do not meet
in this recording":

    p(t | a, b) = exp s(t; a, b) / (1 + sum_u exp s(u; a, b))

In alignment s is used as it is. The sum over u is left out on purpose: it would make the score of a phone
depend on how much else was recorded, and without it the scores of different pairs compare, so that a lattice
can choose between them (with silence between two phones, or without).

An output depends on ``reach`` frames to either side. Computed in pieces that overlap by as many, outputs are
those of the whole recording.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import Float32Array
from trellis.core.errors import DataError
from trellis.core.logspace import log_softmax
from trellis.core.registration import register
from trellis.speech.acoustics.convolutional.pair_score_kernels import pair_scores

TAPS, INNER_TAPS = 5, 3  # frames that the first layer sees, and the others
_TRAINED = (
    "input_weight", "input_bias", "block_weights", "block_biases", "class_weight", "class_bias",
    "articulation_weight", "articulation_bias", "boundary_weight", "boundary_bias", "pair_weight",
    "boundary_output", "boundary_offset",
)  # fmt: skip


@register
@dataclass(frozen=True, eq=False)
class ConvolutionalNetwork:
    """D columns, H units, C classes, F articulatory features, V numbers in a descriptor.

    ``input_weight``: (5 D, H). ``block_weights``: M of (3 H, H), with ``dilations``. ``class_weight``: (H,
    C). ``articulation_weight``: (H, F). ``boundary_weight``: (2 H, H), ``pair_weight``: (2 V, H),
    ``boundary_output``: (H,), ``boundary_offset``: (1,). ``prior``: (C,). Biases have the width of their
    weights.
    """

    dilations: tuple[int, ...]
    input_weight: Float32Array
    input_bias: Float32Array
    block_weights: tuple[Float32Array, ...]
    block_biases: tuple[Float32Array, ...]
    class_weight: Float32Array
    class_bias: Float32Array
    articulation_weight: Float32Array
    articulation_bias: Float32Array
    boundary_weight: Float32Array
    boundary_bias: Float32Array
    pair_weight: Float32Array
    boundary_output: Float32Array
    boundary_offset: Float32Array
    prior: Float32Array

    def __post_init__(self) -> None:
        units, shapes = len(self.input_bias), [a.shape for a in self.arrays()]
        sizes = (self.n_columns, self.n_classes, self.n_articulations, self.n_descriptors)
        fit = len(self.dilations) == len(self.block_weights) == len(self.block_biases)
        if (
            not fit
            or shapes != _shapes(units, len(self.dilations), *sizes)
            or min(self.dilations, default=1) < 1
        ):
            raise DataError("the layers of the convolutional network do not fit each other")
        if self.prior.shape != (self.n_classes,):
            raise DataError("the prior of the convolutional network does not fit its classes")
        if not all(np.isfinite(a).all() for a in (*self.arrays(), self.prior)):
            raise DataError("the weights of the convolutional network are not finite numbers")

    @classmethod
    def random(
        cls,
        n_columns: int,
        units: int,
        dilations: tuple[int, ...],
        n_classes: int,
        n_articulations: int,
        n_descriptors: int,
        rng: np.random.Generator,
    ) -> ConvolutionalNetwork:
        """Weights and biases uniform within 1 / sqrt(inputs) of 0; the prior is 0."""
        shapes = _shapes(units, len(dilations), n_columns, n_classes, n_articulations, n_descriptors)
        inputs = _inputs(shapes, len(dilations))
        arrays = [
            rng.uniform(-(n**-0.5), n**-0.5, shape).astype(np.float32)
            for shape, n in zip(shapes, inputs, strict=True)
        ]
        return cls(
            dilations=dilations, **_named(arrays, len(dilations)), prior=np.zeros(n_classes, np.float32)
        )

    @property
    def n_columns(self) -> int:
        return len(self.input_weight) // TAPS

    @property
    def n_classes(self) -> int:
        return len(self.class_bias)

    @property
    def n_articulations(self) -> int:
        return len(self.articulation_bias)

    @property
    def n_descriptors(self) -> int:
        return len(self.pair_weight) // 2

    @property
    def units(self) -> int:
        return len(self.input_bias)

    @property
    def gap(self) -> int:
        """Frames to either side that a single layer sees."""
        return max(TAPS // 2, *self.dilations, 1)

    @property
    def reach(self) -> int:
        """Frames to either side that an output depends on."""
        return TAPS // 2 + sum(self.dilations) + 1

    def check(self, n_columns: int, n_classes: int, n_articulations: int, n_descriptors: int) -> None:
        """Raise an error unless it is made for such frames and phones."""
        sizes = (self.n_columns, self.n_classes, self.n_articulations, self.n_descriptors)
        single = all(a.dtype == np.float32 for a in (*self.arrays(), self.prior))
        if sizes != (n_columns, n_classes, n_articulations, n_descriptors) or not single:
            raise DataError("the convolutional network does not fit the frames and the phones of the model")

    def arrays(self) -> list[Float32Array]:
        """All that is trained, in a fixed order."""
        found: list[Float32Array] = []
        for name in _TRAINED:
            value = getattr(self, name)
            found += value if isinstance(value, tuple) else [value]
        return found

    def flat(self) -> Float32Array:
        """All that is trained as one vector (a copy)."""
        return np.concatenate([a.ravel() for a in self.arrays()])

    def on(self, flat: Float32Array) -> ConvolutionalNetwork:
        """A network whose arrays are views of ``flat``: it changes as the vector does."""
        views, at = [], 0
        for array in self.arrays():
            views.append(flat[at : at + array.size].reshape(array.shape))
            at += array.size
        return replace(self, **_named(views, len(self.dilations)))

    def with_prior(self, prior: Float32Array) -> ConvolutionalNetwork:
        return replace(self, prior=prior)

    def hidden(self, frames: Float32Array) -> Float32Array:
        """The trunk, (T, H)."""
        gap = self.gap
        inner = slice(gap, gap + len(frames))
        values = np.zeros((len(frames) + 2 * gap, self.n_columns), dtype=np.float32)
        values[inner] = frames
        units = np.zeros((len(values), len(self.input_bias)), dtype=np.float32)
        layer = neighbours(values, gap, 1, TAPS) @ self.input_weight
        layer += self.input_bias
        np.maximum(layer, 0.0, out=units[inner])
        for weight, bias, dilation in zip(self.block_weights, self.block_biases, self.dilations, strict=True):
            layer = neighbours(units, gap, dilation, INNER_TAPS) @ weight
            layer += bias
            units[inner] += np.maximum(layer, 0.0, out=layer)
        return units[inner]

    def class_scores(self, hidden: Float32Array) -> Float32Array:
        """(T, C)."""
        return log_softmax(hidden @ self.class_weight + self.class_bias) - self.prior

    def articulation(self, hidden: Float32Array) -> Float32Array:
        """The log-odds z, (T, F)."""
        return np.asarray(hidden @ self.articulation_weight + self.articulation_bias)

    def boundary_scores(self, hidden: Float32Array, left: Float32Array, right: Float32Array) -> Float32Array:
        """s(t; a, b), (R, T + 1), for R pairs of descriptors; 0 at the ends of the recording."""
        return self.boundary_units(hidden).scores(left, right)

    def boundary_units(self, hidden: Float32Array) -> BoundaryUnits:
        """The boundary head, with what it has of the frames."""
        units, half = len(self.boundary_bias), self.n_descriptors
        around = hidden[:-1] @ self.boundary_weight[:units] + hidden[1:] @ self.boundary_weight[units:]
        around += self.boundary_bias
        left, right = self.pair_weight[:half], self.pair_weight[half:]
        return BoundaryUnits(around, left, right, self.boundary_output, self.boundary_offset)


@dataclass(frozen=True, eq=False)
class BoundaryUnits:
    """s(t; a, b) = ``output`` . max(``around``_t + ``left``' a + ``right``' b, 0) + ``offset``; row t - 1 of
    ``around`` (T - 1, H) is for a boundary at frame t."""

    around: Float32Array
    left: Float32Array
    right: Float32Array
    output: Float32Array
    offset: Float32Array

    def scores(self, left: Float32Array, right: Float32Array) -> Float32Array:
        """s(t; a, b), (R, T + 1), for R pairs of descriptors; 0 at the ends of the recording."""
        n_inner, n_pairs = len(self.around), len(left)
        out = np.zeros((n_pairs, n_inner + 2), dtype=np.float32)
        if not n_inner or not n_pairs:
            return out
        pairs = left.astype(np.float32, copy=False) @ self.left
        pairs += right.astype(np.float32, copy=False) @ self.right
        first, sizes = np.zeros(n_pairs, np.int64), np.full(n_pairs, n_inner)
        inner = np.empty(n_pairs * n_inner, dtype=np.float32)
        pair_scores(self.around, pairs, first, sizes, self.output, self.offset, inner)
        out[:, 1:-1] = inner.reshape(n_pairs, -1)
        return out


def neighbours(values: Float32Array, gap: int, dilation: int, taps: int) -> Float32Array:
    """Rows t - (taps // 2) dilation .. t + (taps // 2) dilation side by side, for all rows but ``gap`` at
    each end."""
    n, half = len(values) - 2 * gap, taps // 2
    shifts = (gap + j * dilation for j in range(-half, half + 1))
    return np.concatenate([values[first : first + n] for first in shifts], axis=1)


def _shapes(
    units: int, n_blocks: int, n_columns: int, n_classes: int, n_articulations: int, n_descriptors: int
) -> list[tuple[int, ...]]:
    return [
        (TAPS * n_columns, units), (units,),
        *([(INNER_TAPS * units, units)] * n_blocks), *([(units,)] * n_blocks),
        (units, n_classes), (n_classes,), (units, n_articulations), (n_articulations,),
        (2 * units, units), (units,), (2 * n_descriptors, units), (units,), (1,),
    ]  # fmt: skip


def _inputs(shapes: list[tuple[int, ...]], n_blocks: int) -> list[int]:
    """The inputs of the unit that each number belongs to."""
    heads = shapes[2 + 2 * n_blocks :]
    first, inner, units = shapes[0][0], INNER_TAPS * shapes[1][0], shapes[1][0]
    both = [heads[4][0], heads[4][0], heads[6][0]]
    return [first, first, *([inner] * 2 * n_blocks), *([units] * 4), *both, units, units]


def _named(arrays: list[Float32Array], n_blocks: int) -> dict[str, Any]:
    """The inverse of :meth:`ConvolutionalNetwork.arrays`, by name."""
    weights, biases = arrays[2 : 2 + n_blocks], arrays[2 + n_blocks : 2 + 2 * n_blocks]
    values = [*arrays[:2], tuple(weights), tuple(biases), *arrays[2 + 2 * n_blocks :]]
    return dict(zip(_TRAINED, values, strict=True))
