"""Where training with latent states begins: the states of a label must differ, or they never will.

At equal weights the states of a label get equal gradients, so every objective stays on the saddle where the
label has one state in many copies. Small random weights break the symmetry; they come from the seed of the
estimator, and a few seeds are worth trying, because what is learned is a local optimum.

Objectives that are differences of two labellings look at the best states only, and what is best at random
weights means little: the DC algorithm would complete the gold labellings at random, and stay close to that.
So these (but the perceptron itself) begin where the latent perceptron ends.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.progress import progress_bar
from trellis.data.latent_labels import LatentLabels
from trellis.losses.labelings import Loss
from trellis.objectives.records import Objective, Perceptron
from trellis.solvers import Solution, default_iterations, get_solver
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.training.driver import minimise

SPREAD = 0.1  # standard deviation of the random weights


def split_states(start: FloatArray, layout: LinearLayout, latent: LatentLabels, seed: int) -> FloatArray:
    noise = np.random.default_rng([seed, len(latent.label_of)]).normal(0.0, SPREAD, layout.dimension)
    return start + (noise * layout.mask if len(layout.mask) else noise)


def begin(
    problem: LinearChainProblem, start: FloatArray, latent: LatentLabels, seed: int, show: bool | None
) -> FloatArray:
    """The weights to train from, with states that differ, at ``start`` plus what tells them apart."""
    weights = split_states(start, problem.layout, latent, seed)
    if not problem.objective.two_labelings or isinstance(problem.objective, Perceptron):
        return weights
    solver = get_solver("perceptron")
    passes = default_iterations(solver)
    with progress_bar("latent perceptron, where it begins", passes, show) as on_iteration:
        solution: Solution = minimise(
            solver,
            problem.with_(objective=Perceptron(), l1=0.0),
            weights,
            max_iter=passes,
            rng=np.random.default_rng(seed),
            on_iteration=on_iteration,
        )
    return solution.weights


def refuse_candidates(latent: LatentLabels, objective: Objective, loss: Loss) -> None:
    """A loss that re-ranks candidates needs one gold labelling."""
    if objective.uses_loss and loss.kind == "candidates" and not latent.plain:
        raise UnsupportedError(
            f"latent_states need a loss that is a sum over steps, or 0-1, not {loss.name!r}; use "
            "loss='hamming', or latent_states=1"
        )
