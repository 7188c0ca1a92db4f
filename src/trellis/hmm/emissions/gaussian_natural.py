"""Gaussians as an exponential family about a reference normal distribution, see ``natural``.

The reference N(m, S) has the moments of all states together (S in the shape of the record's covariances). In
its coordinates z = R (x - m), R S R^T = I, a state is N(v, P^-1), and

    log p(x | k) - log N(x; m, S) = - z^T (P - I) z / 2 + z^T P v - v^T P v / 2 + log det P / 2.

The features are orthonormal under the reference: z_i, (z_i^2 - 1) / sqrt 2, z_i z_j (i < j; "full" only), and
1. For "spherical" the squares are one feature, their sum over sqrt D. For "tied" the squares are no features:
a quadratic form that all states share is a part of c(x) and cancels in p(states | x). So S is the tied
covariance, which stays as it is, and only means can be learned this way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import NumericalError
from trellis.hmm.emissions.natural import complete_rows, feature_rows

SINGULAR = 1e-10  # a precision below this part of the reference's is none
WIDEST = 0.5  # of the smallest precision of a record: what shifted weights keep at least


@dataclass(frozen=True, eq=False)
class NaturalGaussian:
    """The reference of a record: ``centre`` m (D,), ``whitener`` R (D, D), and the shape of covariances."""

    kind: str
    centre: FloatArray
    whitener: FloatArray

    @classmethod
    def from_states(cls, kind: str, means: FloatArray, matrices: FloatArray) -> NaturalGaussian:
        """The reference of states with these ``means`` (K, D) and covariance ``matrices`` (K, D, D)."""
        centre = means.mean(axis=0)
        pooled = matrices.mean(axis=0)
        if kind != "tied":
            pooled = pooled + (means - centre).T @ (means - centre) / len(means)
        if kind == "diag":
            pooled = np.diag(np.diag(pooled))
        elif kind == "spherical":
            pooled = np.eye(len(centre)) * np.diag(pooled).mean()
        return cls(kind, centre, np.linalg.inv(np.linalg.cholesky(pooled)))

    @property
    def _pairs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows i and columns j of the products z_i z_j."""
        d = len(self.centre)
        if self.kind == "full":
            return np.triu_indices(d)
        each = np.arange(0 if self.kind == "tied" else d)
        return each, each

    def features(self, rows: FloatArray) -> csr_array:
        """T(x) (N, F)."""
        there = complete_rows(rows)
        z = (rows[there] - self.centre) @ self.whitener.T
        i, j = self._pairs
        products = z[:, i] * z[:, j]
        square = i == j
        products[:, square] = (products[:, square] - 1.0) * np.sqrt(0.5)
        if self.kind == "spherical":
            products = products.sum(axis=1, keepdims=True) / np.sqrt(len(self.centre))
        return feature_rows(there, z, products)

    def weights(self, means: FloatArray, matrices: FloatArray) -> FloatArray:
        """w (F, K) of states with these moments."""
        precisions = self._whitened_precisions(matrices)
        centres = (means - self.centre) @ self.whitener.T
        linear = np.einsum("kde,ke->kd", precisions, centres)
        quadratic = self._quadratic(precisions - np.eye(len(self.centre)))
        return np.hstack([linear, quadratic, _constants(precisions, centres)[:, None]]).T

    def moments(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means (K, D), covariance matrices (K, D, D) and log normalisers (K,) of given weights (F, K)."""
        d = len(self.centre)
        linear, quadratic, constant = weights[:d].T, weights[d:-1].T, weights[-1]
        precisions = self._precisions(quadratic)
        _check_definite(precisions)
        variances = np.linalg.inv(precisions)
        centres = np.einsum("kde,ke->kd", variances, linear)
        root = np.linalg.inv(self.whitener)
        matrices = root @ variances @ root.T
        matrices = 0.5 * (matrices + matrices.transpose(0, 2, 1))
        return self.centre + centres @ root.T, matrices, constant - _constants(precisions, centres)

    def _precisions(self, quadratic: FloatArray) -> FloatArray:
        d = len(self.centre)
        precisions: FloatArray = np.tile(np.eye(d), (len(quadratic), 1, 1))
        if self.kind == "spherical":
            quadratic = np.repeat(quadratic, d, axis=1) / np.sqrt(d)
        i, j = self._pairs
        entries = np.where(i == j, 1.0 - np.sqrt(2.0) * quadratic, -quadratic)
        precisions[:, i, j] = entries
        precisions[:, j, i] = entries
        return precisions

    def _whitened_precisions(self, matrices: FloatArray) -> FloatArray:
        """Precisions in the coordinates of the reference, of covariances (K, D, D) of the data."""
        return np.asarray(np.linalg.inv(self.whitener @ matrices @ self.whitener.T), np.float64)

    def _quadratic(self, forms: FloatArray) -> FloatArray:
        """The weights (K, Q) that give - z^T F z / 2, up to a constant, for symmetric forms F (K, D, D)."""
        i, j = self._pairs
        weights = np.where(i == j, -np.sqrt(0.5), -1.0) * forms[:, i, j]
        if self.kind == "spherical":
            weights = weights.sum(axis=1, keepdims=True) / np.sqrt(len(self.centre))
        return weights

    def shift(self, weights: FloatArray, matrices: FloatArray) -> FloatArray:
        """A vector (F,) that, added to the weights of all states, leaves no precision in any direction below
        half the smallest one of the covariances ``matrices``; zero if there is none.
        """
        d = len(self.centre)
        least = WIDEST * np.linalg.eigvalsh(self._whitened_precisions(matrices)).min()
        raised = np.zeros((d, d))
        for precision in self._precisions(weights[d:-1].T):
            values, vectors = np.linalg.eigh(precision + raised)
            raised += (vectors * np.maximum(least - values, 0.0)) @ vectors.T
        return np.concatenate([np.zeros(d), self._quadratic(raised[None])[0], [0.0]])


def _check_definite(precisions: FloatArray) -> None:
    least = np.linalg.eigvalsh(precisions)[:, 0]
    if not least.min() > SINGULAR:
        state = int(np.argmin(least))
        raise NumericalError(
            f"the precision of state {state} is not positive definite (its least eigenvalue is "
            f"{least[state]:.2g} times that of the pooled data), so it is not a Gaussian; add the "
            "natural_shift of the weights to them, or learn them with more l2 or another objective"
        )


def _constants(precisions: FloatArray, centres: FloatArray) -> FloatArray:
    """log det P / 2 - v^T P v / 2 - trace(P - I) / 2, (K,): the last term makes up for -1 in squares."""
    square = np.einsum("kd,kde,ke->k", centres, precisions, centres)
    excess = np.trace(precisions, axis1=1, axis2=2) - precisions.shape[1]
    constants: FloatArray = 0.5 * (np.linalg.slogdet(precisions)[1] - square - excess)
    return constants
