"""The factors of a model given evidence.

Evidence can be taken out of the factors (``reduced_factors``, for elimination, Gibbs sampling and
propagation) or left to the sampler (``families``, which makes each likelihood of soft evidence a further,
observed child of its variable: P(observed | state) is the likelihood divided by the largest one). Axes keep
their order, so that the own variable of a family is the last of its scope.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.factors.flat_factors import FlatFactors, flatten
from trellis.factors.possible_states import ContradictionError
from trellis.factors.tables import Table, reduce

Model = DiscreteModel


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


def impossible_evidence(model: Model, error: ContradictionError) -> InfeasibleError:
    """The same error in the names of the model."""
    if error.variable is None:
        return InfeasibleError("the evidence is impossible: it contradicts itself; change it")
    name = model.names[error.variable]
    return InfeasibleError(f"the evidence is impossible: it leaves {name!r} without a state; change it")


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
