"""What a labeller learns from, in memory: encoded in one piece, for one problem or one in shards."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from trellis.core.backends import Backend
from trellis.core.heap import release_freed_memory
from trellis.data.labels import flatten_labels
from trellis.data.latent_labels import LatentLabels
from trellis.data.user_input import as_lists
from trellis.structures.chain.labeler import inspection
from trellis.structures.chain.labeler.chain_training import (
    Examples,
    HeldOutLoss,
    Split,
    WeightedExamples,
    hold_out_sequences,
    weighted_examples,
    weighted_loss,
)
from trellis.structures.chain.labeler.latent_start import refuse_candidates
from trellis.structures.chain.labeler.shards.shard_problems import (
    ProblemParts,
    cuts,
    data_shards,
    placed,
    sharded_problem,
)
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.training.direct_recipe import Fold
from trellis.training.one_label import sample_with_several_labels
from trellis.training.options import Options


class MemoryData:
    """Sequences that are here. ``model``: a labeller with linear scores. ``backend``: where shards are worked
    on; None is one problem."""

    def __init__(
        self,
        model: Any,
        options: Options,
        backend: Backend | None,
        X: Any,
        y: Any,
        lengths: ArrayLike | None,
        sample_weight: Any,
    ) -> None:
        X, y = as_lists(X), flatten_labels(y, lengths)
        self._model, self._objective, self._backend = model, options.objective, backend
        self.encoder = model._new_encoder(X, lengths)
        inputs = self.encoder.fit(X, lengths)
        self.names = names = model._label_set(y)
        self.latent = LatentLabels.of(names, model.latent_states)
        refuse_candidates(self.latent, options.objective, options.loss)
        labels = names.encode(y, like=inputs.nodes.offsets)
        self.pairs = model._pairs(self.latent, labels)
        self.penalties = model._penalties(self.latent, labels, self.pairs)
        self.loss = options.loss
        if options.objective.uses_loss:
            self.loss = weighted_loss(options.loss, model.class_weight, labels, names)
        self.whole = weighted_examples(
            Examples(inputs, labels),
            names,
            options.objective,
            self.loss,
            sample_weight,
            model.class_weight,
            hamming_table=self.pairs is None,
        )
        self.one_symbol = inspection.one_symbol_per_step(inputs)
        self.identity = {"X": inputs, "y": labels, "sample_weight": self.whole.weight}
        if backend is not None:
            self.identity["the shards"] = cuts(labels.offsets)

    def split(self, seed: int) -> list[Split]:
        return hold_out_sequences(
            self._model.holdout, self.whole, self._objective, self.encoder, self.names, seed
        )

    def sample(self, part: WeightedExamples) -> Examples:
        """Some sequences, with several labels where there are."""
        return part.examples.take(sample_with_several_labels(part.examples.labels))

    def arrange(self, part: WeightedExamples) -> LinearLayout:
        """The layout of weights for what is learned from, which problems have from here on."""
        n_states = len(self.latent.label_of)
        examples = part.over_states(self.latent).examples
        layout: LinearLayout = self._model._layout(examples, self.encoder, n_states, self.pairs)
        self.layout = layout
        return layout

    def problem(self, part: WeightedExamples) -> Any:
        model, objective = self._model, self._objective
        if self._backend is not None:
            parts = ProblemParts(
                self.layout, self.penalties, self.latent, objective, self.loss, model._new_problem
            )
            shards = placed(self._backend, data_shards(part))
            return sharded_problem(shards, parts, 0.0 if objective.scale_free else model.l2, model.l1)
        data = part.over_states(self.latent)
        return model._problem(data, self.layout, self.penalties, self.latent, objective, self.loss, model.l2)

    def held_out(self, split: Any) -> HeldOutLoss:
        return HeldOutLoss(
            split.held, self.layout, self.penalties, self.latent, split.names, self.loss,
            self._model._threads(),
        )  # fmt: skip

    def fold(self, split: Split, measured: HeldOutLoss, kept: Any) -> Fold:
        return split.fold(measured, self.problem, self.names, self.loss, kept)

    def release(self) -> None:
        """Problems have arrangements of their own: memory for the solver."""
        del self.whole, self.identity
        release_freed_memory()
