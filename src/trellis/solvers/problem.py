"""What a solver may ask of a problem: capabilities, and properties of its objective.

Every problem is

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2 + l1 ||w||_1

with one ``f_i`` per example and ``c_i`` its sample weight: **sums, not means**, so CRFsuite's ``c2`` is
``l2 / 2`` and the structural SVM's ``C`` is ``1 / l2``. The problem reports the data term alone; the solver
adds the regulariser.

A solver asks for the least that its mathematics needs and runs on every problem that offers it. A problem
may also offer ``compiled_run(solver, weights, rng)``: a run of that solver in compiled code for this very
structure, or ``None`` where it has none; :func:`compiled_run` asks. It must do what the solver's own run over
the capabilities does, only faster.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.objectives.records import Objective, names


class Problem(Protocol):
    """The batch view: enough for quasi-Newton and 1-slack cutting planes."""

    @property
    def l1(self) -> float: ...

    @property
    def l2(self) -> float: ...

    @property
    def convex(self) -> bool:
        """Whether every f_i is convex: certificates hold only then."""

    @property
    def dimension(self) -> int: ...

    @property
    def n_examples(self) -> int: ...

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        """The data term sum_i c_i f_i(w) and a (sub)gradient of it."""


class BatchProblem(Problem, Protocol):
    """A problem whose examples are visited in runs: enough for stochastic gradients."""

    @property
    def objective(self) -> Objective: ...

    @property
    def epsilon(self) -> float:
        """Of the direct objective."""

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        """sum of c_i f_i(w) over the examples first..last-1, and a (sub)gradient of it."""

    def with_(self, **changes: Any) -> BatchProblem:
        """The same problem with another ``epsilon``."""


class ExamplePlaneProblem(Problem, Protocol):
    """A problem whose f_i are visited one by one: an oracle call each."""

    @property
    def sample_weight(self) -> FloatArray:
        """c_i (n,)."""

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        """c_i f_i(w) and its (sub)gradient g (dimension,): where f_i is convex, w' -> value + g . (w' - w)
        bounds c_i f_i from below."""


class PlaneProblem(Problem, Protocol):
    """A problem that gives the planes of all examples at once: enough for n-slack cutting planes."""

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        """Values c_i f_i(w) (n,) and their subgradients, one sparse row per example (n, dimension)."""


_CAPABILITIES = {
    "run_value_and_gradient": "the gradient of a run of examples",
    "example_plane": "the value and gradient of one example",
    "example_planes": "the value and gradient of each example",
    "completed": "the best completion of gold outputs with hidden parts",
}


def compiled_run(
    problem: Any, solver: Any, weights: FloatArray, rng: np.random.Generator, **options: Any
) -> Any:
    """The run in compiled code that ``problem`` offers for ``solver``, or ``None``."""
    offer = getattr(problem, "compiled_run", None)
    return None if offer is None else offer(solver, weights, rng, **options)


def check_problem(
    problem: Any,
    solver: str,
    *capabilities: str,
    l1: bool = False,
    l2: bool = False,
    convex: bool = False,
    piecewise_linear: bool = False,
    smooth: bool = False,
) -> None:
    """Raise :class:`UnsupportedError` for the first thing that ``solver`` needs and ``problem`` lacks.

    ``l1``: the solver can handle an L1 norm. ``l2``: it needs l2 > 0. The others are what it needs of the
    objective; a problem without one, such as a plain function, is taken at its word.
    """
    for name in capabilities:
        if not hasattr(problem, name):
            if hasattr(problem, "shards"):
                other = other_solver(problem)
                same = " with its usual options" if other == solver else ""
                raise UnsupportedError(
                    f"solver {solver!r} needs {_CAPABILITIES[name]}, which data in shards do not give; use "
                    f"solver={other!r}{same}"
                )
            raise UnsupportedError(
                f"solver {solver!r} needs {_CAPABILITIES[name]} ({name}), which "
                f"{type(problem).__name__} does not offer"
            )
    objective = _objective(problem)
    if problem.l1 > 0 and objective is not None and not objective.smooth:
        raise UnsupportedError(
            f"l1={problem.l1}: an L1 norm needs a smooth objective ({names('smooth')}), and "
            f"{objective.name!r} has kinks; set l1=0"
        )
    if problem.l1 > 0 and not l1:
        raise UnsupportedError(f"solver {solver!r} cannot handle an L1 norm (l1 > 0); use solver='owlqn'")
    if objective is not None:
        if piecewise_linear and not (objective.convex and objective.piecewise_linear):
            raise _refusal(problem, solver, "a convex objective made of planes", "is not piecewise linear")
        if smooth and not objective.smooth:
            raise _refusal(
                problem,
                solver,
                "a smooth objective",
                "has kinks, at which it would stop, far from the minimum",
            )
        if (convex or piecewise_linear) and not objective.convex:
            raise _refusal(problem, solver, "a convex objective", "is not convex")
    if (convex or piecewise_linear) and not problem.convex:
        hidden = getattr(problem, "latent", False)
        why = "is not convex where parts of the gold outputs are unknown" if hidden else "is not convex here"
        if not getattr(problem, "exact", True):
            why = "is not convex over a list of candidates"
        raise _refusal(problem, solver, "a convex objective", why)
    if l2 and not problem.l2 > 0:
        raise UnsupportedError(
            f"solver {solver!r} needs l2 > 0, by which it divides; set l2, or use "
            f"solver={other_solver(problem)!r}"
        )


def _objective(problem: Any) -> Objective | None:
    objective = getattr(problem, "objective", None)
    return objective if isinstance(objective, Objective) else None


def _refusal(problem: Any, solver: str, needed: str, obstacle: str) -> UnsupportedError:
    objective = _objective(problem)
    name = "this one" if objective is None else repr(objective.name)
    return UnsupportedError(
        f"solver {solver!r} needs {needed}; {name} {obstacle}; use solver={other_solver(problem)!r}"
    )


def other_solver(problem: Any) -> str:
    """A solver that suits the problem."""
    objective = _objective(problem)
    if not getattr(problem, "exact", True):
        return "minibatch"
    if objective is None or objective.smooth:
        return "owlqn" if problem.l1 > 0 else "lbfgs"
    if objective.piecewise_linear and not objective.uses_loss:
        return "perceptron"
    if not objective.convex or not problem.l2 > 0:
        return "sgd"
    if not objective.piecewise_linear:
        return "cutting_plane" if problem.convex else "adagrad"
    if not problem.convex:
        return "subgradient"
    return "cutting_plane" if hasattr(problem, "shards") else "frank_wolfe"
