"""A linear-Gaussian model: its ten parameters by name, checked, and in the form of the kernels.

    z_1 ~ N(m0, P0)      z_{t+1} = A z_t + B u_t + b + N(0, Q)      x_t = C z_t + D u_t + d + N(0, R)

with n states z, m observations x and p controls u. All but the first two may vary with time: an array with
one more axis in front, whose entry t belongs to step t of every sequence (to the move from step t to t + 1,
for the parameters of the transition).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from trellis.core.arguments import to_floats
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.statespace.kalman_kernels import System
from trellis.statespace.square_root_kernels import covariance_roots

# name -> (letter, shape in the letters n, m, p)
SHAPES: dict[str, tuple[str, str]] = {
    "transition": ("A", "nn"),
    "observation": ("C", "mn"),
    "transition_noise": ("Q", "nn"),
    "observation_noise": ("R", "mm"),
    "initial_mean": ("m0", "n"),
    "initial_covariance": ("P0", "nn"),
    "transition_control": ("B", "np"),
    "observation_control": ("D", "mp"),
    "transition_offset": ("b", "n"),
    "observation_offset": ("d", "m"),
}
COVARIANCES = ("transition_noise", "observation_noise", "initial_covariance")
_CONSTANT = ("initial_mean", "initial_covariance")


@register
@dataclass(frozen=True, eq=False)
class StateSpace:
    """The parameters, each float64 and constant or with a leading axis of time; see :meth:`build`."""

    transition: FloatArray
    observation: FloatArray
    transition_noise: FloatArray
    observation_noise: FloatArray
    initial_mean: FloatArray
    initial_covariance: FloatArray
    transition_control: FloatArray
    observation_control: FloatArray
    transition_offset: FloatArray
    observation_offset: FloatArray

    @classmethod
    def build(
        cls, parameters: Mapping[str, Any], n_states: int, n_observations: int, n_controls: int
    ) -> StateSpace:
        """Check shapes, values and covariances. Controls and offsets that are ``None`` are zero."""
        sizes = {"n": n_states, "m": n_observations, "p": n_controls}
        arrays = {}
        for name, (_, letters) in SHAPES.items():
            shape = tuple(sizes[letter] for letter in letters)
            value = parameters[name]
            if value is None and ("control" in name or "offset" in name):
                value = np.zeros(shape)
            arrays[name] = check_parameter(name, value, shape)
        return cls(**arrays)

    @property
    def n_states(self) -> int:
        return int(self.transition.shape[-1])

    @property
    def n_observations(self) -> int:
        return int(self.observation.shape[-2])

    @property
    def n_controls(self) -> int:
        return int(self.transition_control.shape[-1])

    def arrays(self) -> dict[str, FloatArray]:
        """The parameters by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def time_varying(self) -> list[str]:
        """The names of the parameters that vary with time."""
        return [name for name, (_, letters) in SHAPES.items() if getattr(self, name).ndim > len(letters)]

    def check_lengths(self, lengths: IntArray) -> None:
        """Every step of every sequence has its parameters."""
        if not len(lengths):
            return
        longest = int(np.argmax(lengths))
        for name in self.time_varying():
            steps = len(getattr(self, name))
            needed = int(lengths[longest]) - name.startswith("transition")
            if steps < needed:
                raise DataError(
                    f"{name} is given for {steps} steps, but sequence {longest} has {lengths[longest]}; "
                    f"give at least {needed}, or one constant value"
                )

    def system(self) -> System:
        """Matrices with a leading axis and roots of the covariances, for the kernels."""
        return System(
            _leading(self.transition, 3),
            _root("transition_noise", self.transition_noise),
            _leading(self.observation, 3),
            _root("observation_noise", self.observation_noise),
            self.initial_mean,
            _root("initial_covariance", self.initial_covariance)[0],
        )

    def drift(self, controls: FloatArray, steps: IntArray) -> FloatArray:
        """B u_t + b at each row, whose step within its sequence is ``steps``; one row where constant."""
        return _affine(self.transition_control, self.transition_offset, controls, steps)

    def shift(self, controls: FloatArray, steps: IntArray) -> FloatArray:
        """D u_t + d at each row; one row where constant."""
        return _affine(self.observation_control, self.observation_offset, controls, steps)


def check_parameter(name: str, value: Any, shape: tuple[int, ...]) -> FloatArray:
    """A parameter as a finite float64 array of the given shape, or with an axis of time in front."""
    letter, letters = SHAPES[name]
    wanted = f"({', '.join(letters)}{',' * (len(letters) == 1)}) = {shape}"
    if name not in _CONSTANT:
        wanted += f", or with one entry a step in front, {('T', *shape)}".replace("'", "")
    try:
        array = np.array(to_floats(value), order="C")
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{name} ({letter}) must be an array of numbers of shape {wanted}") from error
    varies = array.ndim == len(shape) + 1 and name not in _CONSTANT and len(array) > 0
    if array.shape[int(varies) :] != shape:
        raise DataError(f"{name} ({letter}) has shape {array.shape}; it must be {wanted}")
    if not np.isfinite(array).all():
        raise DataError(f"{name} ({letter}) has values that are not finite; give finite numbers")
    if name in COVARIANCES:
        array = _symmetric(name, array)
        _root(name, array)
    return array


def _symmetric(name: str, array: FloatArray) -> FloatArray:
    turned = np.swapaxes(array, -1, -2)
    if (np.abs(array - turned) > 1e-8 * (np.abs(array).max() + np.finfo(float).tiny)).any():
        raise DataError(f"{name} is not symmetric; a covariance must be")
    return 0.5 * (array + turned)


def _leading(array: FloatArray, ndim: int) -> FloatArray:
    return array if array.ndim == ndim else array[None]


def _root(name: str, covariance: FloatArray) -> FloatArray:
    root: FloatArray
    root, bad = covariance_roots(_leading(covariance, 3))
    if bad >= 0:
        where = f" at step {bad}" if covariance.ndim == 3 else ""
        least = np.linalg.eigvalsh(_leading(covariance, 3)[bad])[0]
        raise DataError(
            f"{name}{where} is not a covariance: its smallest eigenvalue is {least:.3g}; "
            "it must be positive semidefinite"
        )
    return root


def _affine(matrix: FloatArray, offset: FloatArray, controls: FloatArray, steps: IntArray) -> FloatArray:
    """matrix u_t + offset, (N, k) or (1, k); steps beyond the last entry of an array use that one."""
    if matrix.shape[-1] == 0:
        moved = np.zeros((1, matrix.shape[-2]))
    elif matrix.ndim == 2:
        moved = controls @ matrix.T
    else:
        moved = np.einsum("tij,tj->ti", matrix[np.minimum(steps, len(matrix) - 1)], controls)
    return np.ascontiguousarray(
        moved + (offset if offset.ndim == 1 else offset[np.minimum(steps, len(offset) - 1)])
    )
