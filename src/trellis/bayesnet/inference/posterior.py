"""The answers of exact inference: distributions, the most probable assignment, with names on all axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.bayesnet.model.variables import Variables
from trellis.core.arrays import FloatArray

SHOWN = 64  # cells of a distribution that are printed
NAMED = 12  # observed variables that are named


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
        given = states if isinstance(states, tuple) else (states,)
        if len(given) != len(self.targets):
            raise KeyError(f"give one state for each of {', '.join(self.targets)}")
        variables = Variables(self.targets, self.states)
        return float(self.values[tuple(variables.code(i, state) for i, state in enumerate(given))])

    def as_dict(self) -> dict[Any, float]:
        """``{state: probability}``; with several targets the keys are tuples of states."""
        names = [
            tuple(axis[i] for axis, i in zip(self.states, cell, strict=True))
            for cell in np.ndindex(*self.values.shape)
        ]
        flat = zip(names, self.values.ravel().tolist(), strict=True)
        return {name if len(name) > 1 else name[0]: value for name, value in flat}

    @property
    def best(self) -> Any:
        """The most probable state, or tuple of states; the first of equals."""
        cell = np.unravel_index(int(np.argmax(self.values)), self.values.shape)
        names = tuple(axis[i] for axis, i in zip(self.states, cell, strict=True))
        return names if len(names) > 1 else names[0]

    def __str__(self) -> str:
        cells = list(self.as_dict().items())
        lines = [f"P({', '.join(self.targets)}{f' | {self.given}' if self.given else ''})"]
        rows = [(", ".join(key) if isinstance(key, tuple) else key, value) for key, value in cells[:SHOWN]]
        width = max(len(name) for name, _ in rows)
        lines += [f"  {name:<{width}}  {value:.6g}" for name, value in rows]
        if len(cells) > SHOWN:
            lines.append(f"  ... {len(cells) - SHOWN} more")
        return "\n".join(lines)


@dataclass(frozen=True)
class MostProbable(Mapping[str, str]):
    """The assignment of all variables that is most probable given the evidence: a mapping from name to state.

    ``log_probability`` is log p(assignment, evidence) in a Bayesian network; in a factor graph the log of the
    product of all factors. ``log_posterior`` is log p(assignment | evidence).
    """

    states: dict[str, str]
    log_probability: float
    log_posterior: float

    def __getitem__(self, name: str) -> str:
        return self.states[name]

    def __iter__(self) -> Any:
        return iter(self.states)

    def __len__(self) -> int:
        return len(self.states)

    def __str__(self) -> str:
        listed = ", ".join(f"{name}={state}" for name, state in self.states.items())
        return f"{listed}  (log-probability {self.log_probability:.6g})"


def described(variables: Variables, evidence: Mapping[int, int], soft: Sequence[int] = ()) -> str:
    """Evidence as text: ``A=yes, B=no``, with ``C~`` for soft evidence on C; the first of much evidence."""
    parts = [f"{variables.names[v]}={variables.states[v][code]}" for v, code in evidence.items()]
    parts += [f"{variables.names[v]}~" for v in soft]
    more = [f"{len(parts) - NAMED} more"] if len(parts) > NAMED else []
    return ", ".join(parts[:NAMED] + more)
