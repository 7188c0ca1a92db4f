"""From data and options to trained weights: what ``SequenceLabeler.fit`` does once the data are encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.progress import progress_bar
from trellis.data.labels import EncodedLabels, LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.features.encoded import Encoded, FeatureEncoder
from trellis.losses.labelings import Hamming, Loss, WeightedHamming, class_weights, sum_by_sequence
from trellis.objectives.records import Direct, Margin, Objective, Ramp
from trellis.solvers import Solution, Solver
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.problem.chain_problem import LinearChainProblem, linear_chain_scores
from trellis.structures.chain.problem.chain_problem_kernels import Task
from trellis.structures.chain.problem.objective_kernels import COSTS, NO_LOSS, ZERO_ONE
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.training.driver import EarlyStopping, minimise


@dataclass(frozen=True, eq=False)
class Examples:
    """Encoded inputs with their labels."""

    inputs: Encoded
    labels: EncodedLabels

    def take(self, sequences: NDArray[np.int64]) -> Examples:
        return Examples(self.inputs.take(sequences), self.labels.take(sequences))

    def __len__(self) -> int:
        return len(self.labels.offsets) - 1


@dataclass(frozen=True, eq=False)
class WeightedExamples:
    """Examples, c_i of each sequence (S,), and the costs (N, K) of a loss that is a sum over steps."""

    examples: Examples
    weight: FloatArray
    cost: FloatArray | None

    def take(self, sequences: NDArray[np.int64]) -> WeightedExamples:
        """Some of the sequences; ``sequences`` must rise."""
        cost = self.cost
        if cost is not None:
            chosen = np.zeros(len(self.examples), dtype=np.bool_)
            chosen[sequences] = True
            cost = np.ascontiguousarray(cost[np.repeat(chosen, np.diff(self.examples.labels.offsets))])
        return WeightedExamples(self.examples.take(sequences), self.weight[sequences], cost)

    def over_states(self, latent: LatentLabels) -> WeightedExamples:
        """The same as examples of chains of states: labels are sets of them, and costs theirs."""
        if latent.plain:
            return self
        examples = Examples(self.examples.inputs, latent.expand(self.examples.labels))
        cost = None if self.cost is None else latent.expand_costs(self.cost)
        return WeightedExamples(examples, self.weight, cost)


def weighted_loss(loss: Loss, class_weight: Any, labels: EncodedLabels, names: LabelSet) -> Loss:
    """Class weights multiply the costs of a Hamming loss; "balanced" means these labels from here on."""
    if class_weight is None:
        return loss
    by_label = dict(zip(names.labels, class_weights(class_weight, labels, names).tolist(), strict=True))
    if isinstance(loss, Hamming):
        return WeightedHamming(class_weight=by_label)
    if isinstance(loss, WeightedHamming) and loss.class_weight is None:
        return replace(loss, class_weight=by_label)
    raise UnsupportedError(
        f"class_weight cannot be combined with the loss {loss.name!r}; use loss='hamming' or a "
        "WeightedHamming without class weights of its own"
    )


def weighted_examples(
    examples: Examples,
    names: LabelSet,
    objective: Objective,
    loss: Loss,
    sample_weight: Any,
    class_weight: Any,
) -> WeightedExamples:
    """c_i is the sample weight, times the mean class weight if the objective does not look at the loss."""
    labels, n = examples.labels, len(examples)
    weight = checked_weights(sample_weight, n)
    if class_weight is not None and not objective.uses_loss:
        # an unknown label has the code -1, so the last entry, and counts 1
        by_label = np.append(class_weights(class_weight, labels, names), 1.0)
        lengths = np.maximum(np.diff(labels.offsets), 1)
        weight = weight * sum_by_sequence(by_label[labels.codes], labels.offsets) / lengths
    cost = loss.costs(labels, names) if objective.uses_loss and loss.kind == "costs" else None
    return WeightedExamples(examples, weight, cost)


def checked_weights(sample_weight: Any, n: int) -> FloatArray:
    """One finite weight, not negative, for each of n sequences; ones if none are given."""
    if sample_weight is None:
        return np.ones(n)
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("sample_weight must hold numbers, one for each sequence") from None
    if weights.shape != (n,):
        raise DataError(
            f"sample_weight has shape {weights.shape}; there are {n} sequences, one weight for each"
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise DataError(f"sample_weight[{bad[0]}] is {weights[bad[0]]}; it must be finite and not negative")
    return weights


def hold_out(
    holdout: Any,
    data: WeightedExamples,
    objective: Objective,
    encoder: FeatureEncoder,
    names: LabelSet,
    seed: int,
) -> tuple[WeightedExamples, WeightedExamples | None]:
    """What to learn from, and the hold-out set, if there is one."""
    n = len(data.examples)
    if isinstance(holdout, str) and holdout == "auto":
        holdout = 0.1 if isinstance(objective, Direct) and n >= 10 else None
    if holdout is None:
        return data, None
    if isinstance(holdout, tuple) and len(holdout) == 2:
        inputs = encoder.transform(holdout[0])
        held = Examples(inputs, names.encode(holdout[1], like=inputs.nodes.offsets))
        return data, WeightedExamples(held, np.ones(len(held)), None)
    kept, held_out = split(holdout, n, "sequence", seed)
    return data.take(kept), data.take(held_out)


def split(holdout: Any, n: int, noun: str, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of n examples to learn from, and a random fraction ``holdout`` of them to hold out; both rise."""
    if not isinstance(holdout, float | np.floating) or not 0 < holdout < 1:
        shown = holdout if isinstance(holdout, str | int | float) else f"a {type(holdout).__name__}"
        raise UnsupportedError(
            f"holdout is {shown}; give a fraction between 0 and 1, a pair (X, y), None or 'auto'"
        )
    n_held = round(float(holdout) * n)
    if not 0 < n_held < n:
        raise DataError(
            f"holdout={holdout} of {n} {noun}s leaves {n - n_held} to learn from and {n_held} to hold out; "
            "both must be at least 1"
        )
    order = np.random.default_rng(seed).permutation(n)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


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
    kind = NO_LOSS
    if objective.uses_loss:
        kind = ZERO_ONE if loss.kind == "zero_one" else COSTS
    task = Task(
        labels.codes,
        labels.ambiguous.astype(np.uint8),
        np.zeros((0, k), dtype=bool) if labels.allowed is None else labels.allowed,
        np.zeros((0, k)) if cost is None else cost,
        weight,
    )
    design = layout.design(examples.inputs, sort=True)
    problem = LinearChainProblem(layout, design, penalties, task, objective, kind, **options)
    if objective.uses_loss and loss.kind == "candidates":
        from trellis.structures.chain.problem.chain_candidates import CandidateProblem

        return CandidateProblem.of(problem, loss, labels, names)
    return problem


