"""The answers of approximate inference: marked as such, with error bars and what the method says of itself.

Standard errors are those of the estimated probabilities, one for each cell. A sampler that never met a cell
(or met nothing else) would report an error of zero; for such cells the error is that of a proportion under
Jeffreys' prior instead,

    se = sqrt(q (1 - q) / (m + 2)),    q = (m p + 1/2) / (m + 1),    m = effective sample size,

which is about 0.7 / m at p = 0. Loopy belief propagation has no known error on a graph with cycles: NaN.

Two standard errors to both sides are too little for a cell that was met a few times only. ``interval`` is
Wilson's instead, of a proportion p of as many independent samples as have the same standard error:

    (p + z^2 / 2m  +-  z sqrt(p (1 - p) / m + z^2 / 4m^2)) / (1 + z^2 / m),      m = p (1 - p) / se^2

with m = the effective sample size where p is 0 or 1.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.inference.model_factors import Model, encode_likelihoods
from trellis.bayesnet.inference.posterior import described
from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.factors.flat_factors import FlatFactors, flatten
from trellis.factors.tables import Table

Targets = str | Sequence[str] | None  # one variable, several jointly, or each unobserved variable by itself
Evidence = Mapping[str, Any] | None
Likelihoods = Mapping[str, Any] | None  # soft evidence: variable -> one likelihood for each state
CELL_LIMIT = 2**18  # of a joint answer: more cells than samples would tell nothing, in gigabytes
SHOWN = 64  # cells of a distribution that are printed


class ApproximationWarning(UserWarning):
    """An approximate answer that should not be relied upon: says why and what to do."""


@dataclass(frozen=True, eq=False)
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
    given: str = ""  # the evidence as text

    approximate = True

    def __getitem__(self, states: Any) -> float:
        """The probability of a state, or of a tuple of states: ``answer["yes"]``."""
        return float(self.values[self._place(states)])

    def standard_error(self, states: Any) -> float:
        return float(self.standard_errors[self._place(states)])

    def interval(self, states: Any, z: float = 1.96) -> tuple[float, float]:
        """Where the probability lies, with 95% confidence at ``z`` = 1.96: see the head of this module."""
        place = self._place(states)
        p, error = float(self.values[place]), float(self.standard_errors[place])
        if np.isnan(error):
            return 0.0, 1.0
        if error == 0.0:
            return p, p
        spread = p * (1.0 - p)
        m = spread / error**2 if spread > 0.0 else self.diagnostics["effective_sample_size"]
        centre, half = p + z**2 / (2 * m), z * math.sqrt(spread / m + (z / (2 * m)) ** 2)
        return max(0.0, (centre - half) / (1 + z**2 / m)), min(1.0, (centre + half) / (1 + z**2 / m))

    def as_dict(self) -> dict[Any, float]:
        """``{state: probability}``; with several targets the keys are tuples of states."""
        cells = np.ndindex(*self.values.shape)
        names = (tuple(axis[i] for axis, i in zip(self.states, cell, strict=True)) for cell in cells)
        flat = zip(names, self.values.ravel().tolist(), strict=True)
        return {name if len(name) > 1 else name[0]: value for name, value in flat}

    @property
    def best(self) -> Any:
        """The most probable state, or tuple of states; the first of equals."""
        cell = np.unravel_index(int(np.argmax(self.values)), self.values.shape)
        names = tuple(axis[i] for axis, i in zip(self.states, cell, strict=True))
        return names if len(names) > 1 else names[0]

    def _place(self, states: Any) -> tuple[int, ...]:
        given = states if isinstance(states, tuple) else (states,)
        variables = Variables(self.targets, self.states)
        if len(given) != len(self.targets):
            raise KeyError(f"give one state for each of {', '.join(self.targets)}")
        return tuple(variables.code(i, state) for i, state in enumerate(given))

    def __str__(self) -> str:
        cells = itertools.islice(itertools.product(*self.states), SHOWN)
        names = [", ".join(cell) for cell in cells]
        width = max(len(name) for name in names)
        given = f" | {self.given}" if self.given else ""
        lines = [f"P({', '.join(self.targets)}{given}), approximate ({self.method})"]
        rows = zip(names, self.values.ravel().tolist(), self.standard_errors.ravel().tolist(), strict=False)
        d = self._decimals()
        for name, value, error in rows:
            bar = "" if np.isnan(error) else f" +/- {error:.{d}f}"
            lines.append(f"  {name:<{width}}  {value:.{d}f}{bar}")
        if self.values.size > SHOWN:
            lines.append(f"  ... {self.values.size - SHOWN:,} more")
        return "\n".join([*lines, self.report])

    def _decimals(self) -> int:
        """Four, or as many as the smallest error needs to show two digits, within reason."""
        known = self.standard_errors[self.standard_errors > 1e-8]
        return int(np.clip(1 - np.floor(np.log10(known.min(initial=1.0))), 4, 8))


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
                described(self.variables, self.evidence, list(self.likelihoods)),
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
