"""Which models have covariances so tame that the smoother needs no roots."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.statespace.covariance_smoother_kernels import TAME, TameSystem
from trellis.statespace.state_space import StateSpace

SINGULAR = 1e-6  # the smallest eigenvalue of a correlation matrix that still counts as positive


def tame_system(model: StateSpace) -> TameSystem | None:
    """The model for :func:`~trellis.statespace.covariance_smoother_kernels.smooth_tame`; None where a matrix
    varies with time, or where a covariance is (nearly) singular."""
    A, C, Q, R = model.transition, model.observation, model.transition_noise, model.observation_noise
    P0 = model.initial_covariance
    if any(matrix.ndim > 2 for matrix in (A, C, Q, R)):
        return None
    if min(_least_correlation(S) for S in (Q, R, P0)) < SINGULAR:
        return None
    q = np.linalg.inv(Q)
    floor = np.linalg.inv(np.linalg.inv(P0) + q + A.T @ q @ A + C.T @ np.linalg.solve(R, C))
    if not np.isfinite(floor).all() or _least_correlation(floor) < SINGULAR:
        return None
    n, m = whole_lanes(len(A)), whole_lanes(len(C))
    return TameSystem(
        _padded(A, n, n),
        _padded(A.T, n, n),
        _padded(Q, n, n),
        _padded(C, m, n),
        _padded(C.T, n, m),
        _padded(R, m, m),
        _padded(model.initial_mean[None], 1, n)[0],
        _padded(P0, n, n),
        TAME * _least_correlation(floor) * np.diag(floor),
        TAME * _least_correlation(R) * np.diag(R),
    )


def whole_lanes(k: int) -> int:
    """k rounded up to whole tiles."""
    return (k + 3) // 4 * 4


def _least_correlation(S: NDArray[np.floating[Any]]) -> float:
    """The smallest eigenvalue of the correlation matrix of a covariance; 0 where a variance is 0."""
    scale = np.sqrt(np.diag(S))
    if not (scale > 0.0).all():
        return 0.0
    return float(np.linalg.eigvalsh(S / scale / scale[:, None])[0])


def _padded(matrix: FloatArray, rows: int, columns: int) -> FloatArray:
    out = np.zeros((rows, columns))
    out[: matrix.shape[0], : matrix.shape[1]] = matrix
    return out
