"""A question P(targets | evidence) in numbers: the form in which every method of inference takes it.

Evidence can be taken out of the factors (``reduced_factors``, for elimination, Gibbs sampling and
propagation) or left to the sampler (``families``, which makes each likelihood of soft evidence a further,
observed child of its variable: P(observed | state) is the likelihood divided by the largest one). Variables
that cannot matter are left out: in a Bayesian network, all but the ancestors of targets and evidence.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trellis.bayesnet.inference.estimates import Estimate
from trellis.bayesnet.inference.posterior import ApproximatePosterior, Posterior, describe_evidence
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.factors.flat_factors import FlatFactors, flatten
from trellis.factors.possible_states import ContradictionError
from trellis.factors.tables import Table, reduce

Targets = str | Sequence[str] | None  # one variable, several jointly, or each unobserved variable by itself
Evidence = Mapping[str, Any] | None
Likelihoods = Mapping[str, Any] | None  # soft evidence: variable -> one likelihood for each state
CELL_LIMIT = 2**18  # of an estimated joint: more cells than samples would tell nothing, in gigabytes


class Families(NamedTuple):
    """The tables of a network for a forward sampler: family i belongs to variable i."""

    factors: FlatFactors
    order: IntArray  # parents before children; only variables that matter for the question
    observed: IntArray  # the state of each variable that is observed, -1 for the others


class Question:
    """``scopes``: the variables of each distribution that is wanted, one for each of ``targets=None``."""

    def __init__(
        self,
        model: DiscreteModel,
        targets: Targets = None,
        evidence: Evidence = None,
        likelihoods: Likelihoods = None,
    ) -> None:
        self.model, self.variables = model, model.variables
        self.evidence = self.variables.encode(evidence or {})
        self.likelihoods = encode_likelihoods(self.variables, likelihoods)
        self.each = targets is None
        self.scopes: list[tuple[int, ...]]
        if targets is None:
            self.scopes = [(v,) for v in range(len(self.variables)) if v not in self.evidence]
        else:
            self.scopes = [check_targets(self.variables, targets)]

    @cached_property
    def given(self) -> str:
        """The evidence as text."""
        return describe_evidence(self.variables, self.evidence, list(self.likelihoods))

    # -- factors ----------------------------------------------------------------------------------------

    def reduced_factors(self, targets: Iterable[int] | None = None) -> tuple[list[Table], list[int]]:
        """The relevant factors at the evidence, and the unobserved variables among those that matter for
        ``targets`` (by default, those of the question).

        Factors without variables left are constants and stay, for the partition function.
        """
        variables, factors = self.model.relevant(self._relevant(targets))
        factors += [Table((v,), likelihood) for v, likelihood in self.likelihoods.items()]
        free = [v for v in variables if v not in self.evidence]
        return [reduce(table, self.evidence) for table in factors], free

    def observation_tables(self) -> list[Table]:
        """P(observed state of v | parents) for each observed variable of a network, over its unobserved
        parents, and each likelihood divided by the largest one: the product is the weight of a particle."""
        factors = self.model.factors()
        tables = [factors[v] for v in self.evidence]
        tables += [Table((v,), weights / weights.max()) for v, weights in self.likelihoods.items()]
        return [reduce(table, self.evidence) for table in tables]

    def families(self) -> Families:
        """The tables of a network, with soft evidence as observed children."""
        if not isinstance(self.model, DirectedModel):
            raise UnsupportedError(
                "the factors of a factor graph have no order to sample in; use method='gibbs', 'loopy' or "
                "an exact one"
            )
        factors, sizes = self.model.factors(), self.model.cardinalities.tolist()
        needed = self.model.closure(self._relevant())
        order = [v for v in self.model.order if v in needed]
        observed = [self.evidence.get(v, -1) for v in range(len(sizes))]
        for variable, likelihood in self.likelihoods.items():
            seen = likelihood / likelihood.max()
            factors.append(Table((variable, len(sizes)), np.stack([seen, 1.0 - seen], axis=1)))
            order.append(len(sizes))
            sizes.append(2)
            observed.append(0)
        return Families(flatten(sizes, factors), np.array(order), np.array(observed))

    def _relevant(self, targets: Iterable[int] | None = None) -> list[int]:
        """Variables whose ancestors matter: targets, and all evidence."""
        if targets is None:
            targets = range(len(self.variables)) if self.each else self.scopes[0]
        return [*targets, *self.evidence, *self.likelihoods]

    def impossible(self, error: ContradictionError | None = None) -> InfeasibleError:
        """That the evidence has probability zero: in names, and where it contradicts itself, if known."""
        if not self.given:
            return InfeasibleError(
                "the product of all factors is zero everywhere; some of them contradict each other"
            )
        where = ""
        if error is not None and error.variable is not None:
            where = f" (it leaves {self.variables.names[error.variable]!r} without a state)"
        return InfeasibleError(
            f"the evidence has probability zero: {self.given}{where}; change or leave out some of it"
        )

    # -- cells ------------------------------------------------------------------------------------------

    @cached_property
    def cells(self) -> FlatFactors:
        """The cells of all scopes side by side: those of scope s begin at ``cells.value_start[s]``."""
        for scope in self.scopes:
            size = math.prod(self.model.shape(scope))
            if size > CELL_LIMIT:
                raise UnsupportedError(
                    f"the joint distribution of {len(scope)} targets has {size:,} cells, and the limit is "
                    f"{CELL_LIMIT:,}; ask for fewer targets at once"
                )
        zeros = [Table(scope, np.zeros(self.model.shape(scope))) for scope in self.scopes]
        return flatten(self.model.cardinalities, zeros)

    @property
    def n_cells(self) -> int:
        return int(self.cells.value_start[-1])

    def possible_cells(self) -> BoolArray:
        """Cells that do not contradict the evidence."""
        parts = [np.zeros(0)]
        for scope in self.scopes:
            free = self.model.shape(v for v in scope if v not in self.evidence)
            parts.append(self.spread(scope, np.ones(free)).ravel())
        return np.concatenate(parts) > 0.0

    def known_cells(self) -> BoolArray:
        """Cells of scopes in which nothing is uncertain: all observed, or with one state."""
        sizes = self.model.cardinalities
        known = [all(v in self.evidence or sizes[v] == 1 for v in scope) for scope in self.scopes]
        return np.repeat(np.array(known, dtype=np.bool_), np.diff(self.cells.value_start))

    def spread(self, scope: Sequence[int], values: FloatArray, elsewhere: float = 0.0) -> FloatArray:
        """A table over a scope from its part over the unobserved variables: ``elsewhere`` at other states
        than those observed."""
        whole = np.full(self.model.shape(scope), elsewhere)
        place = tuple(self.evidence.get(v, slice(None)) for v in scope)
        whole[place] = values.reshape(whole[place].shape)
        return whole

    # -- answers ----------------------------------------------------------------------------------------

    def decode(self, states: IntArray) -> dict[str, str]:
        """An assignment of all variables by name."""
        return self.variables.decode(dict(enumerate(states.tolist())))

    def exact_answer(self, method: str, tables: Sequence[FloatArray]) -> Posterior | dict[str, Posterior]:
        """Tables, one for each scope, with their names."""
        pairs, given = zip(self.scopes, tables, strict=True), self.given
        return self._by_name([Posterior(*self._axes(scope), table, method, given) for scope, table in pairs])

    def approximate_answer(self, method: str, found: Estimate) -> Posterior | dict[str, Posterior]:
        """An estimate of all cells with its names."""
        errors, given = np.where(self.known_cells(), 0.0, found.standard_errors), self.given
        answers: list[Posterior] = []
        for scope, (start, end) in zip(self.scopes, pairwise(self.cells.value_start), strict=True):
            shape = self.model.shape(scope)
            answers.append(
                ApproximatePosterior(
                    *self._axes(scope),
                    found.values[start:end].reshape(shape),
                    method,
                    given,
                    standard_errors=errors[start:end].reshape(shape),
                    tally=None if found.tally is None else found.tally.part(start, end, shape),
                    report=found.report,
                    diagnostics=found.diagnostics,
                )
            )
        return self._by_name(answers)

    def _axes(self, scope: Sequence[int]) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
        """The names of variables and of their states."""
        names, states = self.variables.names, self.variables.states
        return tuple(map(names.__getitem__, scope)), tuple(map(states.__getitem__, scope))

    def _by_name(self, answers: Sequence[Posterior]) -> Posterior | dict[str, Posterior]:
        return {answer.targets[0]: answer for answer in answers} if self.each else answers[0]


def check_targets(variables: Variables, targets: str | Sequence[str]) -> tuple[int, ...]:
    """The numbers of at least one variable."""
    indices = variables.indices(targets)
    if not indices:
        raise DataError("there are no targets; name at least one variable")
    return indices


def encode_likelihoods(variables: Variables, likelihoods: Likelihoods) -> dict[int, FloatArray]:
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
