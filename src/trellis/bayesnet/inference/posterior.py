"""The answers of inference: distributions and the most probable assignment, with names on all axes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from typing import Any

import numpy as np

from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.share_intervals import Tally

MOST_CELLS = 64  # of a distribution that are printed
MOST_OBSERVED = 12  # variables that are named


@dataclass(frozen=True, eq=False)
class Posterior:
    """P(targets | evidence), with one axis of ``values`` for each target."""

    targets: tuple[str, ...]
    states: tuple[tuple[str, ...], ...]
    values: FloatArray
    method: str
    given: str = ""  # the evidence as text

    approximate = False

    def __getitem__(self, states: Any) -> float:
        """The probability of a state, or of a tuple of states with several targets."""
        return float(self.values[self._place(states)])

    def as_dict(self) -> dict[Any, float]:
        """``{state: probability}``; with several targets the keys are tuples of states."""
        cells = zip(product(*self.states), self.values.ravel().tolist(), strict=True)
        return {cell if len(cell) > 1 else cell[0]: value for cell, value in cells}

    @property
    def best(self) -> Any:
        """The most probable state, or tuple of states; the first of equals."""
        place = np.unravel_index(int(np.argmax(self.values)), self.values.shape)
        names = tuple(axis[i] for axis, i in zip(self.states, place, strict=True))
        return names if len(names) > 1 else names[0]

    def _place(self, states: Any) -> tuple[int, ...]:
        given = states if isinstance(states, tuple) else (states,)
        if len(given) != len(self.targets):
            raise KeyError(f"give one state for each of {', '.join(self.targets)}")
        variables = Variables(self.targets, self.states)
        return tuple(variables.code(i, state) for i, state in enumerate(given))

    def _numbers(self) -> Iterator[str]:
        """The numbers of all cells as they are printed."""
        return (f"{value:.6g}" for value in self.values.ravel().tolist())

    def __str__(self) -> str:
        cells = [", ".join(cell) for cell in islice(product(*self.states), MOST_CELLS)]
        width = max(map(len, cells))
        lines = [f"P({', '.join(self.targets)}{f' | {self.given}' if self.given else ''})"]
        lines += [f"  {cell:<{width}}  {n}" for cell, n in zip(cells, self._numbers(), strict=False)]
        if self.values.size > MOST_CELLS:
            lines.append(f"  ... {self.values.size - MOST_CELLS:,} more")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class ApproximatePosterior(Posterior):
    """An estimate of P(targets | evidence) with standard errors, one for each cell: see ``estimates``.

    ``diagnostics`` holds the figures of the method (accepted samples, effective sample size, R-hat, ...), and
    ``report`` says in one sentence what they mean. Loopy belief propagation has no known error on a graph
    with cycles: NaN.
    """

    standard_errors: FloatArray = field(kw_only=True)
    report: str = field(kw_only=True)
    diagnostics: Mapping[str, Any] = field(kw_only=True)
    tally: Tally | None = field(kw_only=True, default=None)  # of a sampler: what intervals rest upon

    approximate = True

    def standard_error(self, states: Any) -> float:
        return float(self.standard_errors[self._place(states)])

    def interval(self, states: Any, z: float = 1.96) -> tuple[float, float]:
        """An interval that holds the probability in at least 95% of all runs, at ``z`` = 1.96: see
        ``trellis.core.share_intervals``. Without samples it is the value itself if that is exact, and 0 to 1
        if not."""
        if not z > 0.0:
            raise DataError(f"z is {z!r}; give a positive number, such as 1.96 for 95% confidence")
        place = self._place(states)
        if self.tally is None:
            value = float(self.values[place])
            return (value, value) if self.standard_errors[place] == 0.0 else (0.0, 1.0)
        low, high = Tally(*(np.asarray(part[place]) for part in self.tally)).interval(z)
        return float(low), float(high)

    def _numbers(self) -> Iterator[str]:
        """With four decimals, or as many as the smallest error needs to show two digits, within reason."""
        known = self.standard_errors[self.standard_errors > 1e-8]
        d = int(np.clip(1 - np.floor(np.log10(known.min(initial=1.0))), 4, 8))
        for value, error in zip(self.values.ravel(), self.standard_errors.ravel(), strict=True):
            yield f"{value:.{d}f}" if np.isnan(error) else f"{value:.{d}f} +/- {error:.{d}f}"

    def __str__(self) -> str:
        header, _, cells = super().__str__().partition("\n")
        return f"{header}, approximate ({self.method})\n{cells}\n{self.report}"


class MostProbableAssignment(dict[str, str]):
    """The assignment of all variables that is most probable given the evidence: a dictionary of states.

    ``log_probability`` is log p(assignment, evidence) in a Bayesian network; in a factor graph the log of the
    product of all factors. ``log_posterior`` is log p(assignment | evidence), NaN where P(evidence) would
    need more memory than allowed. ``method`` found it; ``exact`` says whether it is proved to be the most
    probable one, and ``bound`` is an upper bound of ``log_probability`` over all assignments. ``report`` is
    one sentence.
    """

    def __init__(
        self,
        states: Mapping[str, str],
        log_probability: float,
        log_posterior: float,
        *,
        method: str = "junction_tree",
        bound: float | None = None,
        exact: bool = True,
        report: str = "a direct method",
    ) -> None:
        super().__init__(states)
        self.log_probability, self.log_posterior = log_probability, log_posterior
        self.method, self.exact, self.report = method, exact, report
        self.bound = log_probability if bound is None else bound

    def __str__(self) -> str:
        pairs = ", ".join(f"{name}={state}" for name, state in self.items())
        proof = "" if self.exact else f", not proved to be the largest: {self.report}"
        return f"{pairs}  (log-probability {self.log_probability:.6g}{proof})"


def describe_evidence(variables: Variables, evidence: Mapping[int, int], soft: Sequence[int] = ()) -> str:
    """Evidence as text: ``A=yes, B=no``, with ``C~`` for soft evidence on C; the first of much evidence."""
    parts = [f"{variables.names[v]}={variables.states[v][code]}" for v, code in evidence.items()]
    parts += [f"{variables.names[v]}~" for v in soft]
    more = [f"{len(parts) - MOST_OBSERVED} more"] if len(parts) > MOST_OBSERVED else []
    return ", ".join(parts[:MOST_OBSERVED] + more)
