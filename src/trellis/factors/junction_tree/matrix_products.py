"""The large steps of a plan as matrix products.

Where the inner axis of a step belongs to one input alone, the layouts of the plan are those of a matrix
product for each state of the batch, with the input that holds the inner axis on the right:

    O[m, n] = sum_k L[m, k] R[k, n],      L' = O' R^T,      R' = L^T O'

For large m, k and n each entry is used so often that the speed is that of BLAS, which keeps entries in
registers and caches, and no longer that of reading memory: ten times and more that of the kernels' loops.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray, UIntArray
from trellis.factors.junction_tree.plan import Plan
from trellis.factors.junction_tree.tree_pass_kernels import gather, rescale, scatter


class _Place(NamedTuple):
    """Where a table starts and ends, and its shape as a matrix for each state of the batch."""

    table: int
    start: int
    end: int
    shape: tuple[int, int, int]

    def of(self, array: FloatArray) -> FloatArray:
        return array[self.start : self.end].reshape(self.shape)


class MatrixProduct:
    """Step number ``number`` of a plan without rows, in both directions.

    ``record``, ``axes`` and ``maps`` say where the rows of the product lie in the output.
    """

    def __init__(self, plan: Plan, number: int, record: UIntArray, axes: UIntArray, maps: UIntArray) -> None:
        self.number = number
        batch, alone_a, alone_b, summed, inner = plan.groups[number]
        a, b, out = plan.steps[number]
        (left, other), right = ((b, alone_b), a) if inner == alone_a else ((a, alone_a), b)
        n_batch, m, k, n = (plan.size(mask) for mask in (batch, other, summed, inner))
        self._left = self._place(plan, left, (n_batch, m, k))
        self._right = self._place(plan, right, (n_batch, k, n))
        self._out = self._place(plan, out, (n_batch, m, n))
        self._places = record, axes, maps

    @staticmethod
    def _place(plan: Plan, table: int, shape: tuple[int, int, int]) -> _Place:
        start, end = plan.offset_lists[0][table : table + 2]
        return _Place(table, start, end, shape)

    def to_roots(self, values: FloatArray, log_scale: FloatArray) -> None:
        """As the kernel of this name does for one step."""
        product = np.matmul(self._left.of(values), self._right.of(values))
        scatter(*self._places, product.reshape(-1, product.shape[2]), values)
        self._rescale(values, self._out, log_scale)

    def from_roots(
        self, values: FloatArray, slopes: FloatArray, log_scale: FloatArray, log_slope: FloatArray
    ) -> None:
        """As the kernel of this name does for one step."""
        left, right, out = self._left, self._right, self._out
        slope = np.empty(out.shape)
        gather(*self._places, slopes, slope.reshape(-1, out.shape[2]))
        np.matmul(slope, right.of(values).transpose(0, 2, 1), out=left.of(slopes))
        np.matmul(left.of(values).transpose(0, 2, 1), slope, out=right.of(slopes))
        for place in (left, right):
            self._rescale(slopes, place, log_slope)
            log_slope[place.table] += log_slope[out.table] - log_scale[out.table]

    @staticmethod
    def _rescale(array: FloatArray, place: _Place, logs: FloatArray) -> None:
        start, size, one = (np.uint64(x) for x in (place.start, place.end - place.start, 1))
        rescale(array, start, size, one, logs, np.uint64(place.table))
