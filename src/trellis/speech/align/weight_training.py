"""Training the weights of the feature map, once the classifiers are trained.

Objectives are those of :mod:`trellis.objectives.records`. Which solver goes with which:

    perceptron           one utterance at a time: w <- w + Phi(y*) - Phi(y_hat)
    direct               the same with w <- w + eta (Phi(y_direct) - Phi(y_hat)), where y_direct =
                         argmax w . Phi - eps L
    margin               passive-aggressive steps; or "frank_wolfe", "cutting_plane" (with a duality gap)
    squared_margin       cutting planes
    log, softmax_margin  L-BFGS

For solvers that go through utterances one by one, the hold-out loss is measured after every pass; the
weights of the smallest one are kept, and ``PATIENCE`` passes without improvement end the training. Batch
solvers minimise a convex objective with its l2 to the end. With epsilon="holdout", each candidate trains
separately and the smallest hold-out loss wins (the smaller epsilon among equals).

The loss itself is not convex, and from w = 0, where the paper starts, its first steps are those of a
perceptron, which leaves its mark on the result. The direct objective (and ramp) is therefore warm-started
from the maximum of the log-likelihood (``start="log"``); there, epsilon is in nats per boundary, and about 1
is a good choice. ``start="zero"`` is the paper's. From w = 0 the size of w is free, and eta = 1 as in the
paper. From a start w_0 a step has to be small beside it, or one pass forgets it: eta = ||w_0|| / ``STEPS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.progress import OnIteration
from trellis.objectives.records import Log, Objective, names
from trellis.solvers import MiniBatch, PassiveAggressive, Solver, get_solver
from trellis.structures.segments.problem.alignment_losses import AlignmentLoss
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.training.fit import Training, WarmStart, train
from trellis.training.options import check_minimum

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner

PATIENCE = 5
STEPS = 250.0  # unit steps from the start to as far again as the start is from 0
ONLINE = ("minibatch", "passive_aggressive")
BATCH_ITERATIONS = 40
_PLANE_SOLVERS = ("passive_aggressive", "frank_wolfe")


def train_weights(
    aligner: Aligner,
    train_on: Sequence[SegmentExample],
    holdout: Sequence[SegmentExample],
    loss: AlignmentLoss,
    on_pass: OnIteration,
) -> Training:
    """Weights from the examples ``train_on``, with the hold-out loss on ``holdout``; after Ctrl-C those
    reached by then, marked ``interrupted``."""
    objective, n_jobs = aligner.objective_record(), aligner._threads()
    problem = SegmentProblem(train_on, objective, loss, l2=aligner.l2, n_jobs=n_jobs)
    name = choose_solver(objective, aligner.solver)
    online = name in ONLINE
    batch_iterations = max(aligner.max_iter, BATCH_ITERATIONS)

    def holdout_loss(weights: FloatArray) -> float:
        return float(np.mean(SegmentProblem(holdout, Log(), loss, n_jobs=n_jobs).task_losses(weights)))

    def solver(epsilon: float, start: FloatArray) -> Solver:
        return configure_solver(name, objective, epsilon, aligner.average, start)

    warm_start = None
    if not objective.convex and aligner.start == "log":
        warm_start = WarmStart(Log(), get_solver("lbfgs"), batch_iterations)
    return train(
        problem,
        solver,
        np.zeros(problem.dimension),
        max_iter=aligner.max_iter if online else batch_iterations,
        seed=aligner.random_state,
        held_out=holdout_loss,
        patience=PATIENCE,
        show=on_pass,
        warm_start=warm_start,
        early=online,
        keep_interrupted=True,
    )


def choose_solver(objective: Objective, solver: str) -> str:
    """The name of the solver; one that does not suit the objective is refused."""
    if not objective.for_oracles:
        raise UnsupportedError(
            f"objective={objective.name!r} is not supported for alignment; choose one of "
            f"{names('for_oracles')}"
        )
    if solver == "auto":
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
    name: str, objective: Objective, epsilon: float, average: bool, start: FloatArray
) -> Solver:
    """The solver called ``name``, with step sizes that suit the weights ``start``."""
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
