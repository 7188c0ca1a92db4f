"""Small random chain problems for the tests of solvers, with the means to enumerate them."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
from scipy.sparse import random as random_sparse

from trellis.features.array_encoder import ArrayEncoder
from trellis.objectives import Direct, Objective, get_objective
from trellis.solvers.run import Solution, Solver
from trellis.structures.chain.passes.compiled_problem import CompiledChainProblem
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.problem.chain_problem_kernels import Task
from trellis.structures.chain.problem.objective_kernels import COSTS, NO_LOSS, ZERO_ONE
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import LABEL, Penalties
from trellis.training.driver import minimise


def small_problem(
    objective: str | Objective,
    seed: int = 0,
    *,
    lengths: tuple[int, ...] = (3, 1, 4, 2, 3, 2),
    n_labels: int = 3,
    n_features: int = 6,
    l2: float = 0.5,
    loss: str = "hamming",
    observed: bool = False,
    edges: bool = False,
    boundaries: bool = True,
    constrained: bool = False,
    weighted: bool = False,
    ambiguous: bool = False,
    binary: bool = False,
    compiled: bool = True,
) -> LinearChainProblem:
    """Sparse features, labels that mostly follow them. ``constrained``: the pair (0, 1) and the end in
    label 2 are forbidden. ``compiled``: whether solvers are offered compiled passes."""
    rng = np.random.default_rng(seed)
    n, k = sum(lengths), n_labels
    X = random_sparse(n, n_features, density=0.6, format="csr", random_state=seed, dtype=np.float64)
    X.data[:] = 1.0 if binary else rng.normal(size=len(X.data))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    gold = (X @ rng.normal(size=(n_features, k)) + rng.normal(size=(n, k))).argmax(axis=1).astype(np.int32)
    penalties = Penalties.none(k)
    if constrained:
        pair_ok, end_ok = np.ones((k, k), bool), np.ones(k, bool)
        pair_ok[0, 1], end_ok[2] = False, False
        penalties = Penalties.where_not(np.ones(k, bool), pair_ok, end_ok)
        for lo, hi in pairwise(offsets):
            for t in range(lo, hi):
                gold[t] = 0 if t == hi - 1 and gold[t] == 2 else gold[t]
                if t > lo and gold[t - 1] == 0 and gold[t] == 1:
                    gold[t] = 0
    encoded = ArrayEncoder(transition_features=(0, 1) if edges else ()).fit(X, list(lengths))
    if observed:
        layout = LinearLayout.observed(encoded, gold, None, k, boundaries=boundaries)
    else:
        layout = LinearLayout.all_pairs(encoded, k, boundaries=boundaries)
    cost = np.zeros((0, k))
    if loss == "hamming":
        cost = np.ones((n, k))
        cost[np.arange(n), gold] = 0.0
    unknown, allowed = np.zeros(len(lengths), np.uint8), np.zeros((0, k), bool)
    if ambiguous:
        unknown[0], allowed = 1, np.ones((n, k), bool)
        gold[0] = -1
    weight = rng.uniform(0.5, 2.0, len(lengths)) if weighted else np.ones(len(lengths))
    objective = get_objective(objective)
    kind = (COSTS if loss == "hamming" else ZERO_ONE) if objective.uses_loss else NO_LOSS
    epsilon = (
        objective.epsilon if isinstance(objective, Direct) and not isinstance(objective.epsilon, str) else 1.0
    )
    kind_of_problem = CompiledChainProblem if compiled else LinearChainProblem
    return kind_of_problem(
        layout,
        layout.design(encoded, sort=True),
        penalties,
        Task(gold, unknown, allowed, cost, weight),
        objective,
        kind,
        l2=l2,
        epsilon=epsilon,
    )


def run(solver: Solver, problem: Any, max_iter: int = 200, seed: int = 0) -> Solution:
    return minimise(
        solver, problem, np.zeros(problem.dimension), max_iter=max_iter, rng=np.random.default_rng(seed)
    )


def primal(problem: LinearChainProblem, weights: np.ndarray) -> float:
    value, _ = problem.value_and_gradient(weights)
    return value + 0.5 * problem.l2 * float(weights @ weights)


def phi(problem: LinearChainProblem, i: int, labels: Any) -> np.ndarray:
    """The feature vector of a labelling of sequence i, from the definition."""
    design, layout = problem.design, problem.layout
    vector = np.zeros(problem.dimension)
    v = layout.views(vector)
    lo, hi = design.offsets[i], design.offsets[i + 1]
    for t in range(lo, hi):
        k = labels[t - lo]
        for p in range(design.indptr[t], design.indptr[t + 1]):
            x = 1.0 if len(design.values) == 1 else design.values[p]
            f = int(design.indices[p])
            for q in range(layout.rows.pointer[f], layout.rows.pointer[f + 1]):
                if layout.rows.label[q] & LABEL == k:
                    vector[q] += x
        if t > lo:
            j = labels[t - lo - 1]
            v.transitions[j, k] += 1.0
            if layout.n_edge:
                for p in range(design.edge_indptr[t], design.edge_indptr[t + 1]):
                    x = 1.0 if len(design.edge_values) == 1 else design.edge_values[p]
                    v.edge[design.edge_indices[p], j, k] += x
    if hi > lo:
        v.start[labels[0]] += 1.0
        v.end[labels[-1]] += 1.0
    return vector * layout.mask if len(layout.mask) else vector


def labellings(problem: LinearChainProblem, i: int) -> list[tuple[int, ...]]:
    """All allowed labellings of sequence i, in the order in which ties are resolved."""
    n = int(problem.design.offsets[i + 1] - problem.design.offsets[i])
    p = problem.penalties
    found = []
    for y in product(range(problem.layout.n_labels), repeat=n):
        y = y[::-1]
        total = p.start[y[0]] + p.end[y[-1]] + sum(p.transitions[j, k] for j, k in pairwise(y)) if n else 0.0
        if total == 0.0:
            found.append(y)
    return found


def gold_of(problem: LinearChainProblem, i: int) -> tuple[int, ...]:
    lo, hi = problem.design.offsets[i], problem.design.offsets[i + 1]
    return tuple(int(k) for k in problem.task.gold[lo:hi])


def loss_of_path(problem: LinearChainProblem, i: int, y: tuple[int, ...]) -> float:
    gold = gold_of(problem, i)
    if problem.loss_kind == ZERO_ONE:
        return float(y != gold)
    return float(sum(a != b for a, b in zip(y, gold, strict=True)))
