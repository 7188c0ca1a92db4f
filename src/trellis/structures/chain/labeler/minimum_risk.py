"""Decoding by expected loss: of the allowed labellings, the one that the task loss is expected to hurt least.

    y_hat = argmin over allowed y of  E_{y' ~ p(. | x)} L(y', y)

* A loss that is a sum over steps (Hamming, WeightedHamming): exactly. Its expected cost of each label at each
  step (``Loss.risks``) follows from the marginals, and Viterbi finds the cheapest labelling that the
  constraints allow.
* The 0-1 loss: exactly. E L = 1 - p(y), so the answer is the most probable labelling.
* SpanF1: exactly, through the probabilities of spans; see :mod:`trellis.structures.chain.oracle.expected_f1`.
* A Python function of two labellings (Custom): both y and y' are among the ``n_candidates`` most probable
  labellings, p being normalised over them. Approximate, as these losses are in training.

Labels with latent states: the first and the third are exact there as well. How probable a labelling is, and
which are the most probable, is not known then, so the others are refused.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.logspace import softmax
from trellis.core.oracle import Labels
from trellis.data.labels import EncodedLabels
from trellis.data.latent_labels import LatentLabels
from trellis.losses.labelings import CandidateLoss, Loss, SpanF1
from trellis.structures.chain.oracle.chain_oracle import Chain
from trellis.structures.chain.oracle.expected_f1 import best_expected_f1
from trellis.structures.chain.scores.chain_scores import ChainScores


def minimum_risk(chain: Chain, scores: ChainScores, latent: LatentLabels, loss: Loss) -> Labels:
    """The labels (N,) with the smallest expected loss, see above; ``scores`` are those of latent states."""
    if loss.kind == "costs":
        marginals = latent.sum_states(chain.marginals(scores).unary)
        risks = loss.risks(marginals, scores.offsets, latent.labels)
        return latent.collapse(chain.minimum_risk(scores, latent.expand_costs(risks)))
    if isinstance(loss, SpanF1):
        if not isinstance(scores, ChainScores):
            raise UnsupportedError(
                "the expected span F1 is not available for sparse transitions; use decoding='best', or "
                "transitions='all'"
            )
        return best_expected_f1(scores, latent, chain.n_jobs).labels
    if not latent.plain:
        raise UnsupportedError(
            f"labels have several latent states, and the labelling with the smallest expected loss "
            f"{loss.name!r} is not known then; use decoding='best', or a loss that is a sum over steps"
        )
    if isinstance(loss, CandidateLoss):
        return _best_candidate(chain, scores, latent, loss)
    return chain.best(scores).labels


def _best_candidate(chain: Chain, scores: ChainScores, latent: LatentLabels, loss: CandidateLoss) -> Labels:
    ranked = chain.k_best(scores, loss.n_candidates)
    steps = np.repeat(np.arange(scores.n_sequences), np.diff(scores.offsets))
    there = ranked.scores > -np.inf
    rows = [np.where(there[steps, i], row, ranked.labels[0]) for i, row in enumerate(ranked.labels)]
    probability = softmax(ranked.scores)
    risk: FloatArray = np.where(there, 0.0, np.inf)
    for i, true in enumerate(rows):
        gold = EncodedLabels(true, None, scores.offsets)
        for j, guess in enumerate(rows):
            risk[:, j] += probability[:, i] * loss.per_sequence(gold, guess, latent.labels)
    chosen = risk.argmin(axis=1)
    best: Labels = np.stack(rows)[chosen[steps], np.arange(len(steps))]
    return best
