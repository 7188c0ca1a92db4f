"""What is fitted after the weights, on utterances that were held out: how sharp probabilities are, and which
scores are usual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.inference.segments import Segmentation
from trellis.objectives.segment_problem import SegmentExample
from trellis.speech.confidence import fit_beta
from trellis.speech.model import AlignmentModel

CONFIDENCE_SECONDS = 0.02
RANGE_UTTERANCES = 200
BETA_UTTERANCES = 60


def judged(
    model: AlignmentModel, train: Sequence[SegmentExample], holdout: Sequence[SegmentExample]
) -> AlignmentModel:
    """The model with everything that judges an alignment."""
    oracle = Segmentation()
    some = [*holdout, *train][:RANGE_UTTERANCES]
    found = np.array([oracle.best(e.features.scores(model.weights)).score for e in some])
    return replace(
        model,
        score_mean=float(found.mean()),
        score_deviation=float(found.std()),
        tolerance=CONFIDENCE_SECONDS,
        beta=_beta(model, holdout[:BETA_UTTERANCES]),
    )


def _beta(model: AlignmentModel, examples: Sequence[SegmentExample]) -> float:
    oracle = Segmentation()
    scores = [e.features.scores(model.weights) for e in examples]
    return fit_beta(
        scores,
        [oracle.best(one) for one in scores],
        [np.asarray(e.reference) for e in examples],
        [float(len(e.gold.nodes)) for e in examples],
        CONFIDENCE_SECONDS / model.acoustics.step,
    )
