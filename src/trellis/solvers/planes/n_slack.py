"""n-slack cutting planes: each example keeps planes of its own.

    R_i(w) = max(0, max_j b_ij + g_ij.w)        dual: alpha_ij >= 0,  sum_j alpha_ij <= 1  for each example i

Thousands of examples with a few planes each are too many variables for a dense QP solver
(docs/decisions/qp.md), and the dual falls apart into one small simplex per example. So it is climbed block
by block: an example's alphas are moved to their optimum with the others fixed, at the cost of a few sparse
products with w (``n_slack_kernels``). The dual bound is computed afresh from the alphas,
so the certificate does not depend on how far the climb got.

An iteration asks every example for its worst plane, and keeps those that lie above the example's model by
more than tol F / (4 n). The climb goes on until its own gap is a tenth of the last duality gap, and half of
that after each iteration that hardly lowered the gap, so both errors fall below tol F / 2 in the end. Planes
that were inactive for 10 iterations are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from trellis.core.arrays import FloatArray
from trellis.core.status import Status
from trellis.solvers.planes.duality_gap import Certificate
from trellis.solvers.planes.n_slack_kernels import ascend, extend_gram
from trellis.solvers.problem import PlaneProblem
from trellis.solvers.resumable import Resumable

PATIENCE = 10
MAX_PASSES = 300


class NSlackRun(Resumable):
    """All planes in one CSR array, ordered by example, with one small Gram matrix per example."""

    kept = (
        "_certificate",
        "_dual_weights",
        "_offsets",
        "_alpha",
        "_idle",
        "_example",
        "_starts",
        "_gram",
        "_evaluations",
        "_effort",
        "_last_gap",
    )

    def __init__(self, problem: PlaneProblem, weights: FloatArray, tol: float) -> None:
        n = problem.n_examples
        self._problem = problem
        self._tol = tol
        self._certificate = Certificate(weights)
        self._dual_weights = weights
        self._rows = csr_array((0, len(weights)))
        self._offsets = np.empty(0)
        self._alpha = np.empty(0)
        self._idle = np.empty(0, dtype=np.int64)
        self._example = np.empty(0, dtype=np.int64)
        self._starts = np.zeros(n + 1, dtype=np.int64)  # planes of example i: starts[i] .. starts[i + 1]
        self._gram = np.empty(0)  # the examples' Gram matrices end to end
        self._evaluations = 0
        self._effort = 0.1  # how far to climb: to this fraction of the duality gap
        self._last_gap = np.inf

    @property
    def weights(self) -> FloatArray:
        return self._certificate.weights

    def snapshot(self) -> dict[str, Any]:
        rows = self._rows
        return {**super().snapshot(), "rows": (rows.data, rows.indices, rows.indptr)}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        shape = len(self._offsets), len(self._dual_weights)
        self._rows = csr_array(tuple(snapshot["rows"]), shape=shape)

    def step(self) -> Mapping[str, float]:
        problem, certificate, w = self._problem, self._certificate, self._dual_weights
        l2 = problem.l2
        values, rows = problem.example_planes(w)
        self._evaluations += 1
        certificate.lower_primal(float(values.sum()) + 0.5 * l2 * float(w @ w), w)
        allowance = 0.25 * self._tol * abs(certificate.primal)
        violated = np.flatnonzero(values > self._model_values(w) + allowance / max(len(values), 1))
        self._exchange(rows[violated], values[violated] - rows[violated] @ w, violated)
        gap = certificate.gap
        self._effort = 0.5 * self._effort if gap > 0.9 * self._last_gap else min(0.1, 2.0 * self._effort)
        self._last_gap = gap
        self._climb(self._effort * gap if np.isfinite(gap) else allowance)
        return {
            **certificate.measure(),
            "evaluations": float(self._evaluations),
            "planes": float(len(self._alpha)),
        }

    def status(self) -> Status | None:
        return self._certificate.status(self._tol)

    def _model_values(self, weights: FloatArray) -> FloatArray:
        """max(0, max_j b_ij + g_ij.w) of each example."""
        model = np.zeros(len(self._starts) - 1)
        np.maximum.at(model, self._example, self._offsets + self._rows @ weights)
        return model

    def _exchange(self, rows: csr_array, offsets: FloatArray, examples: NDArray[np.int64]) -> None:
        """Drop planes that were idle for long, take in the new ones, all in the examples' order."""
        kept = np.flatnonzero(self._idle < PATIENCE)
        example = np.concatenate([self._example[kept], examples])
        order = np.argsort(example, kind="stable")
        n_new = len(examples)
        source = np.concatenate([kept, np.full(n_new, -1)])[order]
        matrix = vstack([self._rows[kept], rows], format="csr")[order]
        starts = np.searchsorted(example[order], np.arange(len(self._starts))).astype(np.int64)
        self._gram = extend_gram(
            starts, self._starts, source, self._gram, *_csr_parts(matrix), np.zeros(matrix.shape[1])
        )
        self._rows, self._starts, self._example = matrix, starts, example[order]
        self._offsets = np.concatenate([self._offsets[kept], offsets])[order]
        self._alpha = np.concatenate([self._alpha[kept], np.zeros(n_new)])[order]
        self._idle = np.concatenate([self._idle[kept], np.zeros(n_new, dtype=np.int64)])[order]

    def _climb(self, target: float) -> None:
        """Block ascent to a restricted gap of ``target``, then weights and dual bound from the alphas."""
        l2 = self._problem.l2
        weights = self._weights_of_alpha()
        ascend(
            weights,
            l2,
            self._starts,
            *_csr_parts(self._rows),
            self._offsets,
            self._gram,
            self._alpha,
            target,
            MAX_PASSES,
        )
        self._idle = np.where(self._alpha > 0, 0, self._idle + 1)
        self._dual_weights = weights = self._weights_of_alpha()
        dual = float(self._alpha @ self._offsets) - 0.5 * l2 * float(weights @ weights)
        self._certificate.raise_dual(dual)

    def _weights_of_alpha(self) -> FloatArray:
        weights: FloatArray = self._rows.T @ self._alpha
        weights *= -1.0 / self._problem.l2
        return weights


def _csr_parts(matrix: csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32], FloatArray]:
    """One index type for the kernels, whatever scipy chose."""
    return (
        matrix.indptr.astype(np.int64),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(np.float64, copy=False),
    )
