"""Calibration on held-out utterances, after the weights: how sharp probabilities are, and which scores are
suspicious. (Direct loss has trained its handful of weights on them in the end; the classifiers never have.)

A voice that was not in training scores far lower than those that were, and may still be aligned well; how far
a score lies below the usual ones says little. So a suspicious score is one that is no better than those of
*wrong* transcripts: the phones of held-out utterances in random order, their silences in place. It also
has to be unusual, which matters where a model hardly tells right from wrong:

    floor = min(mean_wrong + 2 deviation_wrong, mean_right - 3 deviation_right)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.doubt.boundary_confidence import fit_beta
from trellis.speech.align.learning.corpus_preparation import PreparedCorpus
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_scores import SegmentFeatures

CONFIDENCE_SECONDS = 0.02
RANGE_UTTERANCES = 200
BETA_UTTERANCES = 60
UNUSUAL, WRONG = 3.0, 2.0  # standard deviations


def calibrate(model: AlignmentModel, prepared: PreparedCorpus) -> AlignmentModel:
    """The model with the numbers that tell how far to trust an alignment."""
    train, holdout, wrong = prepared.train, prepared.holdout, prepared.wrong
    right = _best_scores(model, [e.features for e in [*holdout, *train][:RANGE_UTTERANCES]])
    floor = right.mean() - UNUSUAL * right.std()
    if wrong:
        scores = _best_scores(model, wrong)
        floor = min(floor, scores.mean() + WRONG * scores.std())
    return replace(
        model,
        score_mean=float(right.mean()),
        score_floor=float(floor),
        tolerance=CONFIDENCE_SECONDS,
        beta=_beta(model, holdout[:BETA_UTTERANCES]),
    )


def _best_scores(model: AlignmentModel, features: Sequence[SegmentFeatures]) -> FloatArray:
    oracle = Segmentation()
    return np.array([oracle.best(one.scores(model.weights)).score for one in features])


def _beta(model: AlignmentModel, examples: Sequence[SegmentExample]) -> float:
    oracle = Segmentation()
    scores = [e.features.scores(model.weights) for e in examples]
    return fit_beta(
        scores,
        [oracle.best(one) for one in scores],
        [np.asarray(e.reference) for e in examples],
        [float(len(e.gold_path.nodes)) for e in examples],
        CONFIDENCE_SECONDS / model.acoustics.step,
    )
