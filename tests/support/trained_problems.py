"""The problems that ``fit`` really minimises, caught on their way to the driver, and what is asked of them.

* The gradient: central differences of the problem's own value in random directions, at a random point (where
  a maximum has a kink with probability 0). The value of a one-sided direct objective is the task loss, which
  is constant almost everywhere; its gradient is by definition that of

      g = (direction / eps) [max_y (s + direction eps L) - max_y s],

  the difference of two other objectives of the same problem, so differences of g are compared with it.
* The objective falls when the solver of the fit starts from that point.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
import torch

from trellis.core.arrays import FloatArray
from trellis.neural.labeler.network_training import NetworkRun
from trellis.objectives import Direct, Objective, Perceptron
from trellis.training.driver import minimise, minimise_run

STEP = 1e-6
# They regularise by early stopping, by their margin or by nothing: the l2 of the problem is not theirs.
WITHOUT_L2 = ("perceptron", "passive_aggressive", "fine_tuning")


@dataclass(frozen=True, eq=False)
class Trained:
    """What was minimised, and by what; ``problem`` has ``value_and_gradient``, ``dimension``, ``with_``."""

    problem: Any
    solver: Any

    def __str__(self) -> str:
        return f"{type(self.problem).__name__}, {self.problem.objective} by {self.solver}"

    def passes(self, start: FloatArray, max_iter: int) -> list[FloatArray]:
        """The weights after each iteration of the solver from ``start``, and then its answer."""
        if isinstance(self.problem, FlatNetwork):
            return self.problem.epochs(start, max_iter)
        found: list[FloatArray] = []
        solution = minimise(
            self.solver,
            self.problem,
            start,
            max_iter=max_iter,
            rng=np.random.default_rng(0),
            on_iteration=lambda _, __, weights: found.append(weights.copy()),
        )
        return [*found, solution.weights]


@contextmanager
def watch_training() -> Iterator[list[Trained]]:
    """All that is trained inside the block, in order: warm starts come first."""
    seen: list[Trained] = []

    def watched(solver: Any, problem: Any, weights: FloatArray, **options: Any) -> Any:
        seen.append(Trained(problem, solver))
        return minimise(solver, problem, weights, **options)

    def watched_network(run: NetworkRun, **options: Any) -> Any:
        seen.append(Trained(FlatNetwork.of(run), run.solver))
        return minimise_run(run, **options)

    with (
        patch("trellis.training.fit.minimise", watched),
        patch("trellis.neural.labeler.neural_labeler.minimise_run", watched_network),
    ):
        yield seen


class FlatNetwork:
    """The objective of a network on its whole corpus, as a function of one vector, in double precision."""

    def __init__(self, run: NetworkRun, objective: Objective) -> None:
        self._run, self.objective = run, objective
        self._network = deepcopy(run.network).double()
        self._parameters = list(self._network.parameters())
        self.dimension = sum(p.numel() for p in self._parameters)
        self.l2 = 0.0

    @classmethod
    def of(cls, run: NetworkRun) -> FlatNetwork:
        objective = run.solver.stages[-1].objective
        assert objective is not None
        return cls(run, objective)

    @property
    def epsilon(self) -> float:
        fixed = isinstance(self.objective, Direct) and not self.objective.fine_tuned
        return float(self.objective.epsilon) if fixed else 1.0

    @property
    def _given_epsilon(self) -> float | None:
        """What stands for an epsilon that a run measures."""
        return self.epsilon if self.objective.fine_tuned else None

    def with_(self, objective: Objective) -> FlatNetwork:
        return FlatNetwork(self._run, objective)

    def epochs(self, start: FloatArray, n_epochs: int) -> list[FloatArray]:
        """The weights after each epoch of the optimiser from ``start``."""
        self._load(start)
        solver = self._run.solver
        stage = replace(solver.stages[-1], until=n_epochs)
        run = NetworkRun(
            replace(solver, stages=(stage,), max_epochs=n_epochs), self._run.problem, deepcopy(self._network)
        )
        run.epsilon = self._given_epsilon
        found = []
        for _ in range(n_epochs):
            run.step()
            found.append(torch.nn.utils.parameters_to_vector(run.network.parameters()).detach().numpy())
        return found

    def _load(self, weights: FloatArray) -> None:
        torch.nn.utils.vector_to_parameters(torch.from_numpy(weights), self._parameters)

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        self._load(weights)
        corpus, stage = self._run.problem.corpus, self._run.solver.stages[-1]
        batch = corpus.batch(np.arange(len(corpus.lengths)))
        scores = self._network(batch.inputs, batch.lengths)
        stage = replace(stage, objective=self.objective)
        value = self._run.problem.objective_at(self._network, scores, batch, stage, self._given_epsilon)
        gradients = torch.autograd.grad(value, self._parameters, allow_unused=True)
        flat = [
            torch.zeros_like(p).ravel() if g is None else g.ravel()
            for p, g in zip(self._parameters, gradients, strict=True)
        ]
        return float(value.detach()), torch.cat(flat).numpy()


def random_point(trained: Trained, seed: int) -> FloatArray:
    """The worst of some random points where the gradient is not 0; weights that are fixed at 0 stay there."""
    rng = np.random.default_rng(seed)
    worst, highest = None, -np.inf
    for attempt in range(40):
        scale = (1.0, 0.3, 0.1, 0.03)[attempt % 4]
        point = scale * _free(trained.problem, rng.normal(size=trained.problem.dimension))
        value, gradient = trained.problem.value_and_gradient(point)
        if value > highest and gradient.any():
            worst, highest = point, value
        if attempt >= 3 and worst is not None:
            return worst
    raise AssertionError(f"{trained}: the gradient is 0 wherever one looks")


def check_gradient(trained: Trained, directions: int = 3) -> None:
    """Against central differences, at a random point."""
    problem, rng = trained.problem, np.random.default_rng(1)
    point = random_point(trained, 1)
    value, gradient = problem.value_and_gradient(point)
    gradient = gradient.copy()
    differentiated = _differentiated(problem)
    if problem.objective.special == "direct" and hasattr(problem, "task_losses"):
        losses = problem.task_losses(point) @ problem.sample_weight
        assert problem.objective.sign == "central" or np.isclose(value, losses), trained
    for _ in range(directions):
        direction = _free(problem, rng.normal(size=problem.dimension))
        rise = differentiated(point + STEP * direction) - differentiated(point - STEP * direction)
        np.testing.assert_allclose(
            gradient @ direction,
            rise / (2.0 * STEP),
            rtol=1e-5,
            atol=1e-6 * (1.0 + np.linalg.norm(gradient)),
            err_msg=str(trained),
        )


def check_falls(trained: Trained) -> None:
    """From a random point to the answer of the solver; a few iterations, more where those are not enough.

    An objective that is not convex may have nothing to fall to near a point, and a run may leave a good pass
    again, which early stopping would find: there it is enough that some pass is better than the point."""
    convex = trained.problem.objective.convex
    tries = (
        [(2, 3), (2, 30), (2, 300)] if convex else [(seed, n) for n in (3, 20, 150) for seed in range(2, 7)]
    )
    for seed, max_iter in tries:
        point = random_point(trained, seed)
        before = _objective(trained, point)
        passes = trained.passes(point, max_iter)
        after = min(_objective(trained, weights) for weights in (passes[-1:] if convex else passes))
        if after < before:
            return
    raise AssertionError(f"{trained}: the objective went from {before} to {after}")


def _differentiated(problem: Any) -> Callable[[FloatArray], float]:
    """The function whose gradient the problem reports."""
    objective = problem.objective
    if objective.special != "direct" or objective.sign == "central":
        return lambda weights: float(problem.value_and_gradient(weights)[0])
    scale = objective.direction * problem.epsilon
    adjusted = problem.with_(objective=_adjusted(scale))
    best = problem.with_(objective=Perceptron())
    return lambda w: float(adjusted.value_and_gradient(w)[0] - best.value_and_gradient(w)[0]) / scale


def _adjusted(scale: float) -> Objective:
    """max_y (s + scale L) - s(y*)."""
    record = type("Adjusted", (Objective,), {"name": "adjusted", "loss_scale": scale})
    return dataclass(frozen=True)(record)()


def _free(problem: Any, weights: FloatArray) -> FloatArray:
    layout = getattr(getattr(problem, "problem", problem), "layout", None)
    return layout.masked(weights) if hasattr(layout, "masked") else weights


def _objective(trained: Trained, weights: FloatArray) -> float:
    problem = trained.problem
    value = float(problem.value_and_gradient(weights)[0])
    if getattr(trained.solver, "name", "") in WITHOUT_L2 or problem.objective.scale_free:
        return value
    return value + 0.5 * problem.l2 * float(weights @ weights)
