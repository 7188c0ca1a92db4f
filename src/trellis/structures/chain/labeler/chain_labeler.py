"""The base of labellers with linear scores: features, constraints, and the layout of the weights.

Subclasses learn the weights and define the scores; prediction is shared by all labellers of chains
(:mod:`.chain_predictor`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import FloatArray
from trellis.core.backends import as_backend
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import ModelFileError
from trellis.core.estimator import check_fitted
from trellis.core.parameters import fitted, parameter
from trellis.data.constraints import check_legal, legal_transitions
from trellis.data.labels import EncodedLabels, FlatLabels, LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.data.shard_files import as_shard_files, comes_in_shards
from trellis.features.array_encoder import ArrayEncoder
from trellis.features.encoded import FeatureEncoder
from trellis.features.hashed_template import HashedTemplate
from trellis.features.template_encoder import TemplateEncoder
from trellis.losses.labelings import Loss
from trellis.objectives.records import Objective
from trellis.structures.chain.labeler import inspection
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor
from trellis.structures.chain.labeler.chain_training import Examples, WeightedExamples, linear_problem
from trellis.structures.chain.labeler.memory_data import MemoryData
from trellis.structures.chain.labeler.shards.file_data import FileData, refuse_with_files
from trellis.structures.chain.labeler.shards.file_prediction import answers_of_files, score_of_files
from trellis.structures.chain.labeler.shards.shard_questions import EncoderRecipe
from trellis.structures.chain.labeler.training_data import TrainingData
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.sparse_layout import SparseLayout, sparse_penalties
from trellis.structures.chain.scores.transition_pairs import TransitionPairs
from trellis.training import declarations as declared
from trellis.training.options import Options


class ChainLabeler(ChainPredictor):
    """The base of labellers with linear scores; a subclass offers ``fit`` and ``scores``."""

    l2: float = parameter(default=declared.L2)
    l1: float = parameter(default=declared.L1)
    max_iter: int | None = parameter(default=declared.MAX_ITER)
    tol: float | None = parameter(default=declared.TOL)
    delta: float | None = parameter(default=declared.DELTA)
    period: int | None = parameter(default=declared.PERIOD)
    n_jobs: int | None = parameter(default=declared.N_JOBS)
    constraints: Any = parameter(default=declared.CONSTRAINTS)
    template: Any = parameter(default=declared.TEMPLATE)
    transition_features: Any = parameter(default=declared.TRANSITION_FEATURES)
    min_count: int = parameter(default=declared.MIN_COUNT)
    hashing: int | None = parameter(default=declared.HASHING)
    weights: str = parameter(default=declared.WEIGHTS)
    boundaries: bool = parameter(default=declared.BOUNDARIES)
    verbose: bool | None = parameter(default=declared.VERBOSE)
    checkpoint: Any = parameter(default=declared.CHECKPOINT)
    backend: Any = parameter(default=declared.BACKEND)
    max_memory: int | str | None = parameter(default=declared.MAX_MEMORY)

    encoder_: FeatureEncoder = fitted()
    layout_: LinearLayout = fitted()
    penalties_: Penalties = fitted()
    weights_: FloatArray = fitted("The weights, in the order of ``layout_``.")

    _new_problem = staticmethod(linear_problem)  # of examples, here or in a shard

    # -- what learning begins with ----------------------------------------------------------------------

    def _training_data(
        self, options: Options, X: Any, y: Any, lengths: ArrayLike | None, sample_weight: Any
    ) -> TrainingData:
        """Sequences in memory, in one piece or in shards; or files."""
        backend = as_backend(self.backend, self.n_jobs, self.max_memory)
        files = as_shard_files(X) or X
        if not comes_in_shards(files):
            return MemoryData(self, options, backend, X, y, lengths, sample_weight)
        refuse_with_files(y, lengths, sample_weight)
        return FileData(self, options, backend or LocalBackend(self.n_jobs, self.max_memory), files)

    def _label_set(self, y: FlatLabels) -> LabelSet:
        return LabelSet.of(y)

    def _new_encoder(self, X: Any, lengths: ArrayLike | None) -> FeatureEncoder:
        return EncoderRecipe.of(self).new_encoder(X, flat=lengths is not None)

    def _pairs(self, latent: LatentLabels, labels: EncodedLabels) -> TransitionPairs | None:
        """The pairs of labels that may follow each other, where they are a list; None where all may."""
        return None

    def _penalties(
        self, latent: LatentLabels, labels: EncodedLabels, pairs: TransitionPairs | None = None
    ) -> Penalties:
        if self.constraints is None:
            if pairs is not None:
                every = np.ones(len(latent.label_of), np.bool_)
                return sparse_penalties(every, every, pairs)
            return Penalties.none(len(latent.label_of))
        legal = legal_transitions(self.constraints, latent.labels, labels)
        check_legal(labels, legal, latent.labels)
        if pairs is not None:
            h = latent.label_of
            return sparse_penalties(legal.start[h], legal.end[h], pairs)
        return Penalties.where_not(*latent.expand_legal(legal))

    def _layout(
        self,
        examples: Examples,
        encoder: FeatureEncoder,
        n_labels: int,
        pairs: TransitionPairs | None = None,
    ) -> LinearLayout:
        every = self.weights == "all" or (self.weights == "auto" and isinstance(encoder, ArrayEncoder))
        if pairs is not None:
            seen = None if every else examples.labels
            return SparseLayout.of(examples.inputs, seen, pairs, boundaries=self.boundaries)
        if every:
            return LinearLayout.all_pairs(examples.inputs, n_labels, boundaries=self.boundaries)
        labels = examples.labels
        return LinearLayout.observed(
            examples.inputs, labels.codes, labels.allowed, n_labels, boundaries=self.boundaries
        )

    def _problem(
        self,
        data: WeightedExamples,
        layout: LinearLayout,
        penalties: Penalties,
        latent: LatentLabels,
        objective: Objective,
        loss: Loss,
        l2: float,
    ) -> Any:
        l2 = 0.0 if objective.scale_free else l2  # the loss does not change when w is scaled
        return self._new_problem(
            data.examples,
            layout,
            penalties,
            latent.states,
            objective,
            loss,
            data.weight,
            data.cost,
            l2=l2,
            l1=self.l1,
            n_jobs=self._threads(),
        )

    def _keep(
        self,
        encoder: FeatureEncoder,
        latent: LatentLabels,
        layout: LinearLayout,
        penalties: Penalties,
        weights: FloatArray,
    ) -> None:
        self.encoder_ = encoder
        self._keep_labels(latent)
        self.layout_ = layout
        self.penalties_ = penalties
        self.weights_ = weights

    def _saved_parameters(self) -> dict[str, Any]:
        kept = super()._saved_parameters()
        if isinstance(self.encoder_, TemplateEncoder | HashedTemplate):
            kept["template"] = self.encoder_.template  # its file may not exist where the model is loaded
        return kept

    def _check_loaded(self) -> None:
        latent, layout, encoder = self.latent_, self.layout_, self.encoder_
        k = layout.n_labels
        if (k, len(layout.row_of), layout.n_edge) != (
            len(latent.label_of),
            encoder.n_features,
            encoder.n_edge_features,
        ):
            raise ModelFileError("its weights do not fit its features and labels")
        shapes = {"start": (k,), "transitions": layout.transition_shape, "end": (k,)}
        for name, array in {"weights": self.weights_, **self.penalties_._asdict()}.items():
            shape = shapes.get(name, (layout.dimension,))
            if array.dtype != np.float64 or array.shape != shape:
                raise ModelFileError(f"{name} of shape {array.shape} should be float64 of shape {shape}")
        if not np.isfinite(self.weights_).all():
            raise ModelFileError("some of its weights are not finite")
        if not all(np.isin(part, (0.0, -np.inf)).all() for part in self.penalties_):
            raise ModelFileError("its constraints are neither 0 nor -inf")
        self._keep(encoder, latent, layout, self.penalties_, self.weights_)

    # -- answers about files ---------------------------------------------------------------

    def predict(self, X: Any, *, lengths: ArrayLike | None = None, decoding: str = "best") -> Any:
        """The best labelling of sequences, or (``decoding="minimum_risk"``) the one with the smallest
        expected loss among those that the constraints allow, by the ``loss`` of the model; see
        :mod:`.minimum_risk`. Of files (:class:`trellis.ShardFiles`, a path or a pattern): an iterator over
        the sequences in their order, whose memory does not grow with the files."""
        files = as_shard_files(X)
        if files is None:
            return super().predict(X, lengths=lengths, decoding=decoding)
        check_fitted(self, "weights_")
        return answers_of_files(self, files, "predict", decoding=decoding)

    def predict_marginals(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """P(y_t = k | x) under the log-linear model: a (length, n_labels) array for each sequence; of files
        an iterator, as in ``predict``."""
        files = as_shard_files(X)
        if files is None:
            return super().predict_marginals(X, lengths=lengths)
        check_fitted(self, "weights_")
        return answers_of_files(self, files, "predict_marginals")

    def score(
        self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None, sample_weight: Any = None
    ) -> float:
        """The fraction of correct labels among the known ones (``sample_weight`` weighs sequences). A label
        that training did not see counts as known, so that every prediction there is wrong. Files have their
        labels: ``y`` is None."""
        files = as_shard_files(X)
        if files is None:
            return super().score(X, y, lengths=lengths, sample_weight=sample_weight)
        check_fitted(self, "weights_")
        refuse_with_files(y, lengths, sample_weight)
        return score_of_files(self, files)

    # -- inspection -------------------------------------------------------------------------

    def strongest_weights(self, n: int = 10) -> dict[Any, list[tuple[str, float]]]:
        """For each label (or latent state) the ``n`` features with the largest weights in absolute value."""
        check_fitted(self, "weights_")
        return inspection.strongest_weights(self, n)

    def transition_table(self) -> FloatArray:
        """Scores of transitions from label (or latent state) j, the row, to k; -inf where forbidden."""
        check_fitted(self, "weights_")
        scores: FloatArray = self.layout_.views(self.weights_).transitions + self.penalties_.transitions
        return self.layout_.transition_table(scores)
