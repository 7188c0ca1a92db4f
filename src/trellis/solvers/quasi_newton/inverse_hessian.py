"""The limited-memory BFGS approximation of an inverse Hessian, in two passes over the pairs per iteration.

With the last pairs s_i = w_{i+1} - w_i and y_i = g_{i+1} - g_i, rho_i = 1 / s_i.y_i, the product H v is the
two-loop recursion

    q = v;   newest to oldest:  a_i = rho_i s_i.q,  q -= a_i y_i
    q *= s.y / y.y (newest pair)
    oldest to newest:  q += (a_i - rho_i y_i.q) s_i

Run on vectors, it streams the pairs through memory four times in dependent pieces. But q always stays a
combination of v, the s_i and the y_i, so the recursion can run on its 2 m + 1 coefficients, given the inner
products (Chen, Wang and Zhou 2014). Of those, an iteration needs only  S y, Y y  for the new pair and  S v,
Y v,  where v is as a rule the newest gradient: one pass over the stored block of pairs gives all four, and a
second one turns the coefficients back into a vector. Threads share out the coordinates.

Pairs are stored in single precision and their products summed in double: the passes cost what reading the
block costs, and a pair rounded to seven digits describes the curvature as well as it did (all products are
those of the rounded pairs, so H stays symmetric and positive definite).

Where weights have scales, all this is done on w / scale, with the gradient scale g: H is then
scale H' scale with the H' of the scaled pairs, and the multiple of v above is one of scale^2 v.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.shards import over_shards
from trellis.solvers.quasi_newton.inverse_hessian_kernels import combine, products_with, store_pair
from trellis.solvers.resumable import Resumable

MIN_CURVATURE = 1e-16  # s.y / y.y below which a pair says nothing about the curvature
FEW = 32768  # coordinates for which a second thread costs more than it gains


class InverseHessian(Resumable):
    """The last ``memory`` pairs and their inner products.

    Steps are rows 0..memory of one block, gradient differences the rows after them: one slot more than
    ``memory``, so that a new pair can be written, judged, and left out without touching the pairs in use.
    """

    kept = ("_step_change", "_change_change", "_slots", "_spare", "_scale")

    def __init__(self, memory: int, dimension: int, n_jobs: int = 1) -> None:
        n_slots = memory + 1
        self._n_slots = n_slots
        self._pairs = np.zeros((2 * n_slots, dimension), dtype=np.float32)
        self._step_change = np.zeros((n_slots, n_slots))  # s_i . y_j, used only where j is not older than i
        self._change_change = np.zeros((n_slots, n_slots))  # y_i . y_j
        self._slots: list[int] = []  # in use, oldest first
        self._spare = list(range(n_slots))
        self._n_jobs = n_jobs if dimension > FEW else 1
        self._pieces = np.append(np.arange(0, dimension, FEW), dimension)
        self._scale = np.ones(dimension, dtype=np.float32)

    def __len__(self) -> int:
        return len(self._slots)

    def snapshot(self) -> dict[str, Any]:
        return {**super().snapshot(), "pairs": self._pairs[self._rows(self._slots)]}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        self._pairs[self._rows(self._slots)] = snapshot["pairs"]

    def rescale(self, scale: FloatArray) -> None:
        """Before the first pair: the scale of each weight, positive."""
        self._scale = scale.astype(np.float32)

    def forget(self) -> None:
        """Go back to H = scale^2, as at the start."""
        self._spare += self._slots
        self._slots.clear()

    def update(
        self, w_new: FloatArray, w_old: FloatArray, g_new: FloatArray, g_old: FloatArray
    ) -> FloatArray | None:
        """Store the pair from ``old`` to ``new``; the products of all pairs with ``g_new``, for ``times``.

        ``None`` if the pair's curvature is not positive: it is then left out.
        """
        slot, n = self._spare[-1], self._n_slots
        used = self._rows([*self._slots, slot])
        products = self._sum(
            (2, 2 * n),
            lambda first, last, out: store_pair(
                self._pairs, used, slot, w_new, w_old, g_new, g_old, self._scale, first, last, out
            ),
        )
        by_change = products[0]
        if not by_change[slot] > MIN_CURVATURE * by_change[n + slot]:
            return None
        self._step_change[:, slot] = by_change[:n]
        self._change_change[:, slot] = self._change_change[slot, :] = by_change[n:]
        self._slots.append(self._spare.pop())
        if not self._spare:
            self._spare.append(self._slots.pop(0))
        gradient_products: FloatArray = products[1]
        return gradient_products

    def times(
        self,
        vector: FloatArray,
        out: FloatArray,
        products: FloatArray | None = None,
        *,
        newest: int | None = None,
    ) -> None:
        """Write ``H vector`` into ``out``; ``products``: of the pairs with ``vector``, where known.
        ``newest``: H is made from that many pairs only, the last ones."""
        slots = self._slots if newest is None else self._slots[-newest:]
        if products is None:
            used = self._rows(slots)
            products = self._sum(
                (2 * self._n_slots,),
                lambda first, last, sums: products_with(
                    self._pairs, used, vector, self._scale, first, last, sums
                ),
            )
        on_pairs, on_vector = _two_loop(products, self._step_change, self._change_change, slots)
        over_shards(
            lambda i, j: combine(
                self._pairs, on_pairs, vector, on_vector, self._scale, self._pieces[i], self._pieces[j], out
            ),
            self._pieces,
            self._n_jobs,
        )

    def _rows(self, slots: list[int]) -> NDArray[np.int64]:
        """The rows of these pairs in the block."""
        return np.array([*slots, *(self._n_slots + i for i in slots)], dtype=np.int64)

    def _sum(self, shape: tuple[int, ...], work: Callable[[int, int, FloatArray], None]) -> FloatArray:
        """What ``work(first, last, out)`` adds to ``out`` over all coordinates."""

        def piece(i: int, j: int) -> FloatArray:
            out = np.zeros(shape)
            work(self._pieces[i], self._pieces[j], out)
            return out

        return np.asarray(sum(over_shards(piece, self._pieces, self._n_jobs)))

    def times_within(self, free: NDArray[np.int64], vector: FloatArray, out: FloatArray) -> None:
        """Write ``H vector`` into ``out`` with only the coordinates ``free`` of the pairs; 0 elsewhere.

        Pairs whose curvature within these coordinates is not positive are left out.
        """
        n = self._n_slots
        block = self._pairs[:, free].astype(np.float64)
        products = block @ block[n:].T
        step_change, change_change = products[:n], products[n:]
        slots = [i for i in self._slots if step_change[i, i] > MIN_CURVATURE * change_change[i, i]]
        scale = self._scale[free].astype(np.float64)
        within = scale * vector[free]
        on_pairs, on_vector = _two_loop(block @ within, step_change, change_change, slots)
        out.fill(0.0)
        out[free] = scale * (on_pairs @ block + on_vector * within)


def _two_loop(
    products: FloatArray, step_change: FloatArray, change_change: FloatArray, slots: list[int]
) -> tuple[FloatArray, float]:
    """Coefficients of ``H v`` on the pairs and on ``v``, from the pairs' inner products with it."""
    n = len(step_change)
    by_step, by_change = products[:n], products[n:]
    first, on_change, on_step = np.zeros(n), np.zeros(n), np.zeros(n)
    for i in reversed(slots):
        first[i] = (by_step[i] + on_change @ step_change[i]) / step_change[i, i]
        on_change[i] = -first[i]
    scale = float(step_change[slots[-1], slots[-1]] / change_change[slots[-1], slots[-1]]) if slots else 1.0
    on_change *= scale
    for i in slots:
        along = scale * by_change[i] + on_change @ change_change[i] + on_step @ step_change[:, i]
        on_step[i] = first[i] - along / step_change[i, i]
    return np.concatenate([on_step, on_change]), scale
