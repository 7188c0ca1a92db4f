"""What a solver is: a small frozen record of options that starts a run on a problem.

``solver.start(problem, weights, rng)`` gives a *run*, which the driver asks to ``step()`` until its
``status()`` is no longer ``None``. One step is one iteration of a batch solver or one pass over the data of
an online one; it returns what it measured (``objective``, ``gap``, ``gradient_norm``, ``mistakes``, ...).

Running out of iterations is never "converged": :class:`Status` says what happened and what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.status import Status


class Steps(Protocol):
    """What the driver needs of a run.

    A run may also have ``begin() -> Mapping[str, float]``, called once before the first step, if its starting
    point is to be measured: these measurements head the history.
    """

    def step(self) -> Mapping[str, float]:
        """One iteration or pass; returns measurements for the history."""

    def status(self) -> Status | None:
        """``None`` while there is more to do; looked at after each step."""


class Run(Steps, Protocol):
    """The state of a solver at work."""

    @property
    def weights(self) -> FloatArray:
        """The answer so far (the averaged weights, where the solver averages)."""


class Solver(Protocol):
    """A record of options that can start a run on a problem.

    Examples
    --------
    >>> from trellis.solvers import LBFGS, Solver
    >>> solver: Solver = LBFGS(memory=5)
    >>> solver.name
    'lbfgs'
    """

    @property
    def name(self) -> str: ...

    def start(self, problem: Any, weights: FloatArray, rng: np.random.Generator) -> Run: ...


@dataclass(kw_only=True)
class Trace:
    """What the driver noted of a run: ``history[key]`` has one measurement per iteration.

    ``interrupted``: by Ctrl-C, so whoever tries several starts should end with this one.
    """

    status: Status
    history: dict[str, list[float]] = field(default_factory=dict)
    n_iter: int = 0
    interrupted: bool = False


@dataclass(kw_only=True)
class Solution(Trace):
    """The weights that a solver returns, and how it got there.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.solvers import Solution
    >>> from trellis.core.status import Status
    >>> solution = Solution(status=Status(True, "the gradient is small"), weights=np.zeros(3), n_iter=4)
    >>> solution.n_iter, solution.interrupted
    (4, False)
    """

    weights: FloatArray
