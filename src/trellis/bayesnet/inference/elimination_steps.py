"""Variable elimination step by step: every product, every sum, every intermediate factor.

    P(t, e) = sum_{x_1} ... sum_{x_n} prod of all tables

Sums move inwards past the tables that do not hold their variable; the innermost sum makes a new factor,
f_1(...) = sum_{x} (product of the tables with x), which takes the place of these tables. The order decides
how large the factors become, and nothing else. Dividing P(t, e) by its sum over t, which is P(e), gives
P(t | e).

This runs on NumPy tables, one variable at a time, to be read; ``query`` does the same in fused steps. Tables
are added up as logarithms, so that nothing is lost however many of them there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from trellis.bayesnet.inference.posterior import Posterior
from trellis.bayesnet.inference.question import Evidence, Question
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.logspace import log_sum_exp, softmax
from trellis.factors.elimination_order import elimination_order
from trellis.factors.junction_tree.junction_tree import log_table
from trellis.factors.junction_tree.log_passes import contract
from trellis.factors.tables import Table, reduce

CELL_LIMIT = 2**22  # of an intermediate factor
LARGEST_LOG = 700.0  # exponentials beyond it are no numbers
MOST_CELLS = 16  # of a factor that are printed


@dataclass(frozen=True, eq=False)
class Factor:
    """A table with the way it is written, such as ``P(B | A=yes)`` or ``f2(C, D)``."""

    name: str
    variables: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    values: FloatArray  # 0 where they are below the range of numbers
    log_values: FloatArray

    def lines(self) -> list[str]:
        """One line for each entry, if they are few."""
        if self.values.size > MOST_CELLS:
            return [f"({self.values.size} entries)"]
        cells = np.ndindex(*self.values.shape)
        rows = [(", ".join(axis[i] for axis, i in zip(self.states, c, strict=True)), c) for c in cells]
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {written(float(self.log_values[c]))}" for name, c in rows]


@dataclass(frozen=True, eq=False)
class EliminationStep:
    """One variable summed out: what was multiplied, and the factor that came of it."""

    variable: str
    multiplied: tuple[Factor, ...]
    factor: Factor

    def __str__(self) -> str:
        return f"{self.factor.name} = sum_{self.variable} {' '.join(f.name for f in self.multiplied)}"


@dataclass(frozen=True, eq=False)
class Elimination:
    """A query with all its steps; ``print`` it."""

    targets: tuple[str, ...]
    given: str
    dropped: tuple[str, ...]
    start: tuple[Factor, ...]
    steps: tuple[EliminationStep, ...]
    remaining: tuple[Factor, ...]
    log_joint: FloatArray
    posterior: Posterior

    @property
    def joint(self) -> FloatArray:
        """P(targets, evidence) in a Bayesian network; 0 where it is below the range of numbers."""
        return np.exp(self.log_joint)

    @property
    def log_evidence(self) -> float:
        """The log of the sum of the joint: log P(evidence) in a Bayesian network."""
        return float(log_sum_exp(self.log_joint, None))

    @property
    def evidence_probability(self) -> float:
        """The sum of the joint; 0 where it is below the range of numbers."""
        return math.exp(self.log_evidence) if self.log_evidence < LARGEST_LOG else math.inf

    def __str__(self) -> str:
        joint = f"P({', '.join(self.targets)}{f', {self.given}' if self.given else ''})"
        sums = f"sum_{{{', '.join(step.variable for step in reversed(self.steps))}}} " if self.steps else ""
        lines = [f"{joint} = {sums}{' '.join(f.name for f in self.start)}"]
        if self.dropped:
            lines.append(f"left out, as not ancestors of targets or evidence: {', '.join(self.dropped)}")
        for number, step in enumerate(self.steps, start=1):
            lines += ["", f"{number}. {step}", *(f"     {line}" for line in step.factor.lines())]
        lines += ["", f"{joint} = {' '.join(f.name for f in self.remaining)}"]
        if self.given:
            lines.append(f"divided by its sum, P({self.given}) = {written(self.log_evidence)}:")
        return "\n".join([*lines, "", str(self.posterior)])


def explain_elimination(
    model: DiscreteModel,
    targets: str | Sequence[str],
    evidence: Evidence = None,
    order: str | Sequence[str] = "best",
) -> Elimination:
    """P(targets | evidence) by variable elimination, step by step.

    ``order``: the variables to be summed out, the innermost sum first, or a heuristic (``"min_fill"``,
    ``"weighted_min_fill"``, ``"min_weight"``, ``"best"``).
    """
    question = Question(model, targets, evidence)
    names, observed = model.names, question.evidence
    free = tuple(v for v in question.scopes[0] if v not in observed)
    if not free:
        raise DataError("there are no unobserved targets; name at least one")
    check_size(model, free, "the joint table of the targets has")
    used, tables = model.relevant([*free, *observed])
    start = [
        (_factor_name(model, number, table, observed), log_table(reduce(table, observed)))
        for number, table in enumerate(tables)
    ]
    hidden = {v for _, table in start for v in table.variables}.difference(free)
    remaining = list(start)
    steps = []
    for number, v in enumerate(_order(model, [table for _, table in start], hidden, free, order), start=1):
        touched = [(name, table) for name, table in remaining if v in table.variables]
        union = {u for _, table in touched for u in table.variables}
        check_size(model, union, f"summing out {names[v]!r} multiplies tables to")
        made = contract([table for _, table in touched], sorted(union - {v}))
        name = f"f{number}({', '.join(names[u] for u in made.variables)})"
        remaining = [(n, table) for n, table in remaining if v not in table.variables] + [(name, made)]
        factors = tuple(_factor(model, *pair) for pair in touched)
        steps.append(EliminationStep(names[v], factors, _factor(model, name, made)))
    uniform = Table(free, np.zeros(model.shape(free)))
    log_joint = contract([uniform, *(table for _, table in remaining)], free).values
    if log_joint.max() == -np.inf:
        raise question.impossible()
    labels = tuple(names[v] for v in free)
    states = tuple(model.states[v] for v in free)
    return Elimination(
        labels,
        question.given,
        tuple(name for i, name in enumerate(names) if i not in used),
        tuple(_factor(model, *pair) for pair in start),
        tuple(steps),
        tuple(_factor(model, *pair) for pair in remaining),
        log_joint,
        Posterior(labels, states, softmax(log_joint, None), "elimination", question.given),
    )


def check_size(model: DiscreteModel, variables: Iterable[int], what: str) -> None:
    """Raise where a table over these variables is too large to show."""
    size = math.prod(model.shape(variables))
    if size > CELL_LIMIT:
        raise UnsupportedError(
            f"{what} {size:,} entries, too many to show; use query, another order or fewer variables"
        )


def written(log: float) -> str:
    """A number of any size by its logarithm."""
    if log == -np.inf or abs(log) < LARGEST_LOG:
        return f"{math.exp(log):.6g}"
    digits, exponent = math.modf(log / math.log(10.0))
    if digits < 0.0:
        digits, exponent = digits + 1.0, exponent - 1.0
    return f"{10.0**digits:.6g}e{int(exponent):+d}"


def _order(
    model: DiscreteModel,
    tables: list[Table],
    hidden: set[int],
    targets: tuple[int, ...],
    order: str | Sequence[str],
) -> list[int]:
    if isinstance(order, str):
        scopes = [table.variables for table in tables]
        return list(elimination_order(model.cardinalities, scopes, order, keep=targets).variables)
    variables = [model.variables.index(name) for name in order]
    missing = sorted(hidden.difference(variables))
    if missing:
        raise DataError(
            f"the elimination order leaves out {model.names[missing[0]]!r}; it must hold "
            f"{', '.join(model.names[v] for v in sorted(hidden))}"
        )
    if len(set(variables)) != len(variables):
        raise DataError("the elimination order names a variable twice; name each once")
    return [v for v in variables if v in hidden]


def _factor_name(model: DiscreteModel, number: int, table: Table, observed: Mapping[int, int]) -> str:
    """``P(B | A=yes)`` in a network, ``g2(A=yes, B)`` in a factor graph."""
    parts = [model.names[v] for v in table.variables]
    for i, v in enumerate(table.variables):
        if v in observed:
            parts[i] += f"={model.states[v][observed[v]]}"
    if model.directed:
        return f"P({parts[-1]}{' | ' if parts[:-1] else ''}{', '.join(parts[:-1])})"
    return f"g{number}({', '.join(parts)})"


def _factor(model: DiscreteModel, name: str, table: Table) -> Factor:
    names = tuple(model.names[v] for v in table.variables)
    states = tuple(model.states[v] for v in table.variables)
    with np.errstate(over="ignore"):
        return Factor(name, names, states, np.exp(table.values), table.values)
