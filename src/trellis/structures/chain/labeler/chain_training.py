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
from trellis.core.oracle import Labels
from trellis.data.labels import EncodedLabels, LabelSet, flatten_labels
from trellis.data.latent_labels import LatentLabels
from trellis.data.sequences import sum_by_sequence
from trellis.features.encoded import Encoded, FeatureEncoder
from trellis.losses.labelings import Hamming, Loss, WeightedHamming, class_weights
from trellis.objectives.records import Objective
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.many_labels.sparse_chain import SparseChain
from trellis.structures.chain.passes.compiled_problem import CompiledChainProblem
from trellis.structures.chain.problem.chain_task import loss_kind, new_task
from trellis.structures.chain.problem.sparse_problem import SparseChainProblem
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Design, Penalties
from trellis.structures.chain.scores.linear_chain_scores import linear_chain_scores
from trellis.structures.chain.scores.sparse_layout import SparseLayout
from trellis.training.direct_recipe import Fold
from trellis.training.holdout import hold_out_in_turn


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
    hamming_table: bool = True  # whether the Hamming loss comes as costs, too

    def __len__(self) -> int:
        return len(self.examples)

    def take(self, sequences: NDArray[np.int64]) -> WeightedExamples:
        """Some of the sequences; ``sequences`` must rise."""
        cost = self.cost
        if cost is not None:
            chosen = np.zeros(len(self.examples), dtype=np.bool_)
            chosen[sequences] = True
            cost = np.ascontiguousarray(cost[np.repeat(chosen, np.diff(self.examples.labels.offsets))])
        return replace(self, examples=self.examples.take(sequences), weight=self.weight[sequences], cost=cost)

    def with_costs(self, loss: Loss, names: LabelSet) -> WeightedExamples:
        """Those of the loss, if it is a sum over steps and they are not there yet."""
        if self.cost is not None or not _has_table(loss, self.hamming_table):
            return self
        return replace(self, cost=loss.costs(self.examples.labels, names))

    def over_states(self, latent: LatentLabels) -> WeightedExamples:
        """The same as examples of chains of states: labels are sets of them, and costs theirs."""
        if latent.plain:
            return self
        examples = Examples(self.examples.inputs, latent.expand(self.examples.labels))
        cost = None if self.cost is None else latent.expand_costs(self.cost)
        return replace(self, examples=examples, cost=cost)


def _has_table(loss: Loss, hamming: bool) -> bool:
    """Whether a loss comes as a table of costs (N, K); the Hamming loss need not, where labels are many."""
    return loss.kind == "costs" and (hamming or not isinstance(loss, Hamming))


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
    *,
    hamming_table: bool = True,
) -> WeightedExamples:
    """c_i is the sample weight, times the mean class weight if the objective does not look at the loss."""
    labels, n = examples.labels, len(examples)
    weight = check_sample_weight(sample_weight, n)
    if not weight.any():
        raise DataError("sample_weight is zero for every sequence; give at least one positive weight")
    if class_weight is not None and not objective.uses_loss:
        # an unknown label has the code -1, so the last entry, and counts 1
        by_label = np.append(class_weights(class_weight, labels, names), 1.0)
        lengths = np.maximum(np.diff(labels.offsets), 1)
        weight = weight * sum_by_sequence(by_label[labels.codes], labels.offsets) / lengths
    table = objective.uses_loss and _has_table(loss, hamming_table)
    return WeightedExamples(examples, weight, loss.costs(labels, names) if table else None, hamming_table)


@dataclass(frozen=True, eq=False)
class Split:
    """What to learn from, what is held out meanwhile, if anything, and the labels of its codes: those of
    training, and those that only the hold-out set has, where every prediction is wrong."""

    kept: WeightedExamples
    held: WeightedExamples | None
    names: LabelSet

    def fold(
        self,
        measured: HeldOutLoss,
        new_problem: Callable[[WeightedExamples], Any],
        names: LabelSet,
        loss: Loss,
        kept: Any,
    ) -> Fold:
        """For fine-tuning; ``names``: the labels of training, and ``kept`` the problem of what to learn from,
        where there is one already."""
        held = None
        if self.held is not None and self.names is names:
            held = new_problem(self.held.with_costs(loss, names))
        kept = new_problem(self.kept) if kept is None else kept
        return Fold(kept, held, measured.losses, measured.weight)


