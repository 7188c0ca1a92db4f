"""Prediction of all labellers of chains: a subclass computes part scores, and the oracle does the rest."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arguments import check_choice, check_sample_weight
from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.estimator import Model, check_fitted
from trellis.core.parameters import fitted
from trellis.core.status import Status
from trellis.data.answers import Answers
from trellis.data.labels import EncodedLabels, LabelSet, flatten_labels
from trellis.data.latent_labels import LatentLabels
from trellis.features.step_transformer import StepTransformer
from trellis.losses.labelings import DECODINGS, get_loss
from trellis.structures.chain.labeler.minimum_risk import minimum_risk
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores

if TYPE_CHECKING:
    from trellis.structures.chain.oracle.many_labels.beam_search import BeamLabellings


class ChainPredictor(StepTransformer, Model):
    """The base of labellers of chains; a subclass offers ``fit`` and ``scores``."""

    latent_: LatentLabels = fitted()
    labels_: LabelSet = fitted(saved=False)
    classes_: NDArray[Any] = fitted(
        "The labels, in the order of the columns of ``predict_marginals``.", saved=False
    )
    status_: Status = fitted("Why training stopped, in a sentence.")
    history_: dict[str, list[float]] = fitted("What was measured at each iteration.")
    n_iter_: int = fitted("The number of iterations.")

    def scores(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """The part scores of new sequences: what :class:`trellis.structures.chain.Chain` takes."""
        raise NotImplementedError

    def _chain(self) -> Any:
        """The oracle that takes the scores."""
        return Chain(self._threads())

    def _keep_labels(self, latent: LatentLabels) -> None:
        self.latent_ = latent
        self.labels_ = names = latent.labels
        self.classes_ = np.empty(len(names), dtype=object)
        self.classes_[:] = names.labels

    def predict(self, X: Any, *, lengths: ArrayLike | None = None, decoding: str = "best") -> list[list[Any]]:
        """The best labelling of sequences, or (``decoding="minimum_risk"``) the one with the smallest
        expected loss among those that the constraints allow, by the ``loss`` of the model (of a model without
        one: the fewest expected errors); see :mod:`.minimum_risk`."""
        codes, offsets = self.predict_codes(X, lengths=lengths, decoding=decoding)
        return self.labels_.decode(codes, offsets)

    def predict_codes(
        self, X: Any, *, lengths: ArrayLike | None = None, decoding: str = "best"
    ) -> tuple[NDArray[np.int32], IntArray]:
        """``predict`` as indices into ``classes_``, packed, with the offsets of the sequences."""
        check_choice("decoding", decoding, DECODINGS)
        scores = self.scores(X, lengths=lengths)
        chain = self._chain()
        if decoding == "best":
            return self.latent_.collapse(chain.best(scores).labels), scores.offsets
        loss = get_loss(getattr(self, "loss", "hamming"))
        return minimum_risk(chain, scores, self.latent_, loss), scores.offsets

    def predict_beam(
        self, X: Any, beam: int = 64, max_beam: int | None = None, *, lengths: ArrayLike | None = None
    ) -> tuple[list[list[Any]], BeamLabellings]:
        """Labellings found by beam search, and what is known about them: for models of many labels, whose
        exact search takes long. ``found.exact`` says which are proved to be those of ``predict``, and no
        labelling scores more than ``found.bounds``.

        The ``beam`` most promising labels of each step are kept; where that proves nothing, twice as many,
        and so on up to ``max_beam``. See :mod:`trellis.structures.chain.oracle.many_labels.beam_search`."""
        from trellis.structures.chain.oracle.many_labels.beam_search import beam_search

        scores = self.scores(X, lengths=lengths)
        if not isinstance(scores, ChainScores):
            raise UnsupportedError("sparse transitions are searched exactly and need no beam; use predict")
        found = beam_search(scores, beam, max_beam, self._threads())
        return self.labels_.decode(self.latent_.collapse(found.labels), scores.offsets), found

    def predict_marginals(self, X: Any, *, lengths: ArrayLike | None = None) -> list[FloatArray]:
        """P(y_t = k | x) under the log-linear model: a (length, n_labels) array for each sequence."""
        scores = self.scores(X, lengths=lengths)
        marginals = self.latent_.sum_states(self._chain().marginals(scores).unary)
        return Answers(marginals[a:b] for a, b in pairwise(scores.offsets))

    def _step_probabilities(self, X: Any, lengths: ArrayLike | None) -> Any:
        return self.predict_marginals(X, lengths=lengths)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of ``transform``: the labels, as text (1 and "1" by their ``repr``)."""
        check_fitted(self, "labels_")
        labels = self.labels_.labels
        spelled = repr if len(set(map(str, labels))) < len(labels) else str
        return np.array([spelled(label) for label in labels], dtype=object)

    def predict_k_best(
        self, X: Any, k: int, *, lengths: ArrayLike | None = None
    ) -> list[list[tuple[list[Any], float]]]:
        """For each sequence the k best labellings with their scores, best first (fewer if fewer exist)."""
        scores = self.scores(X, lengths=lengths)
        if not self.latent_.plain:
            raise UnsupportedError(
                "labels have several latent states, and the k best sequences of states are not the k best "
                "labellings; for states use trellis.structures.chain.Chain().k_best(model.scores(X), k)"
            )
        ranked = self._chain().k_best(scores, k)
        found: list[list[tuple[list[Any], float]]] = Answers([] for _ in range(scores.n_sequences))
        for rank in range(len(ranked.labels)):
            decoded = self.labels_.decode(np.maximum(ranked.labels[rank], 0), scores.offsets)
            for i in np.flatnonzero(ranked.counts > rank):
                found[i].append((decoded[i], float(ranked.scores[i, rank])))
        return found

    def predict_log_proba(self, X: Any, y: Any = None, *, lengths: ArrayLike | None = None) -> FloatArray:
        """log p(y | x) of the given labellings, or of the predicted ones, (n_sequences,).

        Where ``y`` has None or sets, it is that of all labellings that agree with it.
        """
        scores = self.scores(X, lengths=lengths)
        chain = self._chain()
        total: FloatArray = chain.log_partition(scores)
        if y is None:
            best = chain.best(scores)
            if self.latent_.plain:
                return np.asarray(best.scores - total)
            known = EncodedLabels(self.latent_.collapse(best.labels), None, scores.offsets)
        else:
            known = self.labels_.encode(y, lengths, like=scores.offsets)
        labels = self.latent_.expand(known)
        if labels.allowed is not None:
            return np.asarray(chain.log_partition(scores.restricted(labels.allowed)) - total)
        return np.asarray(chain.score(scores, labels.codes) - total)

    def score(self, X: Any, y: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None) -> float:
        """The fraction of correct labels among the known ones (``sample_weight`` weighs sequences). A label
        that training did not see counts as known, so that every prediction there is wrong."""
        codes, offsets = self.predict_codes(X, lengths=lengths)
        y = flatten_labels(y, lengths)
        gold = self.labels_.extended(y).encode(y, like=offsets)
        weight = check_sample_weight(sample_weight, len(offsets) - 1)
        steps = np.repeat(weight, np.diff(offsets)) * (gold.codes >= 0)
        if steps.sum() == 0:
            raise DataError("there is nothing to score: no step has a known label and a positive weight")
        return float((steps * (gold.codes == codes)).sum() / steps.sum())
