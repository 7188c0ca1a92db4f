"""The answers of approximate inference: marked as such, with error bars and what the method says of itself.

Standard errors are those of the estimated probabilities, one for each cell. A sampler that never met a cell
(or met nothing else) would report an error of zero; for such cells the error is that of a proportion under
Jeffreys' prior instead,

    se = sqrt(q (1 - q) / (m + 2)),    q = (m p + 1/2) / (m + 1),    m = effective sample size,

which is about 0.7 / m at p = 0. Loopy belief propagation has no known error on a graph with cycles: NaN.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.flat_factors import FlatFactors, Model, encode_likelihoods, flatten
from trellis.bayesnet.variables import Variables
from trellis.errors import DataError, UnsupportedError
from trellis.inference.factors import Table

FloatArray = NDArray[np.float64]
Targets = str | Sequence[str] | None  # one variable, several jointly, or each unobserved variable by itself
Evidence = Mapping[str, Any] | None
Likelihoods = Mapping[str, Any] | None  # soft evidence: variable -> one likelihood for each state
CELL_LIMIT = 2**24  # of a joint answer: more cells than samples would tell nothing


class ApproximationWarning(UserWarning):
    """An approximate answer that should not be relied upon: says why and what to do."""


@dataclass(frozen=True)
class ApproximateMarginals:
    """An estimate of P(targets | evidence), with one axis for each target.

    ``diagnostics`` holds the figures of the method (accepted samples, effective sample size, R-hat, ...), and
    ``report`` says in one sentence what they mean.
    """

    targets: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    values: FloatArray
    standard_errors: FloatArray
    method: str
    report: str
    diagnostics: Mapping[str, Any] = field(default_factory=dict)

    approximate = True

    def __getitem__(self, states: Any) -> float:
        """The probability of a state, or of a tuple of states: ``answer["yes"]``."""
        return float(self.values[self._place(states)])

    def standard_error(self, states: Any) -> float:
        return float(self.standard_errors[self._place(states)])

    def interval(self, states: Any, z: float = 1.96) -> tuple[float, float]:
        """The probability plus and minus ``z`` standard errors, cut to [0, 1]."""
        place = self._place(states)
        value, error = float(self.values[place]), float(self.standard_errors[place])
        return max(0.0, value - z * error), min(1.0, value + z * error)

    def as_dict(self) -> dict[Any, float]:
        """``{state: probability}``; with several targets the keys are tuples of states."""
        cells = np.ndindex(*self.values.shape)
        names = (tuple(axis[i] for axis, i in zip(self.states, cell, strict=True)) for cell in cells)
        flat = zip(names, self.values.ravel().tolist(), strict=True)
        return {name if len(name) > 1 else name[0]: value for name, value in flat}

    def _place(self, states: Any) -> tuple[int, ...]:
        given = states if isinstance(states, tuple) else (states,)
        variables = Variables(self.targets, self.states)
        if len(given) != len(self.targets):
            raise KeyError(f"give one state for each of {', '.join(self.targets)}")
        return tuple(variables.code(i, state) for i, state in enumerate(given))

    def __str__(self) -> str:
        rows = zip(self.as_dict().items(), self.standard_errors.ravel().tolist(), strict=True)
        lines = [f"P({', '.join(self.targets)} | evidence), approximate ({self.method})"]
        for (key, value), error in rows:
            name = ", ".join(key) if isinstance(key, tuple) else key
            bar = "" if np.isnan(error) else f" +/- {error:.4f}"
            lines.append(f"  {name:<20} {value:.4f}{bar}")
        return "\n".join([*lines, self.report])


Answer = ApproximateMarginals | dict[str, ApproximateMarginals]


class Question:
    """Targets and evidence in numbers; ``answer`` turns flat estimates back into names.

    ``cells`` lays the cells of all scopes side by side: scope s has ``cells.value_start[s]`` and the rest.
    """

    def __init__(self, model: Model, targets: Targets, evidence: Evidence, likelihoods: Likelihoods) -> None:
        self.variables = model.variables
        self.evidence = model.variables.encode(evidence or {})
        self.likelihoods = encode_likelihoods(model.variables, likelihoods)
        self._each = targets is None
        if targets is None:
            free = [i for i in range(len(self.variables)) if i not in self.evidence]
            self.scopes: list[tuple[int, ...]] = [(i,) for i in free]
        else:
            self.scopes = [self.variables.indices(targets)]
            if not self.scopes[0]:
                raise DataError("there are no targets; name at least one variable")
        self.cells: FlatFactors = flatten(
            self.variables.cardinalities, [Table(scope, self._zeros(scope)) for scope in self.scopes]
        )

    @property
    def n_cells(self) -> int:
        return int(self.cells.value_start[-1])

    @property
    def targets(self) -> list[int] | None:
        """The variables that are asked for; None stands for all."""
        return None if self._each else list(self.scopes[0])

    def sums(self, flat: FloatArray) -> FloatArray:
        """For each cell, the sum over the cells of its scope."""
        starts, sizes = self.cells.value_start[:-1], np.diff(self.cells.value_start)
        totals: FloatArray = np.repeat(np.add.reduceat(flat, starts), sizes) if len(starts) else flat
        return totals

    def certain(self) -> NDArray[np.bool_]:
        """Cells of scopes in which nothing is uncertain: all observed, or with one state."""
        return np.concatenate(
            [
                np.full(size, known)
                for size, known in zip(np.diff(self.cells.value_start), self._known(), strict=True)
            ]
            or [np.zeros(0, dtype=np.bool_)]
        )

    def answer(
        self,
        values: FloatArray,
        errors: FloatArray,
        method: str,
        report: str,
        diagnostics: Mapping[str, Any],
    ) -> Answer:
        errors = np.where(self.certain(), 0.0, errors)
        answers = [
            ApproximateMarginals(
                tuple(self.variables.names[v] for v in scope),
                tuple(self.variables.states[v] for v in scope),
                values[start:end].reshape([len(self.variables.states[v]) for v in scope]),
                errors[start:end].reshape([len(self.variables.states[v]) for v in scope]),
                method,
                report,
                diagnostics,
            )
            for scope, start, end in zip(
                self.scopes, self.cells.value_start, self.cells.value_start[1:], strict=False
            )
        ]
        return {found.targets[0]: found for found in answers} if self._each else answers[0]

    def _known(self) -> list[bool]:
        sizes = self.variables.cardinalities
        return [all(v in self.evidence or sizes[v] == 1 for v in scope) for scope in self.scopes]

    def _zeros(self, scope: tuple[int, ...]) -> FloatArray:
        shape = [len(self.variables.states[v]) for v in scope]
        if math.prod(shape) > CELL_LIMIT:
            raise UnsupportedError(
                f"the joint distribution of {len(scope)} targets has {math.prod(shape):,} cells, and the "
                f"limit is {CELL_LIMIT:,}; ask for fewer targets at once"
            )
        return np.zeros(shape)


def unseen_cells(values: FloatArray, errors: FloatArray, effective: FloatArray | float) -> FloatArray:
    """``errors``, with the formula above at cells of probability 0 or 1."""
    q = (effective * values + 0.5) / (effective + 1.0)
    bound = np.sqrt(q * (1.0 - q) / (effective + 2.0))
    certain = (values <= 0.0) | (values >= 1.0)
    return np.where(certain, bound, errors)
