"""From a problem and a solver to trained weights: warm starts, the search for epsilon, early stopping.

Objectives that are not convex start from the weights of one that is (``Objective.starts_from``): from w = 0
they end at whatever is near, such as the most frequent label for every step.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.progress import OnIteration, progress_bar
from trellis.core.status import INTERRUPTED, Status
from trellis.objectives.records import Objective, Perceptron
from trellis.objectives.special_cases import Direct
from trellis.objectives.update_shares import update_shares
from trellis.solvers import Solution, Solver, default_iterations, get_solver
from trellis.training.checkpoints import Checkpoints
from trellis.training.direct_recipe import L2_FACTORS, Fold, Parts, Steps, fine_tune
from trellis.training.driver import EarlyStopping, minimise

NEAR = 0.01  # of the objective, from its minimum: as near as a start needs to be

SolverFactory = Callable[[float, FloatArray], Solver]  # from epsilon and the weights to start from


class TrainingWarning(UserWarning):
    """Training ended, but with nothing to show for it; says what to do.

    Examples
    --------
    >>> from trellis.training import TrainingWarning
    >>> issubclass(TrainingWarning, UserWarning)
    True
    """


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What to minimise first where w = 0 gives an objective nothing to hold on to.

    ``solver``: None is that of the fit, with its iterations, hold-out set and epsilon. ``problem``: None is
    that of the fit, with this objective. ``max_iter``: None is the solver's own limit. ``surrogate(problem,
    l2)``: the like of ``problem`` for the examples of another one; None asks that one for it.
    """

    objective: Objective
    solver: Solver | None = None
    max_iter: int | None = None
    problem: Any = None
    surrogate: Callable[[Any, float], Any] | None = None

    def of(self, problem: Any, factor: float) -> Any:
        """What to minimise for the examples of ``problem``, with ``factor`` times the l2."""
        if self.problem is None:
            return problem.with_(objective=self.objective, l1=0.0)
        l2 = factor * self.problem.l2
        if self.surrogate is not None:
            return self.surrogate(problem, l2)
        return problem.surrogate(self.objective, l2).with_(l1=self.problem.l1)


@dataclass(frozen=True, eq=False)
class Training:
    """The solution, and the epsilon of the direct objective; ``epsilon_losses``: the hold-out loss of each
    candidate, where epsilon was searched."""

    solution: Solution
    epsilon: float | None = None
    epsilon_losses: dict[float, float] | None = None


@dataclass(frozen=True, eq=False)
class _How:
    """What all runs of a training share: see :func:`train`."""

    seed: int
    show: bool | OnIteration | None
    keep_interrupted: bool
    checkpoints: Checkpoints | None


def convex_start(problem: Any, l2: float) -> WarmStart | None:
    """The minimum of the convex objective that this one starts from; None where it starts from w = 0.

    ``l2`` is that of the estimator, also where the problem has none because its objective is scale-free.
    L-BFGS or OWL-QN go near the minimum of a smooth objective (``NEAR``), Frank-Wolfe (for data in shards:
    cutting planes) to that of the margin, however few iterations the fit itself may have. Where the latter
    needs more than there is (l2 > 0, known labels), the solver of the fit does its best.
    """
    surrogate = problem.objective.starts_from
    if surrogate is None:
        return None
    first = problem.surrogate(surrogate, l2)
    if first.objective.smooth:
        solver = get_solver("owlqn" if first.l1 > 0 else "lbfgs", delta=NEAR / 10)  # in ten iterations
        return WarmStart(first.objective, solver, problem=first)
    if first.convex and first.l2 > 0:
        first = first.with_(l1=0.0)
        solver = get_solver("frank_wolfe" if hasattr(first, "example_plane") else "cutting_plane")
        return WarmStart(first.objective, solver, problem=first)
    return WarmStart(surrogate)


def latent_start(objective: Objective, solver: Solver, max_iter: int | None = None) -> WarmStart | None:
    """Objectives that are differences of two labellings look at the best hidden parts only, and at w = 0 (or
    at random weights) those mean nothing: start from the latent perceptron."""
    if not objective.two_labelings or isinstance(objective, Perceptron):
        return None
    return WarmStart(Perceptron(), solver, max_iter)


