"""Learning the weights of the feature map, once the classifiers are there.

Objectives are those of :mod:`trellis.objectives.records`. Which solver goes with which:

    perceptron           one utterance at a time: w <- w + Phi(y*) - Phi(y_hat)
    direct               the same with w <- w + eta (Phi(y_direct) - Phi(y_hat)), where y_direct =
                         argmax w . Phi - eps L
    margin               passive-aggressive steps; or "frank_wolfe", "cutting_plane" (with a duality gap)
    log, softmax_margin  L-BFGS

For solvers that go through utterances one by one, the hold-out loss is measured after every pass; the
weights of the smallest one are kept, and ``PATIENCE`` passes without a smaller one end the training. Batch
solvers minimise a convex objective with its l2 to the end. Where eps is "holdout", each candidate trains for
itself and the smallest hold-out loss wins (the smaller eps among equals).

The loss itself is not convex, and from w = 0, where the paper starts, its first steps are those of a
perceptron, whose mark stays. So the direct objective (and ramp) starts where the log-likelihood is largest
(``start="log"``); there, eps is in nats per boundary, and about 1 is a good choice. ``start="zero"`` is the
paper's. From w = 0 the size of w is free, and eta = 1 as in the paper. From a start w_0 a step has to be
small beside it, or one pass forgets where it began: eta = ||w_0|| / ``STEPS``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.objectives.records import Direct, Log, Objective
from trellis.solvers import MiniBatch, PassiveAggressive, Solution, Solver, get_solver
from trellis.structures.segments.problem.alignment_losses import AlignmentLoss
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.training.driver import EarlyStopping, minimise

PATIENCE = 5
STEPS = 250.0  # of unit length that it takes to go as far from the start as the start is from 0
ONLINE = ("minibatch", "passive_aggressive")
BATCH_ITERATIONS = 40
_SOLVER_OF = {
    "perceptron": "minibatch",
    "direct": "minibatch",
    "ramp": "minibatch",
    "margin": "passive_aggressive",
    "log": "lbfgs",
    "softmax_margin": "lbfgs",
}
_OF_PLANES = ("passive_aggressive", "frank_wolfe", "cutting_plane")

OnPass = Callable[[int, Mapping[str, float], Any], None]


@dataclass(frozen=True)
class WeightOptions:
    """How weights are learnt; ``l2`` as in :mod:`trellis.solvers.problem` (sums, not means). ``start``:
    "log" or "zero"."""

    objective: Objective
    loss: AlignmentLoss
    solver: str = "auto"
    passes: int = 10
    l2: float = 1e-3
    average: bool = True
    start: str = "log"
    n_jobs: int = 1
    seed: int = 0


@dataclass(frozen=True)
class Learnt:
    """``epsilon_losses``: the hold-out loss of each candidate, where eps was searched."""

    solution: Solution
    epsilon: float | None
    epsilon_losses: dict[float, float] | None


def learn_weights(
    train: Sequence[SegmentExample],
    holdout: Sequence[SegmentExample],
    options: WeightOptions,
    on_pass: OnPass | None = None,
) -> Learnt:
    """Weights from the examples ``train``, judged on ``holdout``."""
    objective = options.objective
    first = np.zeros(train[0].features.dimension)
    if not objective.convex and options.start == "log":
        first = _learn(train, holdout, replace(options, objective=Log(), solver="auto"), first, 1.0).weights
    if not isinstance(objective, Direct):
        return Learnt(_learn(train, holdout, options, first, 1.0, on_pass), None, None)
    if objective.epsilon != "holdout":
        fixed = 1.0 if objective.epsilon == "decay" else float(objective.epsilon)
        return Learnt(_learn(train, holdout, options, first, fixed, on_pass), fixed, None)
    found = {
        eps: _learn(train, holdout, options, first, eps, on_pass) for eps in sorted(objective.candidates)
    }
    judge = SegmentProblem(holdout, objective, options.loss, n_jobs=options.n_jobs)
    losses = {eps: float(np.mean(judge.task_losses(s.weights))) for eps, s in found.items()}
    best = min(losses, key=lambda eps: (losses[eps], eps))
    return Learnt(found[best], best, losses)


def solver_name(objective: Objective, solver: str) -> str:
    """The solver that is meant; one that does not go with the objective is refused."""
    if objective.name not in _SOLVER_OF:
        raise DataError(f"objective={objective.name!r} cannot align; choose one of {', '.join(_SOLVER_OF)}")
    if solver == "auto":
        return _SOLVER_OF[objective.name]
    if solver in _OF_PLANES and not objective.piecewise_linear:
        raise UnsupportedError(
            f"solver {solver!r} needs a convex objective made of planes such as 'margin', not "
            f"{objective.name!r}; use solver='auto'"
        )
    if solver not in ONLINE:
        get_solver(solver)
    return solver


def _learn(
    train: Sequence[SegmentExample],
    holdout: Sequence[SegmentExample],
    options: WeightOptions,
    first: FloatArray,
    epsilon: float,
    on_pass: OnPass | None = None,
) -> Solution:
    objective = options.objective
    if isinstance(objective, Direct) and objective.epsilon != "decay":
        objective = replace(objective, epsilon=epsilon)
    name = solver_name(objective, options.solver)
    problem = SegmentProblem(
        train, objective, options.loss, l2=options.l2, epsilon=epsilon, n_jobs=options.n_jobs
    )
    judge = SegmentProblem(holdout, objective, options.loss, n_jobs=options.n_jobs)
    online = name in ONLINE
    stopping: EarlyStopping[FloatArray] = EarlyStopping(
        lambda w: float(np.mean(judge.task_losses(w))), PATIENCE
    )
    solution: Solution = minimise(
        configured(name, objective, epsilon, options.average, first),
        problem,
        first,
        max_iter=options.passes if online else max(options.passes, BATCH_ITERATIONS),
        rng=np.random.default_rng(options.seed),
        early_stopping=stopping if online else None,
        on_iteration=on_pass,
    )
    return solution


def configured(name: str, objective: Objective, epsilon: float, average: bool, first: FloatArray) -> Solver:
    """The solver called ``name``, with steps that suit the weights ``first`` from which it starts."""
    if name == "passive_aggressive":
        return PassiveAggressive(average=average)
    if name != "minibatch":
        return get_solver(name)
    direct = isinstance(objective, Direct)
    decaying = isinstance(objective, Direct) and objective.epsilon == "decay"
    eta = float(np.linalg.norm(first)) / STEPS if first.any() else 1.0
    return MiniBatch(
        # The direct gradient is divided by eps: with the rate eta eps the step is eta times the difference.
        learning_rate=eta * epsilon if direct else eta,
        batch_size=1,
        average=average,
        schedule="inverse_sqrt" if decaying else "constant",
    )
