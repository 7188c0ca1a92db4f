"""Factors side by side in flat arrays, as the kernels of sampling, propagation and counting take them.

    value of factor f at x  =  values[value_start[f] + sum over e of stride[e] x[scope[e]]],
                               e = scope_start[f] .. scope_start[f + 1] - 1

Axes keep their order, so that the own variable of a family is the last of its scope, with stride 1. Evidence
can be taken out of the factors (``reduced_factors``, for Gibbs sampling and propagation) or left to the
sampler (``families``, which makes each likelihood of soft evidence a further, observed child of its variable:
P(observed | state) is the likelihood divided by the largest one).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.factors.tables import Table, aligned, reduce

Model = DiscreteModel
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


def flatten(cardinalities: Sequence[int] | IntArray, factors: Sequence[Table]) -> FlatFactors:
    """Any factors over variables of these cardinalities."""
    sizes = np.array(cardinalities, dtype=np.int64)
    widths = [len(table.variables) for table in factors]
    scope = np.array([v for table in factors for v in table.variables], dtype=np.int64)
    stride = np.array([s for table in factors for s in _strides(table.values.shape)], dtype=np.int64)
    parts = [np.ascontiguousarray(table.values, dtype=np.float64).ravel() for table in factors]
    return FlatFactors(
        cardinalities=sizes,
        scope_start=_starts(widths),
        scope=scope,
        stride=stride,
        value_start=_starts([part.size for part in parts]),
        values=np.concatenate(parts) if parts else np.zeros(0),
        incidence_start=_starts(np.bincount(scope, minlength=len(sizes)).tolist()),
        incidence=np.argsort(scope, kind="stable"),
        factor_of=np.repeat(np.arange(len(widths), dtype=np.int64), widths),
    )


class Families(NamedTuple):
    """The tables of a network for a forward sampler: family i belongs to variable i."""

    factors: FlatFactors
    order: IntArray  # parents before children; only variables that matter for the question
    observed: IntArray  # the state of each variable that is observed, -1 for the others


def families(
    network: DirectedModel,
    targets: Iterable[int] | None = None,
    evidence: Mapping[int, int] | None = None,
    likelihoods: Mapping[int, FloatArray] | None = None,
) -> Families:
    """The families that bear on ``targets`` (None: all variables) given the evidence."""
    evidence, likelihoods = evidence or {}, likelihoods or {}
    factors, sizes = network.factors(), network.cardinalities.tolist()
    order = list(network.order)
    if targets is not None:
        needed = network.closure([*targets, *evidence, *likelihoods])
        order = [v for v in order if v in needed]
    observed = [evidence.get(v, -1) for v in range(len(sizes))]
    for variable, likelihood in likelihoods.items():
        seen = likelihood / likelihood.max()
        factors.append(Table((variable, len(sizes)), np.stack([seen, 1.0 - seen], axis=1)))
        order.append(len(sizes))
        sizes.append(2)
        observed.append(0)
    return Families(flatten(sizes, factors), np.array(order), np.array(observed))


def reduced_factors(
    model: Model,
    targets: Iterable[int] | None = None,
    evidence: Mapping[int, int] | None = None,
    likelihoods: Mapping[int, FloatArray] | None = None,
) -> tuple[list[Table], list[int]]:
    """Factors at the evidence, and the unobserved variables that bear on ``targets``.

    In a Bayesian network, variables that are no ancestors of a target or of evidence are left out: their
    tables sum to one. Factors without variables left are constants and stay, for the partition function.
    """
    evidence, likelihoods = evidence or {}, likelihoods or {}
    everything = range(len(model.names))
    variables, factors = model.relevant(
        everything if targets is None else [*targets, *evidence, *likelihoods]
    )
    factors += [Table((v,), likelihood) for v, likelihood in likelihoods.items()]
    return [reduce(table, evidence) for table in factors], [v for v in variables if v not in evidence]


def merged(tables: Sequence[Table]) -> tuple[list[Table], float]:
    """The same product with fewer factors, as logarithms of which the largest is 0, and the scale taken off:

        log prod_f f(x)  =  log_scale + sum of the new factors at x

    A factor is multiplied into one that has all its variables: two factors between the same variables would
    be a cycle that the model does not have. Factors of one variable are multiplied with each other only.
    Logarithms, because a thousand factors of one variable are beyond any floating-point number.
    """
    kept: list[Table] = []
    holds: dict[int, set[int]] = {}  # the kept factors of each variable
    log_scale = 0.0
    for variables, values in sorted(tables, key=lambda table: -len(table.variables)):
        with np.errstate(divide="ignore"):
            logs = np.log(values)
        if not variables:
            log_scale += float(logs)
            continue
        within = set.intersection(*(holds.get(v, set()) for v in variables))
        if len(variables) == 1:
            within = {f for f in within if len(kept[f].variables) == 1}
        if within:
            f = min(within)
            kept[f] = Table(
                kept[f].variables, kept[f].values + aligned(Table(variables, logs), kept[f].variables)
            )
        else:
            for v in variables:
                holds.setdefault(v, set()).add(len(kept))
            kept.append(Table(variables, logs))
    tops = [max(float(table.values.max()), LOWEST) for table in kept]
    shifted = [Table(table.variables, table.values - top) for table, top in zip(kept, tops, strict=True)]
    return shifted, log_scale + sum(tops)


def encode_likelihoods(variables: Variables, likelihoods: Mapping[str, Any] | None) -> dict[int, FloatArray]:
    """Soft evidence by the number of the variable: an array, or ``{state: likelihood}`` (0 if left out)."""
    coded = {}
    for name, given in (likelihoods or {}).items():
        variable = variables.index(name)
        size = len(variables.states[variable])
        if isinstance(given, Mapping):
            values = np.zeros(size)
            for state, likelihood in given.items():
                values[variables.code(variable, state)] = _numbers(likelihood).max(initial=-1.0)
        else:
            values = _numbers(given)
        if values.shape != (size,) or not (values >= 0).all() or not 0 < values.max(initial=0) < np.inf:
            raise DataError(
                f"the likelihoods of {name!r} must be {size} numbers, one for each state, not negative and "
                f"not all zero, got {given!r}"
            )
        coded[variable] = values
    return coded


def _numbers(given: Any) -> FloatArray:
    """The array of these numbers; an empty one if they are none."""
    try:
        return np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        return np.zeros(0)


def _strides(shape: Sequence[int]) -> list[int]:
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return strides


def _starts(counts: Sequence[int]) -> IntArray:
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
