"""From data and options to trained weights: what ``SequenceLabeler.fit`` does between encoding and keeping the result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.labels import EncodedLabels, LabelSet
from trellis.errors import DataError, UnsupportedError
from trellis.features.encoded import Encoded
from trellis.inference.chain import Chain
from trellis.losses import Hamming, Loss, WeightedHamming, class_weights, sum_by_sequence
from trellis.objectives.example_kernels import COSTS, NO_LOSS, ZERO_ONE
from trellis.objectives.linear_chain import LinearChainProblem, linear_chain_scores
from trellis.objectives.linear_kernels import Task
from trellis.objectives.modes import Direct, Objective
from trellis.scores.linear import LinearLayout
from trellis.scores.linear_kernels import Penalties
from trellis.scores.parts import FloatArray
from trellis.solvers import EarlyStopping, Solution, Solver, minimise
from trellis.solvers.progress import progress_bar


@dataclass(frozen=True, eq=False)
class Examples:
    """Encoded inputs with their labels."""

    inputs: Encoded
    labels: EncodedLabels

    def take(self, sequences: NDArray[np.int64]) -> Examples:
        return Examples(self.inputs.take(sequences), self.labels.take(sequences))

    def __len__(self) -> int:
        return len(self.labels.offsets) - 1


def split(examples: Examples, fraction: float, rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
    """Indices of the sequences to learn from and to hold out."""
    n = len(examples)
    n_held = round(fraction * n)
    if not 0 < fraction < 1 or not 0 < n_held < n:
        raise DataError(
            f"holdout={fraction} of {n} sequences leaves {n - n_held} to learn from and {n_held} to hold out; "
            "both must be at least 1"
        )
    order = rng.permutation(n)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def weighted_loss(loss: Loss, class_weight: Any) -> Loss:
    """Class weights multiply the costs of a Hamming loss."""
    if class_weight is None:
        return loss
    if isinstance(loss, Hamming):
        return WeightedHamming(class_weight=class_weight)
    if isinstance(loss, WeightedHamming) and loss.class_weight is None:
        return replace(loss, class_weight=class_weight)
    raise UnsupportedError(
        f"class_weight cannot be combined with the loss {loss.name!r}; use loss='hamming' or WeightedHamming"
    )


def sequence_weights(
    n: int, sample_weight: Any, class_weight: Any, objective: Objective, labels: EncodedLabels, names: LabelSet
) -> FloatArray:
    """c_i: the sample weights; where the objective does not look at the loss, times the mean class weight of the sequence."""
    weights = np.ones(n)
    if sample_weight is not None:
        weights = np.array(sample_weight, dtype=np.float64)
        if weights.shape != (n,):
            raise DataError(f"sample_weight has shape {weights.shape}; there are {n} sequences, one weight for each")
        if not (np.isfinite(weights).all() and (weights >= 0).all()):
            raise DataError("sample_weight must be finite and not negative")
    if class_weight is not None and not objective.uses_loss:
        by_label = np.append(class_weights(class_weight, labels, names), 1.0)  # an unknown label (-1) counts 1
        lengths = np.maximum(np.diff(labels.offsets), 1)
        weights = weights * sum_by_sequence(by_label[labels.codes], labels.offsets) / lengths
    return weights


def linear_problem(
    examples: Examples,
    layout: LinearLayout,
    penalties: Penalties,
    names: LabelSet,
    objective: Objective,
    loss: Loss,
    weight: FloatArray,
    cost: FloatArray | None,
    **options: Any,
) -> Any:
    """The problem for solvers: with candidate labellings where the loss does not decompose."""
    labels = examples.labels
    k = len(names)
    ambiguous = labels.ambiguous
    kind = NO_LOSS
    if objective.uses_loss:
        kind = ZERO_ONE if loss.kind == "zero_one" else COSTS
    task = Task(
        labels.codes,
        ambiguous.astype(np.uint8),
        np.zeros((0, k), dtype=bool) if labels.allowed is None else labels.allowed,
        np.zeros((0, k)) if cost is None else cost,
        weight,
    )
    design = layout.design(examples.inputs, sort=True)
    problem = LinearChainProblem(layout, design, penalties, task, objective, kind, **options)
    if objective.uses_loss and loss.kind == "candidates":
        from trellis.objectives.candidates import CandidateProblem

        return CandidateProblem.of(problem, loss, labels, names)
    return problem


def holdout_loss(
    examples: Examples, layout: LinearLayout, penalties: Penalties, names: LabelSet, loss: Loss, n_jobs: int
) -> Callable[[FloatArray], float]:
    """The mean loss of a sequence, as a function of the weights."""
    design = layout.design(examples.inputs, sort=True)
    chain = Chain(n_jobs)

    def evaluate(weights: FloatArray) -> float:
        scores = linear_chain_scores(layout, design, penalties, weights, n_jobs)
        return float(loss.per_sequence(examples.labels, chain.best(scores).labels, names).mean())

    return evaluate


@dataclass(frozen=True, eq=False)
class Trained:
    """The solution, and the epsilon that the hold-out set chose (direct loss)."""

    solution: Solution
    epsilon: float | None = None
    epsilon_losses: dict[float, float] | None = None


def train(
    problem: Any,
    solver: Solver,
    weights: FloatArray,
    *,
    max_iter: int,
    seed: int,
    held_out: Callable[[FloatArray], float] | None,
    patience: int,
    show: bool | None,
) -> Trained:
    """Run the solver; for ``Direct(epsilon="holdout")`` once for each candidate epsilon, keeping the best on the hold-out set."""
    early = None if held_out is None else EarlyStopping(held_out, patience)

    def run(one: Any, title: str) -> Solution:
        with progress_bar(title, max_iter, show) as on_iteration:
            return minimise(
                solver,
                one,
                weights,
                max_iter=max_iter,
                rng=np.random.default_rng(seed),
                early_stopping=early,
                on_iteration=on_iteration,
            )

    objective = problem.objective
    title = f"{objective.name} by {solver.name}"
    if not isinstance(objective, Direct):
        return Trained(run(problem, title))
    if objective.epsilon == "decay":
        return Trained(run(problem, title))
    if objective.epsilon != "holdout":
        return Trained(run(problem.with_(epsilon=objective.epsilon), title), objective.epsilon)
    if early is None:
        raise UnsupportedError("epsilon='holdout' needs a hold-out set; give holdout=0.1 or holdout=(X, y)")
    solutions = {
        epsilon: run(problem.with_(epsilon=epsilon), f"{title}, epsilon {epsilon:g}")
        for epsilon in objective.candidates
    }
    losses = {epsilon: min(found.history["holdout_loss"]) for epsilon, found in solutions.items()}
    best = min(losses, key=lambda epsilon: (losses[epsilon], epsilon))
    return Trained(solutions[best], best, losses)
