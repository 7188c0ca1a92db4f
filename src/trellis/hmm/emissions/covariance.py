"""Covariances in four shapes, and their M-step from second moments.

    "diag"       (K, D)       one variance per state and column
    "spherical"  (K,)         one variance per state
    "full"       (K, D, D)    one matrix per state
    "tied"       (D, D)       one matrix for all states

Let S be the scatter about the new mean and w the weight. The prior is equivalent to a pseudo-observations
with variance v in every direction: its log density is  - a / 2 (log det C + v trace C^-1)  for each C.
The M-step is its mode, C = (S + a v I) / (w + a), under the constraint that no variance in any direction is
below the floor f: a variance becomes max(., f), and so do the eigenvalues of a matrix. That is the exact
maximum over all C >= f I, so EM with a floor still never lowers the likelihood.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, NumericalError
from trellis.core.weighted_counts import NO_WEIGHT

KINDS = ("diag", "spherical", "full", "tied")
UNRESOLVED = 4.0 * float(np.finfo(float).eps)  # per column: smaller eigenvalues of correlations are rounding
LOG_2PI = math.log(2.0 * math.pi)


@dataclass(frozen=True)
class CovariancePrior:
    """The pseudo-observations and the floor of the M-step."""

    weight: float
    variance: float
    floor: float


def covariance_shape(kind: str, n_states: int, n_columns: int) -> tuple[int, ...]:
    return {
        "diag": (n_states, n_columns),
        "spherical": (n_states,),
        "full": (n_states, n_columns, n_columns),
        "tied": (n_columns, n_columns),
    }[kind]


def from_variances(kind: str, variances: FloatArray) -> FloatArray:
    """Covariances of the given shape nearest to the variances (K, D)."""
    if kind == "diag":
        return variances
    if kind == "spherical":
        averages: FloatArray = variances.mean(axis=1)
        return averages
    return _diagonal(variances) if kind == "full" else _diagonal(variances.mean(axis=0))


def as_matrices(kind: str, covariances: FloatArray, n_states: int, n_columns: int) -> FloatArray:
    """(n_states, n_columns, n_columns), writeable."""
    if kind == "full":
        return covariances.copy()
    if kind == "tied":
        return np.tile(covariances, (n_states, 1, 1))
    return _diagonal(covariances if kind == "diag" else np.repeat(covariances[:, None], n_columns, axis=1))


def _diagonal(variances: FloatArray) -> FloatArray:
    result: FloatArray = variances[..., None] * np.eye(variances.shape[-1])
    return result


def variances_from_scatter(
    kind: str, scatter: FloatArray, weight: FloatArray, prior: CovariancePrior, old: FloatArray
) -> FloatArray:
    """M-step of "diag" and "spherical" from (K, D) arrays. Without weight or prior, ``old`` stays."""
    if kind == "spherical":
        n_columns = scatter.shape[1]
        scatter, weight = scatter.sum(axis=1), weight.sum(axis=1)
        prior = CovariancePrior(prior.weight * n_columns, prior.variance, prior.floor)
    total = weight + prior.weight
    empty = total <= NO_WEIGHT
    variances = (scatter + prior.weight * prior.variance) / np.where(empty, 1.0, total)
    variances = np.where(empty, old, np.maximum(variances, prior.floor))
    if variances.min() <= 0.0:
        raise _singular_error(int(np.argwhere(variances <= 0)[0][0]))
    return variances


def matrices_from_scatter(
    kind: str, scatter: FloatArray, weight: FloatArray, prior: CovariancePrior, old: FloatArray
) -> FloatArray:
    """M-step of "full" and "tied" from (K, D, D) and (K,). Without weight or prior, ``old`` stays."""
    if kind == "tied":
        scatter, weight, old = scatter.sum(axis=0)[None], weight.sum()[None], old[None]
    total = weight + prior.weight
    empty = total <= NO_WEIGHT
    target = prior.weight * prior.variance * np.eye(scatter.shape[1])
    matrices = (scatter + target) / np.where(empty, 1.0, total)[:, None, None]
    matrices = np.where(empty[:, None, None], old, matrices)
    for k in np.flatnonzero(~empty & (np.linalg.eigvalsh(matrices)[:, 0] < prior.floor)):
        eigenvalues, vectors = np.linalg.eigh(matrices[k])
        raised = (vectors * np.maximum(eigenvalues, prior.floor)) @ vectors.T
        matrices[k] = 0.5 * (raised + raised.T)
    for state, matrix in enumerate(matrices):
        if not _is_resolved(matrix):
            raise _singular_error(state)
    return matrices[0] if kind == "tied" else matrices


def log_determinants(kind: str, covariances: FloatArray, n_columns: int) -> FloatArray:
    """log det of each covariance matrix: (K,), for "tied" (1,)."""
    if kind == "spherical":
        return n_columns * np.log(covariances)
    logs: FloatArray
    if kind == "diag":
        logs = np.log(covariances)
    else:
        factors = np.linalg.cholesky(covariances.reshape(-1, n_columns, n_columns))
        logs = 2.0 * np.log(np.diagonal(factors, axis1=1, axis2=2))
    return np.asarray(logs.sum(axis=1))


def log_prior(kind: str, covariances: FloatArray, n_columns: int, prior: CovariancePrior) -> float:
    """- a / 2 sum over the matrices of log det C + v trace C^-1."""
    if prior.weight == 0.0:
        return 0.0
    if kind == "diag":
        traces = (1.0 / covariances).sum()
    elif kind == "spherical":
        traces = n_columns * (1.0 / covariances).sum()
    else:
        inverses = np.linalg.inv(covariances.reshape(-1, n_columns, n_columns))
        traces = np.trace(inverses, axis1=1, axis2=2).sum()
    log_det = log_determinants(kind, covariances, n_columns).sum()
    return float(-0.5 * prior.weight * (log_det + prior.variance * traces))


def check_covariances(kind: str, covariances: FloatArray, shape: tuple[int, ...]) -> None:
    if covariances.shape != shape:
        raise DataError(f"covariances have shape {covariances.shape}; {kind!r} ones need shape {shape}")
    if kind in ("diag", "spherical"):
        if covariances.min() <= 0.0:
            state = int(np.argwhere(covariances <= 0)[0][0])
            raise DataError(f"variances must be positive; one of state {state} is {covariances.min():g}")
        return
    for k, matrix in enumerate(covariances.reshape(-1, *shape[-2:])):
        if not np.allclose(matrix, matrix.T, rtol=1e-8, atol=0.0) or not _is_definite(matrix):
            raise DataError(f"covariance {k} is not symmetric and positive definite")


def _is_definite(matrix: FloatArray) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def _is_resolved(matrix: FloatArray) -> bool:
    """Whether the matrix is positive definite by more than rounding, whatever the units of its columns."""
    deviations = np.sqrt(np.maximum(np.diagonal(matrix), np.finfo(float).tiny))
    correlations = matrix / np.outer(deviations, deviations)
    return bool(np.linalg.eigvalsh(correlations)[0] > len(matrix) * UNRESOLVED)


def _singular_error(state: int) -> NumericalError:
    return NumericalError(
        f"the covariance of state {state} has become singular; raise min_variance, give it a prior "
        f"(prior_weight), use fewer states, or scale the columns alike"
    )
