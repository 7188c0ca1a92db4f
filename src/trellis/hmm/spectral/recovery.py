"""The hidden Markov model behind observable operators, where it can be identified.

From B_x = Q T diag(O[x, :]) Q^-1 and B = sum_x B_x = Q T Q^-1, the matrices

    B_x B^-1 = (Q T) diag(O[x, :]) (Q T)^-1

share their eigenvectors, and their eigenvalues are the emission probabilities. So the eigenvectors R of one
random combination sum_x eta_x B_x B^-1 give O[x, k] = (R^-1 B_x B^-1 R)[k, k], then Q = U^T O, T = Q^-1 B Q
and initial = Q^-1 b_1. The rank condition must hold: P_21 of rank K for Q, T invertible for B^-1. Several
combinations are drawn and the one whose eigenvalues are furthest apart is kept: noise moves it least.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import NumericalError
from trellis.hmm.spectral.moments import Operators

SINGULAR = 1e-10  # of B, relative: below, T has no usable inverse


@dataclass(frozen=True)
class RecoveredHMM:
    """``initial`` (K,), ``transitions`` (K, K) from row to column, ``emissions`` (K, M): all proper
    distributions, the states in order of decreasing weight.

    ``separation`` is the least distance between two eigenvalues, relative to the largest; ``correction`` the
    largest change that made the estimates proper (negative entries set to 0, rows scaled to 1).

    Examples
    --------
    >>> from trellis import HMM, SpectralHMM, emissions
    >>> coins = emissions.Categorical(2, probabilities=[[0.9, 0.1], [0.2, 0.8]])
    >>> truth = HMM(2, coins, initial=[0.5, 0.5], transitions=[[0.9, 0.1], [0.1, 0.9]])
    >>> symbols, _ = truth.sample(20_000, random_state=0)
    >>> SpectralHMM(2, n_symbols=2, initial="average").fit([symbols]).recover().emissions.shape
    (2, 2)
    """

    initial: FloatArray
    transitions: FloatArray
    emissions: FloatArray
    separation: float
    correction: float


def recover(operators: Operators, n_projections: int, rng: np.random.Generator) -> RecoveredHMM:
    """The model of these operators; the caller has checked the rank of P_21."""
    steps, total = operators.steps[:-1], operators.steps[-1]
    singular = np.linalg.svd(total, compute_uv=False)
    if singular[-1] <= SINGULAR * singular[0]:
        raise NumericalError(
            f"the states cannot be recovered: the transition matrix is singular (singular values of its "
            f"operator {', '.join(f'{v:.2g}' for v in singular)}); use more data or fewer states"
        )
    diagonalisable = steps @ np.linalg.inv(total)
    R, separation = _eigenvectors(diagonalisable, n_projections, rng)
    emissions = np.einsum("ka,xab,bk->xk", np.linalg.inv(R), diagonalisable, R, optimize=True)
    emissions /= emissions.sum(axis=0)
    Q = operators.basis.T @ emissions
    T = np.linalg.solve(Q, total @ Q)
    initial, average = np.linalg.solve(Q, operators.start), np.linalg.solve(Q, operators.average)
    order = np.argsort(-average, kind="stable")
    raw = initial[order], T[np.ix_(order, order)].T, emissions[:, order].T
    proper = tuple(_proper(part) for part in raw)
    correction = max(float(np.abs(a - b).max()) for a, b in zip(raw, proper, strict=True))
    return RecoveredHMM(proper[0], proper[1], proper[2], separation, correction)


def _eigenvectors(
    matrices: FloatArray, n_projections: int, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """The eigenvectors of that combination of ``matrices`` with the best separated (and real) eigenvalues."""
    best, widest = None, 0.0
    for _ in range(n_projections):
        eta = rng.normal(size=len(matrices))
        values, vectors = np.linalg.eig(np.tensordot(eta, matrices, axes=1))
        if values.imag.any():
            continue  # two eigenvalues that noise has made one pair
        values, vectors = values.real, vectors.real  # since NumPy 2.5 these are complex in any case
        ordered = np.sort(values)
        gap = float(np.diff(ordered).min(initial=np.inf)) / max(float(np.abs(values).max()), 1e-300)
        if best is None or gap > widest:
            best, widest = vectors, gap
    if best is None:
        raise NumericalError(
            f"no states could be told apart: none of {n_projections} random projections has real "
            f"eigenvalues; use more data or fewer states (probabilities and predictions do not need this)"
        )
    return best, min(widest, 1.0)


def _proper(rows: FloatArray) -> FloatArray:
    """Distributions along the last axis: negative entries set to 0, the rest scaled."""
    positive = np.maximum(rows, 0.0)
    scaled: FloatArray = positive / positive.sum(axis=-1, keepdims=True)
    return scaled
