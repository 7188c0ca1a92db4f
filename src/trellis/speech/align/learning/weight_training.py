"""Training the weights of the feature map, once the classifiers are trained.

Objectives are those of :mod:`trellis.objectives.records`. Which solver goes with which:

    direct               fine-tuning from the CRF's weights, see below
    perceptron           one utterance at a time: w <- w + Phi(y*) - Phi(y_hat)
    margin               passive-aggressive steps; or "frank_wolfe", "cutting_plane" (with a duality gap)
    squared_margin       cutting planes
    log, softmax_margin  L-BFGS

For solvers that go through utterances one by one, the hold-out loss is measured after every pass; the
weights of the smallest one are kept, and ``PATIENCE`` passes without improvement end the training. Batch
solvers minimise a convex objective with its l2 to the end.

``epsilon="auto"`` is the recipe of :mod:`trellis.training.direct_recipe`: from the maximum w_0 of the
log-likelihood (its l2 by the hold-out loss), steps in proportion to ||w_0|| by central differences, with an
epsilon that falls from 3 eps_0 to 0.3 eps_0 in ``max_iter`` passes, eps_0 the typical gap of a wrong hold-out
utterance. The hold-out loss picks the pass, 0 among them; then hold-out and training utterances together get
a new w_0 and as many passes. A handful of utterances cannot pick: below ``FEWEST`` of them in both parts, the
weights are those of the log-likelihood on all, and the status says so.

With a number or "decay" for epsilon, utterances are visited one at a time, w <- w + eta (Phi(y_direct) -
Phi(y_hat)), y_direct = argmax w . Phi - eps L, as in the paper; with "holdout", each candidate trains
separately and the smallest hold-out loss wins (the smaller epsilon among equals). From w = 0, where the paper
starts (``start="zero"``), the size of w is free, and eta = 1 as in the paper. From a start w_0 a step has to
be small beside it, or one pass forgets it: eta = ||w_0|| / ``STEPS``; there, epsilon is in nats per boundary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.progress import OnIteration
from trellis.core.status import Status
from trellis.objectives.records import Log, Objective, names
from trellis.solvers import FineTuning, MiniBatch, PassiveAggressive, Solver, get_solver
from trellis.structures.segments.problem.alignment_losses import AlignmentLoss
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.training.checkpoints import Checkpoints
from trellis.training.direct_recipe import Fold, Parts
from trellis.training.fit import Training, WarmStart, train
from trellis.training.holdout import FEWEST, refits
from trellis.training.options import check_minimum

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner

PATIENCE = 5
STEPS = 250.0  # unit steps from the start to as far again as the start is from 0
ONLINE = ("fine_tuning", "minibatch", "passive_aggressive")
BATCH_ITERATIONS = 40
_PLANE_SOLVERS = ("passive_aggressive", "frank_wolfe")


def train_weights(
    aligner: Aligner,
    train_on: Sequence[SegmentExample],
    holdout: Sequence[SegmentExample],
    loss: AlignmentLoss,
    on_pass: OnIteration,
    checkpoints: Checkpoints | None = None,
) -> Training:
    """Weights from the examples ``train_on``, with the hold-out loss on ``holdout``; after Ctrl-C those
    reached by then, marked ``interrupted``, unless checkpoints have them."""
    objective, n_jobs = aligner.objective_record(), aligner._threads()
    together = [*train_on, *holdout]
    few = objective.fine_tuned and len(together) < FEWEST
    if few:
        train_on, objective = together, Log()
    name = choose_solver(objective, "auto" if few else aligner.solver)
    online = name in ONLINE
    batch_iterations = max(aligner.max_iter, BATCH_ITERATIONS)

    def new_problem(examples: Sequence[SegmentExample]) -> SegmentProblem:
        return SegmentProblem(examples, objective, loss, l2=aligner.l2, n_jobs=n_jobs)

    problem, held = new_problem(train_on), new_problem(holdout)

    def solver(epsilon: float, start: FloatArray) -> Solver:
        return configure_solver(name, objective, epsilon, aligner.average, start, aligner.max_iter)

    warm_start = None
    if not objective.convex and aligner.start == "log":
        likelihood = problem.with_(objective=Log())
        warm_start = WarmStart(Log(), get_solver("lbfgs"), batch_iterations, likelihood)
    parts = None
    if objective.fine_tuned:
        fold = Fold(problem, held, held.task_losses, np.ones(len(holdout)))
        parts = Parts([fold], new_problem(together) if refits(objective) else None)
    training = train(
        problem,
        solver,
        np.zeros(problem.dimension),
        max_iter=aligner.max_iter if online else batch_iterations,
        seed=aligner.random_state,
        held_out=held.mean_loss,
        patience=PATIENCE,
        show=on_pass,
        warm_start=warm_start,
        early=online,
        keep_interrupted=checkpoints is None or not checkpoints.stored,
        parts=parts,
        checkpoints=checkpoints,
    )
    return _said_as_too_few(training, len(together)) if few else training


def _said_as_too_few(training: Training, n: int) -> Training:
    solution = training.solution
    status = Status(
        solution.status.converged,
        f"{n} utterances are too few to choose how long to fine-tune for the loss ({FEWEST} are needed for "
        f"weights and hold-out); the weights are those of 'log' on all of them: {solution.status.reason}",
        solution.n_iter,
    )
    return replace(training, solution=replace(solution, status=status))


def choose_solver(objective: Objective, solver: str) -> str:
    """The name of the solver; one that does not suit the objective is refused."""
    if not objective.for_oracles:
        raise UnsupportedError(
            f"objective={objective.name!r} is not supported for alignment; choose one of "
            f"{names('for_oracles')}"
        )
    if solver == "auto":
        if objective.fine_tuned:
            return "fine_tuning"
        if objective.smooth:
            return "lbfgs"
        if objective.convex and objective.uses_loss:
            return "passive_aggressive" if objective.piecewise_linear else "cutting_plane"
        return "minibatch"
    if solver in _PLANE_SOLVERS and not objective.piecewise_linear:
        raise UnsupportedError(
            f"solver {solver!r} needs a convex objective made of planes such as 'margin'; {objective.name!r} "
            "is not piecewise linear; use solver='auto'"
        )
    if solver not in ONLINE:
        check_minimum(objective, get_solver(solver))
    return solver


def configure_solver(
    name: str, objective: Objective, epsilon: float, average: bool, start: FloatArray, passes: int
) -> Solver:
    """The solver called ``name``, with step sizes that suit the weights ``start`` and, where they fall, the
    number of ``passes``."""
    if name == "fine_tuning":
        return FineTuning(passes=passes)
    if name == "passive_aggressive":
        return PassiveAggressive(average=average)
    if name != "minibatch":
        return get_solver(name)
    direct, decaying = objective.special == "direct", objective.decaying
    eta = float(np.linalg.norm(start)) / STEPS if start.any() else 1.0
    if not objective.lipschitz:
        return MiniBatch(batch_size=1, average=average)  # how long a step may be, its gradients tell
    return MiniBatch(
        # The direct gradient is divided by eps: with the rate eta eps the step is eta times the difference.
        learning_rate=eta * epsilon if direct else eta,
        batch_size=1,
        average=average,
        schedule="inverse_sqrt" if decaying else "constant",
    )
