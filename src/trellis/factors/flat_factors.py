"""Factors side by side in flat arrays, as kernels of propagation, sampling and counting take them.

value of factor f at x  =  values[value_start[f] + sum over e of stride[e] x[scope[e]]],
                           e = scope_start[f] .. scope_start[f + 1] - 1
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.factors.tables import Table, aligned

LOWEST = -1e300  # below every sum of logarithms: a factor that is zero everywhere stays so


class FlatFactors(NamedTuple):
    """The arrays of the formula above, and for each variable the factors that it is in."""

    cardinalities: IntArray  # (n_variables,)
    scope_start: IntArray  # (n_factors + 1,)
    scope: IntArray
    stride: IntArray
    value_start: IntArray  # (n_factors + 1,)
    values: FloatArray
    incidence_start: IntArray  # (n_variables + 1,)
    incidence: IntArray  # places e in ``scope`` at which the variable stands
    factor_of: IntArray  # the factor to which a place e belongs

    @classmethod
    def of(
        cls, cardinalities: IntArray, widths: IntArray, scope: IntArray, values: FloatArray
    ) -> FlatFactors:
        """Factors whose scopes, of ``widths`` variables each, and values lie end to end."""
        scope_start, factor_of = offsets(widths), np.repeat(np.arange(len(widths)), widths)
        lengths = cardinalities[scope]
        stride = np.ones(len(scope), dtype=np.int64)
        for ahead in range(1, int(widths.max(initial=0))):
            inside = np.flatnonzero(factor_of[:-ahead] == factor_of[ahead:])
            stride[inside] *= lengths[inside + ahead]
        sizes = np.ones(len(widths), dtype=np.int64)
        some = widths > 0
        sizes[some] = (stride * lengths)[scope_start[:-1][some]]
        incidence_start = offsets(np.bincount(scope, minlength=len(cardinalities)))
        incidence = np.argsort(scope, kind="stable")
        return cls(
            cardinalities, scope_start, scope, stride, offsets(sizes), values, incidence_start, incidence,
            factor_of,
        )  # fmt: skip


def flatten(cardinalities: Sequence[int] | IntArray, factors: Sequence[Table]) -> FlatFactors:
    """Any factors over variables of these cardinalities."""
    widths = np.array([len(table.variables) for table in factors], dtype=np.int64)
    scope = np.array([v for table in factors for v in table.variables], dtype=np.int64)
    parts = [np.ascontiguousarray(table.values, dtype=np.float64).ravel() for table in factors]
    values = np.concatenate(parts) if parts else np.zeros(0)
    return FlatFactors.of(np.array(cardinalities, dtype=np.int64), widths, scope, values)


def offsets(counts: IntArray) -> IntArray:
    """Where runs of these lengths start, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)


def merge_nested(tables: Sequence[Table]) -> tuple[list[Table], float]:
    """The same product with fewer factors, as logarithms of which the largest is 0, and the scale taken off:

        log prod_f f(x)  =  log_scale + sum of the new factors at x

    A factor is multiplied into one that has all its variables: two factors between the same variables would
    be a cycle that the model does not have. Factors of one variable are multiplied with each other only.
    Logarithms, because a thousand factors of one variable are beyond any floating-point number.
    """
    kept: list[Table] = []
    holds: dict[int, set[int]] = {}  # the kept factors of each variable, of several variables ...
    alone: dict[int, set[int]] = {}  # ... and of it alone
    nothing: set[int] = set()
    log_scale = 0.0
    with np.errstate(divide="ignore"):
        all_logs = [Table(table.variables, np.log(table.values)) for table in tables]
    for variables, logs in sorted(all_logs, key=lambda table: -len(table.variables)):
        if not variables:
            log_scale += float(logs)
            continue
        if len(variables) == 1:
            within = alone.get(variables[0], set())
        else:
            within = set.intersection(*(holds.get(v, nothing) for v in variables))
        if within:
            f = min(within)
            kept[f] = Table(
                kept[f].variables, kept[f].values + aligned(Table(variables, logs), kept[f].variables)
            )
        else:
            where = alone if len(variables) == 1 else holds
            for v in variables:
                where.setdefault(v, set()).add(len(kept))
            kept.append(Table(variables, logs))
    tops = [max(float(table.values.max()), LOWEST) for table in kept]
    shifted = [Table(table.variables, table.values - top) for table, top in zip(kept, tops, strict=True)]
    return shifted, log_scale + sum(tops)
