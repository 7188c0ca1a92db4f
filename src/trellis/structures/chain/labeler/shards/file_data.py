"""What a labeller learns from, in files: read, counted and encoded shard by shard, where they lie.

Files are read twice: for the vocabulary of features and the labels (counts of shards are added in their
order, so that ids are those of a fit on everything), and to be encoded. Where features have to occur several
times and data are many, they are read once more before that, for a sketch of the counts
(:mod:`trellis.features.count_sketch`): what it shows to be too rare is not counted, and the vocabulary is the
same. Then shards are states on a backend:
those in memory, and others on disk, as :mod:`trellis.core.backends.local_backend` has it, or on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.backends import Backend, PlacedShards
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.heap import release_freed_memory
from trellis.data.constraints import legal_transitions
from trellis.data.labels import LabelSet, flatten_labels
from trellis.data.latent_labels import LatentLabels
from trellis.data.shard_files import comes_in_shards
from trellis.features.array_encoder import ArrayEncoder
from trellis.features.count_sketch import MOST
from trellis.features.encoded import no_steps
from trellis.losses.labelings import balanced_weights
from trellis.objectives.sharded_problem import as_it_is
from trellis.structures.chain.labeler.chain_training import (
    Examples,
    HeldOutLoss,
    WeightedExamples,
    weighted_loss,
)
from trellis.structures.chain.labeler.latent_start import refuse_candidates
from trellis.structures.chain.labeler.shards import shard_questions as questions
from trellis.structures.chain.labeler.shards.shard_problems import (
    ProblemParts,
    sharded_problem,
    taken,
)
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.sparse_layout import SparseLayout, sparse_penalties
from trellis.structures.chain.scores.transition_pairs import TransitionPairs, allowed_pairs
from trellis.training.direct_recipe import Fold
from trellis.training.holdout import hold_out_in_turn
from trellis.training.options import Options

SKETCHED = 5_000_000  # steps from which on rare features are left out by a sketch


@dataclass(frozen=True, eq=False)
class PlacedPart:
    """Some sequences of all shards; ``sizes``: how many of each."""

    shards: PlacedShards
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return sum(self.sizes)


@dataclass(frozen=True, eq=False)
class PlacedSplit:
    """``held``: in shards, or, where the user gave them, in memory."""

    kept: PlacedPart
    held: PlacedPart | WeightedExamples | None
    names: LabelSet


class PlacedHeldOutLoss:
    """The loss of held-out sequences in shards, as a function of the weights."""

    def __init__(self, shards: PlacedShards) -> None:
        self._shards = shards
        self.weight: FloatArray = np.concatenate(shards.ask(questions.held_out_weight))

    def losses(self, weights: FloatArray) -> FloatArray:
        return np.concatenate(self._shards.ask(questions.held_out_losses, weights))

    def __call__(self, weights: FloatArray) -> float:
        return float(np.average(self.losses(weights), weights=self.weight))


class FileData:
    """Sequences of files; ``files.shards()`` has small records with ``read() -> (inputs, labels)``."""

    def __init__(self, model: Any, options: Options, backend: Backend, files: Any) -> None:
        self._model, self._objective = model, options.objective
        recipe = questions.EncoderRecipe.of(model)
        sources = [questions.Source(shard, i) for i, shard in enumerate(files.shards())]
        if not sources:
            raise DataError(f"{files!r} has no shards; give files with sequences")
        placed = backend.place(as_it_is, sources)
        sketch, steps = None, sum(getattr(shard, "n_steps", 0) for shard in files.shards())
        if 1 < recipe.min_count <= MOST and recipe.hashing is None and steps >= SKETCHED:
            sketch = placed.total(questions.sketch_shard, recipe)
        found = placed.total(questions.count_shard, recipe, sketch)
        del sketch
        if found.encoder is None:
            raise DataError("the files have no steps; at least one step is needed")
        self.encoder = found.encoder
        self.encoder.learn(found.counts)
        self.names = names = LabelSet.of_parts([found.labels])
        self.latent = LatentLabels.of(names, model.latent_states)
        refuse_candidates(self.latent, options.objective, options.loss)
        shards = placed.change(questions.encode_shard, self.encoder, names)
        placed.release()
        del found
        self.pairs, self.penalties = self._transitions(shards)
        self.loss, shards = self._weighted(options, shards)
        sizes = shards.ask(questions.shard_sizes)
        self.whole = PlacedPart(shards, tuple(n for n, _ in sizes))
        self._steps = sum(steps for _, steps in sizes)
        self.one_symbol = all(shards.ask(questions.one_symbol))
        self.identity: dict[str, Any] = {}
        if model.checkpoint is not None:
            self.identity["the shards"] = shards.ask(questions.shard_checksum)

    def _transitions(self, shards: PlacedShards) -> tuple[TransitionPairs | None, Penalties]:
        """What ``ChainLabeler._pairs`` and ``_penalties`` say, of all shards."""
        model, latent, names = self._model, self.latent, self.latent.labels
        legal = None if model.constraints is None else legal_transitions(model.constraints, names)
        pairs, given = None, model.transitions
        if not (isinstance(given, str) and given == "all"):
            if isinstance(given, str) and given == "observed":
                seen = shards.total(questions.observed_transitions, len(names)).transitions
                pairs = TransitionPairs.of(seen // len(names), seen % len(names), len(names))
            else:
                pairs = allowed_pairs(given, questions.NO_LABELS, names)
            if legal is not None:
                kept = legal.pair[pairs.source, pairs.target]
                pairs = TransitionPairs.of(pairs.source[kept], pairs.target[kept], pairs.n_labels)
        if legal is not None or pairs is not None:
            shards.ask(questions.check_labels, legal, pairs, names)
        h = latent.label_of
        if pairs is not None:
            pairs = pairs.expand(h)
            every = np.ones(len(h), np.bool_)
            first, last = (every, every) if legal is None else (legal.start[h], legal.end[h])
            return pairs, sparse_penalties(first, last, pairs)
        if legal is None:
            return None, Penalties.none(len(h))
        return None, Penalties.where_not(*latent.expand_legal(legal))

    def _weighted(self, options: Options, shards: PlacedShards) -> tuple[Any, PlacedShards]:
        """Class weights in the loss, or, where the objective does not look at it, as weights of sequences."""
        model, names, class_weight = self._model, self.names, self._model.class_weight
        if isinstance(class_weight, str) and class_weight == "balanced":
            balanced = balanced_weights(shards.total(questions.count_labels, len(names)))
            class_weight = dict(zip(names.labels, balanced.tolist(), strict=True))
        loss = options.loss
        if options.objective.uses_loss:
            loss = weighted_loss(loss, class_weight, questions.NO_LABELS, names)
        table = model.transitions == "all" if isinstance(model.transitions, str) else False
        if table and (class_weight is None or options.objective.uses_loss):
            return loss, shards
        return loss, shards.change(questions.weighted, names, options.objective, loss, class_weight, table)

    def split(self, seed: int) -> list[PlacedSplit]:
        whole, splits = self.whole, []
        noun, holdout = "sequence", self._model.holdout
        for parts in hold_out_in_turn(holdout, len(whole), self._steps, noun, seed, self._objective):
            if parts.given is not None:
                splits.append(PlacedSplit(whole, *self._given(parts.given)))
            elif parts.held is None:
                splits.append(PlacedSplit(whole, None, self.names))
            else:
                splits.append(PlacedSplit(self._part(parts.kept), self._part(parts.held), self.names))
        return splits

    def _given(self, given: tuple[Any, Any]) -> tuple[WeightedExamples, LabelSet]:
        if comes_in_shards(given[0]):
            raise UnsupportedError(
                "held-out sequences are read into memory; give holdout=(X, y), or a fraction of the files"
            )
        inputs, y = self.encoder.transform(given[0]), flatten_labels(given[1])
        extended = self.names.extended(y)
        held = Examples(inputs, extended.encode(y, like=inputs.nodes.offsets))
        return WeightedExamples(held, np.ones(len(held)), None), extended

    def _part(self, numbers: IntArray) -> PlacedPart:
        """The sequences with these numbers, which rise."""
        starts = np.concatenate([[0], np.cumsum(self.whole.sizes)])
        bounds = np.searchsorted(numbers, starts)
        each = [numbers[a:b] - start for a, b, start in zip(bounds, bounds[1:], starts, strict=False)]
        return PlacedPart(self.whole.shards.change_each(taken, each), tuple(map(len, each)))

    def sample(self, part: PlacedPart) -> Examples:
        """Some sequences of the first shard that has several labels."""
        found: questions.Sample | None = part.shards.total(questions.sample_of_shard)
        return Examples(no_steps(self.encoder, 0), questions.NO_LABELS) if found is None else found.examples

    def arrange(self, part: PlacedPart) -> LinearLayout:
        model, k = self._model, len(self.latent.label_of)
        every = model.weights == "all" or (model.weights == "auto" and isinstance(self.encoder, ArrayEncoder))
        nothing, n = no_steps(self.encoder, 0), self.encoder.n_features
        if every:
            self.layout = (
                LinearLayout.all_pairs(nothing, k, boundaries=model.boundaries)
                if self.pairs is None
                else SparseLayout.of(nothing, None, self.pairs, boundaries=model.boundaries)
            )
            return self.layout
        if self.pairs is not None:
            SparseLayout.check_edges(nothing)
        seen = part.shards.total(questions.observed_pairs, self.latent, self.pairs is not None)
        self.layout = (
            LinearLayout.of_pairs(seen, n, self.encoder.n_edge_features, k, boundaries=model.boundaries)
            if self.pairs is None
            else SparseLayout.of_seen(seen, n, self.pairs, boundaries=model.boundaries)
        )
        return self.layout

    def problem(self, part: PlacedPart) -> Any:
        parts = ProblemParts(
            self.layout, self.penalties, self.latent, self._objective, self.loss, self._model._new_problem
        )
        l2 = 0.0 if self._objective.scale_free else self._model.l2
        return sharded_problem(part.shards, parts, l2, self._model.l1)

    def held_out(self, split: Any) -> HeldOutLoss | PlacedHeldOutLoss:
        shared = self.layout, self.penalties, self.latent, split.names, self.loss
        if isinstance(split.held, PlacedPart):
            return PlacedHeldOutLoss(split.held.shards.change(questions.held_out_loss, *shared))
        return HeldOutLoss(split.held, *shared, self._model._threads())

    def fold(self, split: PlacedSplit, measured: Any, kept: Any) -> Fold:
        held = self.problem(split.held) if isinstance(split.held, PlacedPart) else None
        kept = self.problem(split.kept) if kept is None else kept
        return Fold(kept, held, measured.losses, measured.weight)

    def release(self) -> None:
        """Problems have states of their own."""
        self.whole.shards.release()
        self.whole = replace(self.whole, sizes=())
        release_freed_memory()


def refuse_with_files(y: Any, lengths: Any, sample_weight: Any) -> None:
    for name, given in {"y": y, "lengths": lengths, "sample_weight": sample_weight}.items():
        if given is not None:
            raise UnsupportedError(f"{name} does not go with files, which have their labels; leave it out")
