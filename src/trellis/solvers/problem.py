"""What a solver may ask of a problem.

Every problem is

    min_w  sum_i c_i f_i(w) + (l2 / 2) ||w||^2 + l1 ||w||_1

with one ``f_i`` per example and ``c_i`` its sample weight: **sums, not means**, so CRFsuite's ``c2`` is
``l2 / 2`` and the structural SVM's ``C`` is ``1 / l2``. The problem reports the data term alone; the solver
adds the regulariser.
"""

from __future__ import annotations

from typing import Any, Protocol

from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.objectives.records import Objective


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


class PlaneProblem(Problem, Protocol):
    """A problem whose f_i are maxima of affine functions: n-slack cutting planes ask for one each."""

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        """Values c_i f_i(w) (n,) and their subgradients, one sparse row per example (n, dimension).

        The plane of example i is  w' -> values[i] + rows[i] . (w' - w), a lower bound on c_i f_i.
        """


class ExamplePlaneProblem(Problem, Protocol):
    """A problem whose f_i are visited one by one: an oracle call each."""

    @property
    def objective(self) -> Objective: ...

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        """c_i f_i(w) and its subgradient g (dimension,): w' -> value + g . (w' - w) bounds c_i f_i below."""


def example_plane_problem(problem: Any, solver: str) -> ExamplePlaneProblem:
    """The problem as given, if it has planes of single examples, is convex and has no L1 norm."""
    if not hasattr(problem, "example_plane"):
        raise UnsupportedError(
            f"solver {solver!r} needs a problem that gives the plane of one example, as segmentations do; "
            "use solver='minibatch' for this one"
        )
    if problem.l1 > 0:
        raise UnsupportedError(f"solver {solver!r} cannot handle an L1 norm (l1 > 0); use solver='owlqn'")
    if not (problem.objective.piecewise_linear and problem.convex):
        remedy = "lbfgs" if problem.convex else "minibatch"
        raise UnsupportedError(
            f"solver {solver!r} needs a convex objective made of planes such as 'margin', not "
            f"{problem.objective.name!r}; use solver={remedy!r}"
        )
    result: ExamplePlaneProblem = problem
    return result
