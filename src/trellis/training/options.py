"""The parameters of an estimator, checked before any work is done, and the objects that they name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.errors import DataError, UnsupportedError
from trellis.losses.labelings import Loss, get_loss
from trellis.objectives.records import Objective, get_objective
from trellis.solvers import Solver, get_solver

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler


_TO_THE_MINIMUM = ("cutting_plane", "frank_wolfe")


@dataclass(frozen=True, eq=False)
class Options:
    """What to minimise and how; ``solver`` is ``None`` where it is left to :func:`automatic_solver`, which
    gives it the options ``stopping``: ``tol``, ``delta`` and ``period``, None for the solver's own.
    ``max_iter``: what a schedule of passes is made for."""

    objective: Objective
    loss: Loss
    solver: Solver | None
    stopping: Mapping[str, float | None] = field(default_factory=dict)
    max_iter: int | None = None


def check_minimum(objective: Objective, solver: Solver | None) -> None:
    """Refuse solvers that go all the way to a minimum at w = 0."""
    no_margin = objective.convex and not objective.smooth and not objective.uses_loss
    if no_margin and solver is not None and solver.name in _TO_THE_MINIMUM:
        raise UnsupportedError(
            f"the {objective.name} objective with an L2 norm has its minimum at w = 0, which is where "
            f"{solver.name!r} would end; use solver='perceptron'"
        )


def checked_options(model: SequenceLabeler) -> Options:
    """The objects behind the names; a value that cannot be used is an error that names its parameter."""
    model._check_parameters()
    automatic = isinstance(model.solver, str) and model.solver == "auto"
    record = not isinstance(model.solver, type) and hasattr(model.solver, "start")
    if not isinstance(model.solver, str) and not record:
        raise DataError(f"solver={model.solver!r}: give a name or an object of trellis.solvers")
    stopping = {"tol": model.tol, "delta": model.delta, "period": model.period}
    solver = None if automatic else get_solver(model.solver, **stopping)
    objective = get_objective(model.objective)
    check_minimum(objective, solver)
    return Options(objective, get_loss(model.loss), solver, stopping, model.max_iter)


def automatic_solver(
    options: Options,
    l2: float,
    l1: float,
    *,
    convex: bool,
    latent: bool = False,
    online: bool = False,
    large_planes: bool = False,
) -> Solver:
    """The solver that suits the problem, one with a certificate where there is one; ``latent``: labels have
    latent states. ``online`` asks for one that takes its data in pieces. ``large_planes``: that of an example
    takes as much memory as the weights, so that a solver that keeps some of each needs too much.
    """
    objective = options.objective
    margins = objective.margin_rescaling and options.loss.kind == "costs"
    if objective.fine_tuned and not online:
        return fine_tuning(options.max_iter, **options.stopping)
    if objective.special == "own" or (objective.uses_loss and options.loss.kind == "candidates"):
        name = "minibatch"
    elif objective.piecewise_linear and not objective.uses_loss:
        name = "perceptron"
    elif objective.two_labelings and not objective.convex:  # Pegasos would undo where these begin
        name = "sgd"
    elif objective.smooth:
        name = "adagrad" if online else "owlqn" if l1 > 0 else "lbfgs"
    elif latent and not online and l2 > 0 and l1 == 0 and margins:
        name = "cccp"
    elif l2 > 0 and convex and not online:
        name = "frank_wolfe" if objective.piecewise_linear and not large_planes else "cutting_plane"
    elif l2 > 0 and objective.lipschitz:
        name = "subgradient"
    else:
        name = "sgd" if objective.lipschitz else "adagrad"
    return get_solver(name, **options.stopping)


def fine_tuning(max_iter: int | None, **stopping: float | None) -> Solver:
    """The solver of ``Direct(epsilon="auto")``, with a schedule of ``max_iter`` passes, None for its own."""
    from trellis.solvers import FineTuning

    solver = FineTuning() if max_iter is None else FineTuning(passes=max_iter)
    return get_solver(solver, **stopping)


def draw_seed(random_state: Any) -> int:
    """One seed for everything random in a fit, from scikit-learn's kinds of ``random_state`` or a numpy
    ``Generator``."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if random_state is None or random_state is np.random:
        return int(np.random.randint(2**31 - 1))  # as in scikit-learn: numpy.random.seed fixes it
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 2**32:
        raise DataError(
            f"random_state is {random_state!r}; give a whole number of at least 0, a numpy Generator or None"
        )
    return int(np.random.RandomState(random_state).randint(2**31 - 1))
