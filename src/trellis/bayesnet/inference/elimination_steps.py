"""Variable elimination, shown: every product, every sum, every intermediate factor.

    P(t, e) = sum_{x_1} ... sum_{x_n} prod of all tables

Sums move inwards past the tables that do not hold their variable; the innermost sum makes a new factor,
f_1(...) = sum_{x} (product of the tables with x), which takes the place of these tables. The order decides
how large the factors become, and nothing else. Dividing P(t, e) by its sum over t, which is P(e), gives
P(t | e).

This runs on NumPy tables, one variable at a time, for the eye; ``query`` does the
same in fused steps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.bayesnet.inference.approximate_posterior import Evidence
from trellis.bayesnet.inference.model_factors import Model
from trellis.bayesnet.inference.posterior import Posterior, described
from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.factors.elimination_order import elimination_order
from trellis.factors.tables import Table, marginalise, ordered, product, reduce

CELL_LIMIT = 2**22  # of a shown factor
SHOWN = 16  # cells of a factor that are printed


@dataclass(frozen=True, eq=False)
class Factor:
    """A table with the way it is written, such as ``P(B | A=yes)`` or ``f2(C, D)``."""

    name: str
    variables: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    values: FloatArray

    def lines(self) -> list[str]:
        """One line for each entry, if they are few."""
        if self.values.size > SHOWN:
            return [f"({self.values.size} entries)"]
        cells = np.ndindex(*self.values.shape)
        rows = [(", ".join(axis[i] for axis, i in zip(self.states, c, strict=True)), c) for c in cells]
        width = max(len(name) for name, _ in rows)
        return [f"{name:<{width}}  {self.values[c]:.6g}" for name, c in rows]


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
    joint: FloatArray
    posterior: Posterior

    @property
    def evidence_probability(self) -> float:
        """The sum of the joint: P(evidence) in a Bayesian network."""
        return float(self.joint.sum())

    def __str__(self) -> str:
        asked = ", ".join(self.targets)
        joint = f"P({asked}{f', {self.given}' if self.given else ''})"
        sums = f"sum_{{{', '.join(step.variable for step in reversed(self.steps))}}} " if self.steps else ""
        lines = [f"{joint} = {sums}{' '.join(f.name for f in self.start)}"]
        if self.dropped:
            lines.append(
                f"left out, for no arrows lead from them to targets or evidence: {', '.join(self.dropped)}"
            )
        for number, step in enumerate(self.steps, start=1):
            lines += ["", f"{number}. {step}", *(f"     {line}" for line in step.factor.lines())]
        lines += ["", f"{joint} = {' '.join(f.name for f in self.remaining)}"]
        if self.given:
            lines.append(f"divided by its sum, P({self.given}) = {self.evidence_probability:.6g}:")
        return "\n".join([*lines, "", str(self.posterior)])


def explain_elimination(
    model: Model, targets: str | Sequence[str], evidence: Evidence = None, order: str | Sequence[str] = "best"
) -> Elimination:
    """P(targets | evidence) by variable elimination, step by step.

    ``order``: the variables to be summed out, the innermost sum first, or a heuristic (``"min_fill"``,
    ``"weighted_min_fill"``, ``"min_weight"``, ``"best"``).
    """
    variables = model.variables
    observed = variables.encode(evidence or {})
    asked = tuple(v for v in variables.indices(targets) if v not in observed)
    if not asked:
        raise DataError("there are no unobserved targets; name at least one")
    used, tables = model.relevant([*asked, *observed])
    given = described(variables, observed)
    start = [
        (_name(model, number, table, observed), reduce(table, observed))
        for number, table in enumerate(tables)
    ]
    hidden = sorted({v for _, table in start for v in table.variables}.difference(asked))
    sequence = _sequence(model, [table for _, table in start], hidden, asked, order)
    live = list(start)
    steps = []
    for number, v in enumerate(sequence, start=1):
        touched = [(name, table) for name, table in live if v in table.variables]
        size = math.prod(len(variables.states[u]) for u in {u for _, t in touched for u in t.variables})
        if size > CELL_LIMIT:
            raise UnsupportedError(
                f"summing out {variables.names[v]!r} multiplies tables to {size:,} entries, too many to "
                "show; use query, another order or fewer variables"
            )
        made = marginalise(product(*(table for _, table in touched)), [v])
        made = ordered(made, sorted(made.variables))
        name = f"f{number}({', '.join(variables.names[u] for u in made.variables)})"
        live = [pair for pair in live if not any(pair[1] is table for _, table in touched)] + [(name, made)]
        steps.append(
            EliminationStep(
                variables.names[v],
                tuple(_shown(variables, *pair) for pair in touched),
                _shown(variables, name, made),
            )
        )
    whole = product(Table(asked, np.ones([len(variables.states[v]) for v in asked])), *(t for _, t in live))
    joint = ordered(whole, asked).values
    if not joint.sum() > 0:
        raise InfeasibleError(f"the evidence has probability zero: {given}; change or leave out some of it")
    names = tuple(variables.names[v] for v in asked)
    states = tuple(variables.states[v] for v in asked)
    posterior = Posterior(names, states, joint / joint.sum(), "elimination", given)
    return Elimination(
        tuple(variables.names[v] for v in asked),
        given,
        tuple(name for i, name in enumerate(variables.names) if i not in used),
        tuple(_shown(variables, *pair) for pair in start),
        tuple(steps),
        tuple(_shown(variables, *pair) for pair in live),
        joint,
        posterior,
    )


def _sequence(
    model: Model, tables: list[Table], hidden: list[int], targets: tuple[int, ...], order: str | Sequence[str]
) -> list[int]:
    if isinstance(order, str):
        scopes = [table.variables for table in tables]
        return list(elimination_order(model.cardinalities, scopes, order, keep=targets).variables)
    listed = [model.variables.index(name) for name in order]
    missing = [v for v in hidden if v not in listed]
    if missing:
        raise DataError(
            f"the elimination order leaves out {model.names[missing[0]]!r}; it must hold "
            f"{', '.join(model.names[v] for v in hidden)}"
        )
    if len(set(listed)) != len(listed):
        raise DataError("the elimination order names a variable twice")
    return [v for v in listed if v in hidden]


def _name(model: Model, number: int, table: Table, observed: dict[int, int]) -> str:
    def written(v: int) -> str:
        return f"{model.names[v]}={model.states[v][observed[v]]}" if v in observed else model.names[v]

    parts = [written(v) for v in table.variables]
    if model.directed:
        above = f" | {', '.join(parts[:-1])}" if parts[:-1] else ""
        return f"P({parts[-1]}{above})"
    return f"g{number}({', '.join(parts)})"


def _shown(variables: Variables, name: str, table: Table) -> Factor:
    return Factor(
        name,
        tuple(variables.names[v] for v in table.variables),
        tuple(variables.states[v] for v in table.variables),
        table.values,
    )