def train(
    problem: Any,
    solver: Solver | SolverFactory,
    start: FloatArray,
    *,
    max_iter: int | None,
    seed: int,
    held_out: Callable[[FloatArray], float] | None = None,
    patience: int = 5,
    show: bool | OnIteration | None = None,
    warm_start: WarmStart | None = None,
    early: bool = True,
    keep_interrupted: bool = False,
    parts: Parts | None = None,
    other_starts: Sequence[WarmStart] = (),
    checkpoints: Checkpoints | None = None,
) -> Training:
    """Run the solver; for ``Direct(epsilon="holdout")`` once for each candidate epsilon, keeping the one with
    the smallest hold-out loss (the smaller epsilon among equals).

    ``held_out``: the hold-out loss at given weights. It stops training early if ``early``, and always chooses
    among epsilons. ``max_iter``: None is the solver's own limit. ``show``: a progress bar
    (:func:`~trellis.core.progress.progress_bar`). ``keep_interrupted``: see
    :func:`trellis.training.driver.drive`; Ctrl-C in a warm start, or in the search for epsilon, ends it all.
    ``parts``: what ``Direct(epsilon="auto")`` holds out (:mod:`trellis.training.direct_recipe`), and
    ``other_starts`` what it may start from in place of ``warm_start``; without them ``held_out`` alone says
    when to stop. ``checkpoints``: where each of these runs is a stage.
    """
    stopping = None if held_out is None or not early else EarlyStopping(held_out, patience)
    if warm_start is not None and not callable(solver):
        # a solver that does not suit the objective says so before the warm start, not about it
        solver.start(problem, start.copy(), np.random.default_rng(seed))
    how = _How(seed, show, keep_interrupted, checkpoints)
    if problem.objective.fine_tuned:
        if parts is None and held_out is not None:
            one = Fold(problem, None, lambda weights: np.array([held_out(weights)]), np.ones(1))
            parts = Parts([one])
        starts = [] if warm_start is None else [warm_start, *other_starts]
        return _fine_tune(problem, solver, start, max_iter, starts, parts, how)
    began = "" if warm_start is None else f" from {warm_start.objective.name}"
    if warm_start is not None and warm_start.solver is not None:
        warm = warm_start.problem or problem.with_(objective=warm_start.objective, l1=0.0)
        first = _run(warm, warm_start.solver, warm_start.max_iter, start, None, " (warm start)", how)
        if first.interrupted:
            return Training(first)
        start = first.weights

    def run(one: Any, note: str = "") -> tuple[Solution, FloatArray]:
        """The solution, and the weights that it started from."""
        weights = start
        if warm_start is not None and warm_start.solver is None:
            warm = one.with_(objective=warm_start.objective)
            first = _run(warm, solver, max_iter, start, stopping, f"{note} (warm start)", how)
            if first.interrupted:
                return first, start
            weights = first.weights
        found = _run(one, solver, max_iter, weights, stopping, f"{began}{note}", how)
        return found, weights

    objective, loss = problem.objective, None if stopping is None else held_out
    if not isinstance(objective, Direct) or objective.epsilon == "decay":
        return Training(_said_if_idle(*run(problem), loss))
    if objective.epsilon != "holdout":
        epsilon = float(objective.epsilon)
        found = _said_if_idle(*run(problem.with_(epsilon=epsilon)), loss)
        return Training(_said_if_blind(problem, epsilon, found), epsilon)
    if held_out is None:
        raise UnsupportedError("epsilon='holdout' needs a hold-out set; give holdout=0.1 or holdout=(X, y)")
    runs = {}
    for epsilon in objective.candidates:
        runs[epsilon] = run(problem.with_(epsilon=epsilon), f", epsilon {epsilon:g}")
        last = runs[epsilon][0]
        if last.interrupted:
            break
    losses = {epsilon: held_out(found.weights) for epsilon, (found, _) in runs.items()}
    best = min(losses, key=lambda epsilon: (losses[epsilon], epsilon))
    chosen = _said_if_blind(problem, best, _said_if_idle(*runs[best], loss))
    if last.interrupted and best != epsilon:
        status = Status(False, f"{INTERRUPTED}; the best epsilon so far is kept", chosen.n_iter)
        chosen = replace(chosen, status=status, interrupted=True)
    return Training(chosen, best, losses)