def holdout_loss(
    held: WeightedExamples,
    layout: LinearLayout,
    penalties: Penalties,
    latent: LatentLabels,
    loss: Loss,
    n_jobs: int,
) -> Callable[[FloatArray], float]:
    """The mean loss of a sequence, weighted by c_i, as a function of the weights."""
    labels = held.examples.labels
    if labels.allowed is not None and labels.allowed.all():
        raise DataError("no held-out step has a known label, so no loss can be measured on them; label some")
    design = layout.design(held.examples.inputs, sort=True)
    chain = Chain(n_jobs)
    cost = held.cost
    if cost is None and loss.kind == "costs":
        cost = loss.costs(labels, latent.labels)
    if not held.weight.sum() > 0:
        raise DataError("every held-out sequence has the weight 0; give them weights, or another holdout")

    def evaluate(weights: FloatArray) -> float:
        states = chain.best(linear_chain_scores(layout, design, penalties, weights, n_jobs)).labels
        found = latent.collapse(states)
        if cost is None:
            losses = loss.per_sequence(labels, found, latent.labels)
        else:
            losses = sum_by_sequence(cost[np.arange(len(found)), found], labels.offsets)
        return float(np.average(losses, weights=held.weight))

    return evaluate


@dataclass(frozen=True, eq=False)
class Trained:
    """The solution, and the epsilon that the hold-out set chose (direct loss)."""

    solution: Solution
    epsilon: float | None = None
    epsilon_losses: dict[float, float] | None = None


def beginning_of(objective: Objective) -> Objective | None:
    """The objective to begin with at w = 0, where all labellings tie and some objectives know no direction.

    Ramp is flat there: it begins at margin, its convex bound. Moving away from worse labellings has no
    better one to move to: it begins where moving toward better ones ends.
    """
    if isinstance(objective, Ramp):
        return Margin()
    if isinstance(objective, Direct) and objective.sign == "worse":
        return replace(objective, sign="better")
    return None


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
    learned: bool,
) -> Trained:
    """Run the solver; for ``Direct(epsilon="holdout")`` once for each candidate epsilon, keeping the one with
    the smallest hold-out loss.

    Where an objective has nothing to hold on to at w = 0, the solver first goes somewhere else, see
    :func:`beginning_of`, unless ``weights`` were ``learned``.
    """
    early = None if held_out is None else EarlyStopping(held_out, patience)

    def run(one: Any, title: str) -> Solution:
        begin = beginning_of(one.objective)
        start = weights
        if begin is not None and not learned:
            start = run(one.with_(objective=begin), f"{title}, where it begins").weights
        with progress_bar(title, max_iter, show) as on_iteration:
            solution: Solution = minimise(
                solver,
                one,
                start,
                max_iter=max_iter,
                rng=np.random.default_rng(seed),
                early_stopping=early,
                on_iteration=on_iteration,
            )
            return solution

    objective = problem.objective
    title = f"{objective.name} by {solver.name}"
    if not isinstance(objective, Direct) or objective.epsilon == "decay":
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
