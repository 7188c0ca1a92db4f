"""Online solvers on data in shards: iterative parameter mixing.

In each pass every shard makes a pass of the solver over its own examples, all from the same state z (weights,
sums of weights, squares and moments of gradients, the number of visits), and the new state is the mean

    z <- sum over shards s of (n_s / n) z_s,        n_s of the n examples in shard s

(McDonald, Hall and Mann 2010: for the perceptron on separable data the number of mistakes stays bounded). The
L2 term of a shard has the weight l2 n_s / n, so that lambda = l2 / n is that of all data. One shard is the
solver itself. With more, a pass costs the time of the largest shard, but the mean of S passes over n / S
examples is worth less than one pass over n: docs/parameter-mixing.md has measurements.

Nothing of the solver stays in the shards: a pass that is lost is asked for again, and a checkpoint has the
size of one state. The order of visits in a shard is drawn from the pass and the number of the shard alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from trellis.core.status import Status
from trellis.objectives.sharded_problem import ProblemShard, ShardedProblem, said_where
from trellis.solvers.online.online_run import OnlineRun, OnlineState

RunType = TypeVar("RunType", bound=OnlineRun)


@dataclass(frozen=True, eq=False)
class _Pass:
    """What all shards are told: the data term's l2 / n, n, and a seed that is new in each pass."""

    solver: Any
    state: OnlineState
    decay: float
    n: int
    seed: int
    strict: bool


def mixed(run: RunType, solver: Any) -> RunType:
    """The run with passes over shards, where the examples of its problem lie in shards."""
    if isinstance(run.problem, ShardedProblem):
        if getattr(solver, "learning_rate", 0.0) is None:  # chosen once, for all shards and passes
            solver = replace(solver, learning_rate=run.rule.rate)
        run.pass_over_shards = partial(_mixed_pass, run, solver)
    return run


def said_of_mixing(status: Status, problem: Any, history: Mapping[str, Any]) -> Status:
    """The status says where weights were mixed."""
    if not isinstance(problem, ShardedProblem) or "pass_objective" not in history or problem.n_shards < 2:
        return status
    return replace(status, reason=f"{status.reason}; by mixing {problem.n_shards} shards after each pass")


def _mixed_pass(run: OnlineRun, solver: Any) -> tuple[float, int]:
    problem: ShardedProblem = run.problem
    seed, n = int(run.rng.integers(2**62)), problem.n_examples
    what = _Pass(solver, run.state, problem.l2 / n, n, seed, run.rule.strict)
    value, moved, diverged, mean = problem.shards.total(_shard_pass, problem.changes, what)
    names = [one.name for one in fields(run.state) if one.name != "mistakes"]
    run.take_up(replace(run.state, **dict(zip(names, mean, strict=True))))
    run.diverged = run.diverged or diverged > 0
    return float(value), int(moved)


def _shard_pass(shard: ProblemShard, changes: Mapping[str, Any], what: _Pass) -> Any:
    """The sum of c_i f_i, the number of visits with a gradient, whether it ran away, and the share of this
    shard in the mean state."""
    if shard.problem is None:
        return None
    size = int(shard.problem.n_examples)
    problem = shard.problem.with_(**changes, l2=what.decay * size)
    values = {f.name: _own(getattr(what.state, f.name)) for f in fields(what.state)}
    state = type(what.state)(**values)
    rng = np.random.default_rng([what.seed, shard.number])
    with said_where(shard):
        run = what.solver.start(problem, state.weights, rng, state=state)
        if what.strict:
            run.rule = run.rule._replace(strict=True)
        value, moved = run.run_pass()
    share = size / what.n
    mean = tuple(getattr(run.state, f.name) * share for f in fields(state) if f.name != "mistakes")
    return value, moved, int(run.diverged), mean


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