def hold_out_sequences(
    holdout: Any,
    data: WeightedExamples,
    objective: Objective,
    encoder: FeatureEncoder,
    names: LabelSet,
    seed: int,
) -> list[Split]:
    """One split, or several where parts are held out in turn."""
    splits, n, steps = [], len(data.examples), len(data.examples.labels.codes)
    for parts in hold_out_in_turn(holdout, n, steps, "sequence", seed, objective):
        if parts.given is not None:
            inputs, y = encoder.transform(parts.given[0]), flatten_labels(parts.given[1])
            extended = names.extended(y)
            held = Examples(inputs, extended.encode(y, like=inputs.nodes.offsets))
            weighted = replace(data, examples=held, weight=np.ones(len(held)), cost=None)
            splits.append(Split(data, weighted, extended))
        elif parts.held is None:
            splits.append(Split(data, None, names))
        else:
            splits.append(Split(data.take(parts.kept), data.take(parts.held), names))
    labelled = [one.held is None or not _unlabelled(one.held.examples.labels) for one in splits]
    if not any(labelled):
        raise DataError("no held-out step has a known label, so no loss can be measured on them; label some")
    if all(one.held is not None and not one.held.weight.sum() > 0 for one in splits):
        raise DataError("every held-out sequence has the weight 0; give them weights, or another holdout")
    return splits


def _unlabelled(labels: EncodedLabels) -> bool:
    return labels.allowed is not None and bool(labels.allowed.all())


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
    if isinstance(layout, SparseLayout):
        if objective.uses_loss and loss.kind == "candidates":
            raise UnsupportedError(
                f"loss {loss.name!r} is not available for sparse transitions; use loss='hamming', or "
                "transitions='all'"
            )
        return SparseChainProblem(layout, design, penalties, task, objective, kind, **options)
    problem = CompiledChainProblem(layout, design, penalties, task, objective, kind, **options)
    if objective.uses_loss and loss.kind == "candidates":
        from trellis.structures.chain.problem.chain_candidates import CandidateProblem

        return CandidateProblem.of(problem, loss, names)
    return problem


def best_labels(
    layout: LinearLayout, design: Design, penalties: Penalties, weights: FloatArray, n_jobs: int
) -> Labels:
    """The best labelling of every sequence, (N,)."""
    if isinstance(layout, SparseLayout):
        return SparseChain(n_jobs).best(layout.scores(design, penalties, weights)).labels
    return Chain(n_jobs).best(linear_chain_scores(layout, design, penalties, weights, n_jobs)).labels


class HeldOutLoss:
    """The loss of held-out sequences as a function of the weights; ``names``: the labels of the codes of
    ``held``, the first of which are those of ``latent``."""

    def __init__(
        self,
        held: WeightedExamples,
        layout: LinearLayout,
        penalties: Penalties,
        latent: LatentLabels,
        names: LabelSet,
        loss: Loss,
        n_jobs: int,
    ) -> None:
        self._layout, self._penalties, self._latent = layout, penalties, latent
        self._names, self._loss, self._n_jobs = names, loss, n_jobs
        self._labels, self.weight = held.examples.labels, held.weight
        self._design = layout.design(held.examples.inputs, sort=True)
        self._cost = held.cost
        if self._cost is None and _has_table(loss, hamming=False):
            self._cost = loss.costs(self._labels, names)

    def losses(self, weights: FloatArray) -> FloatArray:
        """That of each sequence."""
        found = best_labels(self._layout, self._design, self._penalties, weights, self._n_jobs)
        found = self._latent.collapse(found)
        if self._cost is None:
            return np.asarray(self._loss.per_sequence(self._labels, found, self._names))
        return sum_by_sequence(self._cost[np.arange(len(found)), found], self._labels.offsets)

    def __call__(self, weights: FloatArray) -> float:
        """The mean, weighted by c_i."""
        return float(np.average(self.losses(weights), weights=self.weight))


def one_label_test(
    sample: Examples, layout: LinearLayout, penalties: Penalties, latent: LatentLabels, n_jobs: int
) -> Callable[[FloatArray], bool]:
    """Whether weights give every step of a sample the same label, where it has several."""
    if not len(sample):
        return lambda weights: False
    design = layout.design(sample.inputs, sort=True)

    def one_label(weights: FloatArray) -> bool:
        found = latent.collapse(best_labels(layout, design, penalties, weights, n_jobs))
        return bool(found.min() == found.max())

    return one_label
