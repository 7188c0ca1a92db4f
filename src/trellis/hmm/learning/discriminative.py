"""Discriminative training of a hidden Markov model, and conversion back to probabilities.

With the natural features T of an emission (:mod:`trellis.hmm.emissions.natural`) the log-joint of an HMM is a
score that is linear in its parameters, up to what depends on x alone:

    log p(x, y) = start[y_1] + sum_{t>1} A[y_{t-1}, y_t] + sum_t T(x_t) . w[:, y_t] + sum_t c(x_t),

start = log initial, A = log transitions. Freed from the constraint that these are log-probabilities, it is a
chain whose p(y | x) any chain objective can train: :class:`LogLinearHMM`, a ``SequenceLabeler`` on these
features. Training starts from the maximum-likelihood parameters; a probability of 0 there that the
constraints do not forbid starts as a tenth of the smallest probability.

Objectives that compare best labellings only (perceptron, margin, slack, direct, ramp) determine their weights
up to a factor. The weights are multiplied by the factor that minimises the log objective on the same data,
with the same l2, which leaves the best labellings unchanged.

Conversion back: the trained chain defines p_u(x, y) = exp<Phi(x, y), u> / Z, whose emissions are normalised
by ``from_natural`` and whose transitions by a backward pass (``hmm_conversion``). One choice is free: adding
the same vector g to the weights of all states multiplies p_u(x, y) by a function of x alone, and leaves
p(y | x) unchanged. The g chosen is the one that brings the weights nearest to those of maximum likelihood; if
a Gaussian's precision is then not positive definite, g also raises the precisions of all states until it is
(``natural_shift``). So every trained chain has a proper HMM with the same p(y | x). The transitions are

    length=None   those of the limit for long sequences. p(y | x) is then that of the trained chain times
                  b[y_n], the last backward message, for every x and n: an effect on the last few steps.
    length=n      expected transitions, counted over sequences of n steps: the nearest chain (in the
                  Kullback-Leibler sense) whose transitions are the same at every step.

A step that is entirely missing has no features, so its score is 0 in every state. That is its marginal at
the maximum-likelihood start; afterwards the HMM marginalises, and the chain that was trained does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.data.labels import EncodedLabels, FlatLabels, LabelSet
from trellis.data.latent_labels import LatentLabels
from trellis.data.sequences import Sequences
from trellis.features.array_encoder import ArrayEncoder
from trellis.features.encoded import Encoded, FeatureEncoder
from trellis.hmm.emissions import Emission
from trellis.hmm.hmm_parameters import HMMParameters
from trellis.hmm.observations import Observations
from trellis.hmm.transition_constraints import TransitionConstraints
from trellis.objectives.records import get_objective
from trellis.structures.chain.labeler.chain_training import Examples
from trellis.structures.chain.labeler.hmm_conversion import normalised_chain
from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.scores.chain_scores import ChainScores
from trellis.structures.chain.scores.linear_chain import LinearLayout
from trellis.structures.chain.scores.linear_chain_kernels import Penalties
from trellis.structures.chain.scores.transition_pairs import TransitionPairs

FACTORS = (np.log(1e-6), np.log(1e2))  # bounds of the log of the factor that rescales weights


class NaturalEncoder(ArrayEncoder):
    """Observations as the natural features of an emission."""

    def __init__(self, emission: Emission) -> None:
        super().__init__()
        self.emission = emission

    def fit(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        return super().fit(*self._features(X, lengths))

    def transform(self, X: Any, lengths: ArrayLike | None = None) -> Encoded:
        return super().transform(*self._features(X, lengths))

    def _features(self, X: Any, lengths: ArrayLike | None) -> tuple[Any, ArrayLike]:
        def natural(values: Any) -> Any:
            return self.emission.natural_features(self.emission.check(values))

        packed = Sequences.pack(X, lengths, check=natural)
        return packed.values, packed.lengths


class LogLinearHMM(SequenceLabeler):
    """The chain that an HMM is, with its parameters as free weights; see :meth:`from_hmm`."""

    source: HMMParameters
    transition_constraints: TransitionConstraints

    @classmethod
    def from_hmm(
        cls, source: HMMParameters, constraints: TransitionConstraints, **options: Any
    ) -> LogLinearHMM:
        """The chain to be trained from the HMM ``source``, with the options of ``SequenceLabeler``."""
        if constraints.tied:
            raise UnsupportedError(
                "discriminative training has a weight for every transition, so it cannot keep "
                "tied_transitions; omit them, or use fit"
            )
        source.emission.natural_weights()  # an emission without any is refused before its data are read
        chain = cls(**options)
        chain.source, chain.transition_constraints = source, constraints
        return chain

    def _new_encoder(self, X: Any, lengths: ArrayLike | None) -> FeatureEncoder:
        return NaturalEncoder(self.source.emission)

    def _label_set(self, y: FlatLabels) -> LabelSet:
        return LabelSet(range(self.source.n_states))

    def _penalties(
        self, latent: LatentLabels, labels: EncodedLabels, pairs: TransitionPairs | None = None
    ) -> Penalties:
        ends = np.ones(len(latent.labels), dtype=np.bool_)
        fixed = self.transition_constraints
        return Penalties.where_not(fixed.allowed_initial, fixed.allowed, ends)

    def _layout(
        self,
        examples: Examples,
        encoder: FeatureEncoder,
        n_labels: int,
        pairs: TransitionPairs | None = None,
    ) -> LinearLayout:
        """Every feature with every state; no scores for the last state, which an HMM does not have."""
        layout = LinearLayout.all_pairs(examples.inputs, n_labels, boundaries=True)
        trained = np.ones(layout.dimension)
        layout.views(trained).end[:] = 0.0
        return replace(layout, mask=trained.astype(np.uint8))

    def _starting_point(self) -> Any:
        return self.source

    def _start(self, layout: LinearLayout, latent: LatentLabels, encoder: FeatureEncoder) -> FloatArray:
        start, steps, weights = self._source_weights()
        rest = np.concatenate([steps.ravel(), start, np.zeros(len(start))])
        return layout.from_dense(weights, rest)

    def _source_weights(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """The weights of the HMM that training starts from: (K,), (K, K) and (F, K)."""
        with np.errstate(divide="ignore"):
            start, steps = np.log(self.source.initial), np.log(self.source.transitions)
        return (
            _finite(start, self.transition_constraints.allowed_initial),
            _finite(steps, self.transition_constraints.allowed),
            _finite(self.source.emission.natural_weights(), True),
        )

    def calibrate(self, X: Any, y: Any, lengths: ArrayLike | None) -> None:
        """Multiply the weights by the factor that minimises the log objective, a function of one variable."""
        scores = self.scores(X, lengths=lengths)
        labels = self.labels_.encode(y, lengths, like=scores.offsets)
        chain, norm = Chain(self._threads()), float(self.weights_ @ self.weights_)

        def objective(log_factor: float) -> float:
            factor = float(np.exp(log_factor))
            scaled = ChainScores(
                factor * scores.unary,
                factor * scores.transitions,
                factor * scores.start,
                factor * scores.end,
                scores.offsets,
            )
            right = scaled if labels.allowed is None else scaled.restricted(labels.allowed)
            gold = chain.score(right, labels.codes) if labels.allowed is None else chain.log_partition(right)
            return float((chain.log_partition(scaled) - gold).sum() + 0.5 * self.l2 * factor**2 * norm)

        found = minimize_scalar(objective, bounds=FACTORS, method="bounded", options={"xatol": 1e-4})
        self.weights_ = float(np.exp(found.x)) * self.weights_

    def normalise(self, length: int | None = None) -> tuple[FloatArray, FloatArray, Emission]:
        """Initial probabilities (K,), transitions ((K, K), or (length - 1, K, K)) and the emission of
        p_u(x, y); for a given ``length`` exactly, see above.
        """
        start, step, emission = self._scores()
        return (*normalised_chain(start, step, np.zeros(len(start)), length), emission)

    def to_parameters(self, length: int | None = None) -> HMMParameters:
        """The trained chain as a hidden Markov model."""
        if length is None:
            return HMMParameters(*self.normalise())
        start, step, emission = self._scores()
        length = check_int("length", length, 1)
        free = ChainScores.of(np.zeros((length, len(start))), step, start)
        expected = Chain().marginals(free)
        before = replace(self.transition_constraints, transition_pseudocount=np.zeros_like(step))
        _, transitions = before.maximise(
            expected.start, expected.transitions[0], self.source.initial, self.source.transitions
        )
        return HMMParameters(expected.start / expected.start.sum(), transitions, emission)

    def _scores(self) -> tuple[FloatArray, FloatArray, Emission]:
        """Log scores of first states and steps with the observations summed out, and the emission."""
        views, penalties = self.layout_.views(self.weights_), self.penalties_
        weights = self.layout_.feature_weights(self.weights_)
        _, _, before = self._source_weights()
        weights += (before - weights).mean(axis=1, keepdims=True)
        weights += self.source.emission.natural_shift(weights)[:, None]
        emission, normalisers = self.source.emission.from_natural(weights)
        start = views.start + penalties.start + normalisers
        return start, views.transitions + penalties.transitions + normalisers, emission


def train_discriminatively(
    source: HMMParameters, constraints: TransitionConstraints, observations: Observations, **options: Any
) -> LogLinearHMM:
    """Train the log-linear chain of ``source``; some states of the observations must be known."""
    if observations.known is None:
        raise DataError("discriminative training needs states; without any, use fit(X), which is EM")
    states = [None if state < 0 else state for state in observations.known.tolist()]
    chain = LogLinearHMM.from_hmm(source, constraints, **options)
    lengths = np.diff(observations.offsets)
    chain.fit(observations.values, states, lengths=lengths)
    if get_objective(chain.objective).two_labelings:
        chain.calibrate(observations.values, states, lengths)
    return chain


def _finite(logs: FloatArray, allowed: Any) -> FloatArray:
    """Logs of 0 become that of a tenth of the smallest probability, or 0 where they are forbidden."""
    finite = np.isfinite(logs)
    least = logs[finite].min() - np.log(10.0)
    return np.where(finite, logs, np.where(allowed, least, 0.0))
