"""What shards of sequences are asked before training: plain functions of a shard, without side effects."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.checksums import checksum
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.constraints import LegalTransitions, check_legal
from trellis.data.labels import EncodedLabels, FlatLabels, LabelSet, flatten_labels, labels_in
from trellis.data.latent_labels import LatentLabels
from trellis.features.count_sketch import CountSketch
from trellis.features.encoded import FeatureEncoder, no_steps
from trellis.features.encoders import encoder_for, template_encoder
from trellis.features.templates import Template, as_template
from trellis.losses.labelings import Loss, label_counts
from trellis.objectives.records import Objective
from trellis.structures.chain.labeler import inspection
from trellis.structures.chain.labeler.chain_training import (
    Examples,
    HeldOutLoss,
    WeightedExamples,
    weighted_examples,
)
from trellis.structures.chain.labeler.shards.shard_problems import DataShard
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.observed_pairs import ObservedPairs
from trellis.structures.chain.scores.transition_pairs import TransitionPairs, check_pairs
from trellis.structures.chain.scores.transition_pairs import observed_pairs as pairs_of_labels
from trellis.training.one_label import sample_with_several_labels

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.chain_labeler import ChainLabeler

NO_LABELS = EncodedLabels(np.zeros(0, np.int32), None, np.zeros(1, np.int64))
SAMPLED = 64  # shards that are looked at for a sample of sequences


@dataclass(frozen=True, eq=False)
class Source:
    """Where a shard lies: a record with ``read() -> (inputs, labels)``, and its number."""

    shard: Any
    number: int

    @property
    def where(self) -> str:
        return str(getattr(self.shard, "name", f"shard {self.number}"))

    def read(self) -> tuple[Any, FlatLabels]:
        X, y = self.shard.read()
        if y is None:
            raise DataError(f"{self.where}: there are no labels to learn from; name their column")
        return X, flatten_labels(y) if len(y) else FlatLabels([], np.zeros(1, np.int64))

    @contextmanager
    def located(self, X: Any) -> Iterator[None]:
        """Messages about steps of a shard name its file."""
        try:
            yield
        except DataError as error:
            if not hasattr(self.shard, "located"):
                raise DataError(f"{self.where}: {error}", error.step) from error
            raise self.shard.located(error, X) from error


@dataclass(frozen=True, eq=False)
class EncoderRecipe:
    """The options of encoders, without the model that they are of."""

    template: Template | None
    transition_features: Any
    min_count: int
    hashing: int | None

    @classmethod
    def of(cls, model: ChainLabeler) -> EncoderRecipe:
        keys = () if model.transition_features is None else model.transition_features
        if model.template is None:
            return cls(None, keys, model.min_count, model.hashing)
        if not isinstance(model.template, str | os.PathLike | Template):
            raise DataError(f"template is {model.template!r}; give a path or a Template")
        if keys is True or keys:
            raise UnsupportedError(
                "transition_features do not apply to a template; write B lines like B01:%x[0,0] in it"
            )
        return cls(as_template(model.template), (), model.min_count, model.hashing)

    def new_encoder(self, X: Any, *, flat: bool = False) -> FeatureEncoder:
        if self.template is not None:
            return template_encoder(self.template, self.min_count, self.hashing)
        return encoder_for(X, self.min_count, self.transition_features, flat=flat, hashing=self.hashing)


@dataclass(frozen=True, eq=False)
class ShardCounts:
    """An encoder that has learned nothing yet, what it is to learn from (both None where there is no step),
    and the labels in the order of their first appearance."""

    encoder: FeatureEncoder | None
    counts: Any
    labels: list[Any]

    def __add__(self, other: ShardCounts) -> ShardCounts:
        labels = list(dict.fromkeys([*self.labels, *other.labels]))
        if self.encoder is None or other.encoder is None:
            some = self if other.encoder is None else other
            return ShardCounts(some.encoder, some.counts, labels)
        if type(self.encoder) is not type(other.encoder):
            raise DataError("shards hold inputs of different kinds; all must be columns, names or arrays")
        return ShardCounts(self.encoder, self.counts + other.counts, labels)


def count_shard(source: Source, recipe: EncoderRecipe, sketch: CountSketch | None = None) -> ShardCounts:
    X, y = source.read()
    with source.located(X):
        labels = labels_in(*y)
        if not len(y.labels):
            return ShardCounts(None, None, labels)
        encoder = recipe.new_encoder(X)
        counts = encoder.count(X)
        if sketch is not None:
            counts = counts.without_rare(sketch, recipe.min_count)
        return ShardCounts(encoder, counts, labels)


def sketch_shard(source: Source, recipe: EncoderRecipe) -> CountSketch | None:
    """Of the counts of features; None where the features of a shard are no names."""
    X, y = source.read()
    if not len(y.labels):
        return None
    with source.located(X):
        counts = recipe.new_encoder(X).count(X)
    return CountSketch.of(counts.hashed()) if hasattr(counts, "hashed") else None


def encode_shard(source: Source, encoder: FeatureEncoder, names: LabelSet) -> DataShard:
    X, y = source.read()
    with source.located(X):
        n = len(y.offsets) - 1
        inputs = encoder.encode(X) if len(y.labels) else no_steps(encoder, n)
        labels = names.encode(y, like=inputs.nodes.offsets)
    return DataShard(
        WeightedExamples(Examples(inputs, labels), np.ones(n), None), source.number, source.where
    )


def shard_sizes(shard: DataShard) -> tuple[int, int]:
    """Sequences and steps."""
    labels = shard.data.examples.labels
    return len(labels.offsets) - 1, len(labels.codes)


def shard_checksum(shard: DataShard) -> str:
    return checksum([shard.data.examples.inputs, shard.data.examples.labels, shard.data.weight])


def one_symbol(shard: DataShard) -> bool:
    return inspection.one_symbol_per_step(shard.data.examples.inputs)


def count_labels(shard: DataShard, n_labels: int) -> NDArray[np.int64]:
    return label_counts(shard.data.examples.labels, n_labels)


def observed_transitions(shard: DataShard, n_labels: int) -> ObservedPairs:
    found = pairs_of_labels(shard.data.examples.labels, n_labels)
    codes = np.sort(found.source.astype(np.int64) * n_labels + found.target)
    return ObservedPairs(np.zeros(0, np.int64), codes)


def observed_pairs(shard: DataShard, latent: LatentLabels, sparse: bool) -> ObservedPairs:
    """Those of features and of transitions with states."""
    examples = shard.data.over_states(latent).examples
    return ObservedPairs.of(examples.inputs, examples.labels, len(latent.label_of), sparse=sparse)


def check_labels(
    shard: DataShard, legal: LegalTransitions | None, pairs: TransitionPairs | None, names: LabelSet
) -> None:
    labels = shard.data.examples.labels
    try:
        if pairs is not None:
            check_pairs(labels, pairs, names)
        if legal is not None:
            check_legal(labels, legal, names)
    except DataError as error:
        raise DataError(f"{shard.where}: {error}") from error


def weighted(
    shard: DataShard,
    names: LabelSet,
    objective: Objective,
    loss: Loss,
    class_weight: Any,
    hamming_table: bool,
) -> DataShard:
    """Sequences weighted by their classes; costs come with the problem."""
    if not len(shard.data.examples):
        return shard
    weight = None if objective.uses_loss else class_weight
    data = weighted_examples(
        shard.data.examples, names, objective, loss, None, weight, hamming_table=hamming_table
    )
    return replace(shard, data=replace(data, cost=None))


@dataclass(frozen=True, eq=False)
class Sample:
    """Some sequences; the sum of samples is the first one, so that only a few are held at once."""

    examples: Examples

    def __add__(self, other: Sample) -> Sample:
        return self


def sample_of_shard(shard: DataShard) -> Sample | None:
    if shard.number >= SAMPLED:
        return None
    examples = shard.data.examples
    some = sample_with_several_labels(examples.labels)
    return Sample(examples.take(some)) if len(some) else None


def held_out_loss(
    shard: DataShard,
    layout: LinearLayout,
    penalties: Penalties,
    latent: LatentLabels,
    names: LabelSet,
    loss: Loss,
) -> HeldOutLoss | None:
    if not len(shard.data.examples):
        return None
    return HeldOutLoss(shard.data, layout, penalties, latent, names, loss, 1)


def held_out_weight(measured: HeldOutLoss | None) -> FloatArray:
    return np.zeros(0) if measured is None else measured.weight


def held_out_losses(measured: HeldOutLoss | None, weights: FloatArray) -> FloatArray:
    return np.zeros(0) if measured is None else measured.losses(weights)
