"""Several networks that listen together: every score is the mean of theirs.

Networks that started from other random numbers err in other places, so the mean of their scores errs less. It
takes as many times the work, in training and in alignment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.acoustics.convolutional.convolutional_network import BoundaryUnits, ConvolutionalNetwork


@register
@dataclass(frozen=True, eq=False)
class NetworkMixture:
    """``networks`` for the same frames and phones; what is hidden in them stands side by side."""

    networks: tuple[ConvolutionalNetwork, ...]

    def __post_init__(self) -> None:
        if not self.networks:
            raise DataError("a mixture of networks has none; give at least one")

    @property
    def prior(self) -> Float32Array:
        """What class scores have been divided by, in logarithms, (C,)."""
        return _mean([network.prior for network in self.networks])

    @property
    def units(self) -> int:
        return sum(network.units for network in self.networks)

    @property
    def reach(self) -> int:
        """Frames to either side that an output depends on."""
        return max(network.reach for network in self.networks)

    def check(self, n_columns: int, n_classes: int, n_articulations: int, n_descriptors: int) -> None:
        """Raise an error unless all are made for such frames and phones."""
        for network in self.networks:
            network.check(n_columns, n_classes, n_articulations, n_descriptors)

    def hidden(self, frames: Float32Array) -> Float32Array:
        """The trunks, (T, sum of H)."""
        return np.concatenate([network.hidden(frames) for network in self.networks], axis=1)

    def class_scores(self, hidden: Float32Array) -> Float32Array:
        """(T, C)."""
        return _mean([network.class_scores(own) for network, own in self._parts(hidden)])

    def articulation(self, hidden: Float32Array) -> Float32Array:
        """The log-odds z, (T, F)."""
        return _mean([network.articulation(own) for network, own in self._parts(hidden)])

    def boundary_scores(self, hidden: Float32Array, left: Float32Array, right: Float32Array) -> Float32Array:
        """s(t; a, b), (R, T + 1), for R pairs of descriptors; 0 at the ends of the recording."""
        return self.boundary_units(hidden).scores(left, right)

    def boundary_units(self, hidden: Float32Array) -> BoundaryUnits:
        """The boundary heads side by side: one head whose score is the mean of theirs."""
        each = [network.boundary_units(own) for network, own in self._parts(hidden)]
        return BoundaryUnits(
            np.concatenate([one.around for one in each], axis=1),
            np.concatenate([one.left for one in each], axis=1),
            np.concatenate([one.right for one in each], axis=1),
            np.concatenate([one.output for one in each]) * np.float32(1.0 / len(each)),
            _mean([one.offset for one in each]),
        )

    def _parts(self, hidden: Float32Array) -> Iterator[tuple[ConvolutionalNetwork, Float32Array]]:
        ends = np.cumsum([len(network.input_bias) for network in self.networks])
        parts = np.split(hidden, ends[:-1], axis=1)
        return zip(self.networks, map(np.ascontiguousarray, parts), strict=True)


def _mean(scores: list[Float32Array]) -> Float32Array:
    return np.asarray(np.mean(scores, axis=0, dtype=np.float32))


AnyNetwork = ConvolutionalNetwork | NetworkMixture


def members(network: AnyNetwork) -> tuple[ConvolutionalNetwork, ...]:
    """The networks that listen."""
    return network.networks if isinstance(network, NetworkMixture) else (network,)


def mixed(networks: list[ConvolutionalNetwork]) -> AnyNetwork:
    """One network, or a mixture of several."""
    return networks[0] if len(networks) == 1 else NetworkMixture(tuple(networks))
