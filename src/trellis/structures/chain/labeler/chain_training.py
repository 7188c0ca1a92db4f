"""From data and options to trained weights: what ``SequenceLabeler.fit`` does once the data are encoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arguments import check_sample_weight
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import EncodedLabels, LabelSet, flatten_labels
from trellis.data.latent_labels import LatentLabels
from trellis.features.encoded import Encoded, FeatureEncoder
from trellis.losses.labelings import Hamming, Loss, WeightedHamming, class_weights, sum_by_sequence
from trellis.objectives.records import Objective
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.passes.compiled_problem import CompiledChainProblem
from trellis.structures.chain.problem.chain_task import loss_kind, new_task
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores
from trellis.training.holdout import automatic_fraction, hold_out


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
    weight = check_sample_weight(sample_weight, n)
    if not weight.any():
        raise DataError("sample_weight is 0 for every sequence; give at least one positive weight")
    if class_weight is not None and not objective.uses_loss:
        # an unknown label has the code -1, so the last entry, and counts 1
        by_label = np.append(class_weights(class_weight, labels, names), 1.0)
        lengths = np.maximum(np.diff(labels.offsets), 1)
        weight = weight * sum_by_sequence(by_label[labels.codes], labels.offsets) / lengths
    cost = loss.costs(labels, names) if objective.uses_loss and loss.kind == "costs" else None
    return WeightedExamples(examples, weight, cost)


def hold_out_sequences(
    holdout: Any,
    data: WeightedExamples,
    objective: Objective,
    encoder: FeatureEncoder,
    names: LabelSet,
    seed: int,
) -> tuple[WeightedExamples, WeightedExamples | None, LabelSet]:
    """What to learn from, the hold-out set, if there is one, and the labels of its codes: those of training,
    and those that only the hold-out set has, where every prediction is wrong."""
    parts = hold_out(holdout, len(data.examples), "sequence", seed, automatic=automatic_fraction(objective))
    if parts.given is not None:
        inputs, y = encoder.transform(parts.given[0]), flatten_labels(parts.given[1])
        names = names.extended(y)
        held = Examples(inputs, names.encode(y, like=inputs.nodes.offsets))
        return data, WeightedExamples(held, np.ones(len(held)), None), names
    if parts.held is None:
        return data, None, names
    return data.take(parts.kept), data.take(parts.held), names


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
    task, kind = new_task(examples.labels, len(names), weight, cost), loss_kind(objective, loss)
    design = layout.design(examples.inputs, sort=True)
    problem = CompiledChainProblem(layout, design, penalties, task, objective, kind, **options)
    if objective.uses_loss and loss.kind == "candidates":
        from trellis.structures.chain.problem.chain_candidates import CandidateProblem

        return CandidateProblem.of(problem, loss, names)
    return problem


def holdout_loss(
    held: WeightedExamples,
    layout: LinearLayout,
    penalties: Penalties,
    latent: LatentLabels,
    names: LabelSet,
    loss: Loss,
    n_jobs: int,
) -> Callable[[FloatArray], float]:
    """The mean loss of a sequence, weighted by c_i, as a function of the weights; ``names``: the labels of
    the codes of ``held``, the first of which are those of ``latent``."""
    labels = held.examples.labels
    if labels.allowed is not None and labels.allowed.all():
        raise DataError("no held-out step has a known label, so no loss can be measured on them; label some")
    design = layout.design(held.examples.inputs, sort=True)
    chain = Chain(n_jobs)
    cost = held.cost
    if cost is None and loss.kind == "costs":
        cost = loss.costs(labels, names)
    if not held.weight.sum() > 0:
        raise DataError("every held-out sequence has the weight 0; give them weights, or another holdout")

    def evaluate(weights: FloatArray) -> float:
        states = chain.best(linear_chain_scores(layout, design, penalties, weights, n_jobs)).labels
        found = latent.collapse(states)
        if cost is None:
            losses = loss.per_sequence(labels, found, names)
        else:
            losses = sum_by_sequence(cost[np.arange(len(found)), found], labels.offsets)
        return float(np.average(losses, weights=held.weight))

    return evaluate