def _fine_tune(
    problem: Any,
    solver: Solver | SolverFactory,
    start: FloatArray,
    max_iter: int | None,
    warm_starts: Sequence[WarmStart],
    parts: Parts | None,
    how: _How,
) -> Training:
    if not warm_starts and not start.any():
        raise UnsupportedError(
            "epsilon='auto' goes by the scores of trained weights, and these are all 0; give a number, or "
            "start='log'"
        )

    def minimise_start(one: Any, weights: FloatArray, kind: tuple[WarmStart, float] | None) -> Solution:
        if kind is None:
            return Solution(weights=weights, status=Status(False, "given"))
        warm, factor = kind
        note = " (warm start)" if factor == 1.0 else f" (warm start, l2 times {factor:g})"
        use = warm.solver or solver
        of = warm.of(one, factor)
        return _run(of, use, warm.max_iter, weights, None, note, how)

    def run(
        one: Any,
        weights: FloatArray,
        stopping: EarlyStopping[FloatArray] | None,
        passes: int | None,
        note: str,
    ) -> Solution:
        limit = max_iter if passes is None else passes
        return _run(one, solver, limit, weights, stopping, note, how)

    kinds: list[Any] = [
        (warm, factor)
        for warm in warm_starts
        for factor in (L2_FACTORS if warm.problem is not None and warm.problem.l2 > 0 else (1.0,))
    ]
    usual = (warm_starts[0], 1.0) if warm_starts else None
    tuned = fine_tune(problem, parts, Steps(kinds or [None], usual, minimise_start, run), start)
    return Training(tuned.solution, tuned.epsilon)


def _said_if_idle(
    found: Solution, start: FloatArray, held_out: Callable[[FloatArray], float] | None
) -> Solution:
    """A solution that is its own start says so, with a warning, unless there was nothing to gain.

    ``held_out``: the loss by which it was stopped, if it was."""
    if found.status.converged or found.interrupted or not found.n_iter:
        return found
    reached = found.history.get("pass_objective", [np.inf])[-1] if held_out is None else held_out(start)
    if reached == 0.0 or not np.array_equal(found.weights, start):
        return found
    what = "no step moved the weights from where they started"
    if held_out is not None:
        what = f"no step brought the loss of the hold-out set below the {reached:.6g} of the starting weights"
    remedy = "give the solver another learning_rate, or start elsewhere"
    warnings.warn(f"{what}; {remedy}", TrainingWarning, stacklevel=4)
    return replace(found, status=replace(found.status, reason=f"{found.status.reason}; {what}"))


def _said_if_blind(problem: Any, epsilon: float, found: Solution) -> Solution:
    """The status says where epsilon does not suit the scores (:mod:`trellis.objectives.update_shares`)."""
    if found.interrupted or not found.weights.any() or problem.objective.special != "direct":
        return found
    shares = update_shares(problem.with_(epsilon=epsilon), found.weights)
    what = ""
    if shares.update_share == 0.0:
        what = (
            f"no example changes the weights any more, because epsilon={epsilon:g} is too small beside the "
            "gaps between scores, or nothing is left to learn"
        )
    elif shares.gold_share == 1.0 and problem.objective.formula.direction <= 0.0:
        what = (
            f"y_direct is always the gold output, because epsilon={epsilon:g} exceeds all gaps between scores"
        )
    reason = f"{found.status.reason}; {what}" if what else found.status.reason
    return replace(found, status=replace(found.status, reason=reason))


def _run(
    problem: Any,
    solver: Solver | SolverFactory,
    max_iter: int | None,
    weights: FloatArray,
    stopping: EarlyStopping[FloatArray] | None,
    note: str,
    how: _How,
) -> Solution:
    if callable(solver):
        solver = solver(problem.epsilon, weights)
    title = f"{problem.objective.name} by {solver.name}{note}"
    limit = default_iterations(solver) if max_iter is None else max_iter
    with progress_bar(title, limit, how.show) as on_iteration:
        return minimise(
            solver,
            problem,
            weights,
            max_iter=limit,
            rng=np.random.default_rng(how.seed),
            early_stopping=stopping,
            on_iteration=on_iteration,
            keep_interrupted=how.keep_interrupted,
            checkpoints=how.checkpoints,
        )
