"""Objectives on given part scores, by the problem that training runs: a linear chain model with one feature
per step, whose weights are the scores."""

from __future__ import annotations

import numpy as np

from trellis.data.labels import EncodedLabels, LabelSet
from trellis.features.encoded import Encoded, Features
from trellis.losses.labelings import Loss, get_loss
from trellis.objectives import Objective, get_objective
from trellis.objectives.special_cases import fixed_epsilon
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.chain_task import loss_table, new_task
from trellis.structures.chain.scores.chain_scores import ChainParts, ChainScores
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties


def scored_problem(
    objective: str | Objective,
    scores: ChainScores,
    gold: EncodedLabels,
    loss: str | Loss,
    labels: LabelSet,
    *,
    epsilon: float | None = None,
    n_jobs: int = 1,
) -> tuple[LinearChainProblem, np.ndarray]:
    """The problem, and the weights at which its part scores are ``scores``."""
    objective = get_objective(objective)
    kind, cost = loss_table(objective, get_loss(loss), gold, labels)
    n, k = scores.unary.shape
    steps = np.arange(n + 1, dtype=np.int64)
    one_each = Features(steps, steps[:-1].astype(np.uint32), np.ones(1), n, scores.offsets)
    per_step = scores.transitions.shape[0] == n and n > 1
    encoded = Encoded(one_each, one_each if per_step else None)
    layout = LinearLayout.all_pairs(encoded, k, boundaries=True)
    weights = np.zeros(layout.dimension)
    w = layout.views(weights)
    w.hot[:], w.start[:], w.end[:] = scores.unary, scores.start, scores.end
    if per_step:
        w.edge[:] = scores.transitions
    elif n:
        w.transitions[:] = scores.transitions[0]
    task = new_task(gold, k, cost=cost)
    problem = LinearChainProblem(
        layout,
        layout.design(encoded, sort=False),
        Penalties.none(k),
        task,
        objective,
        kind,
        epsilon=fixed_epsilon(objective, 1.0 if epsilon is None and objective.fine_tuned else epsilon),
        n_jobs=n_jobs,
    )
    return problem, weights


def value_and_gradient(
    objective: str | Objective,
    scores: ChainScores,
    gold: EncodedLabels,
    loss: str | Loss,
    labels: LabelSet,
    *,
    epsilon: float | None = None,
    n_jobs: int = 1,
) -> tuple[np.ndarray, ChainParts]:
    """Values (S,) of an objective, and the (sub)gradient of their sum in the part scores."""
    problem, weights = scored_problem(objective, scores, gold, loss, labels, epsilon=epsilon, n_jobs=n_jobs)
    values, gradient = problem.values_and_gradient(weights)
    g = problem.layout.views(gradient)
    pairs = g.edge if problem.layout.n_edge else g.transitions[None][: len(scores.transitions)]
    return values, ChainParts(g.hot, pairs, g.start, g.end)
