"""All that it takes to align: the acoustic model, the weights, and the calibration of confidences."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.align.doubt.confidence_calibration import IDENTITY, ConfidenceCalibration
from trellis.speech.align.doubt.transcript_match import TranscriptMatch
from trellis.speech.align.search.topology import topology_names


@register
@dataclass(frozen=True, eq=False)
class AlignmentModel:
    """``topology``: the weights that choose among pronunciations and silences, and say how sure a start is
    (``search.topology``). ``beta``: how sharp margins are (``boundary_confidence``). ``tolerance``: seconds,
    of the confidences; ``calibration``: from the posterior of a start to its confidence. ``match``: whether a
    transcript is what was said, None if there were too few utterances to learn it. ``score_mean``: of the
    best alignments of utterances that were not used for the classifiers; ``score_floor``: below it a score is
    suspicious (:mod:`trellis.speech.align.doubt.calibration`). ``refine``: whether the references of its
    corpus lie between frames (``learning.refinement_choice``)."""

    acoustics: AcousticModel
    weights: FloatArray
    topology: FloatArray
    beta: float = 1.0
    tolerance: float = 0.02
    score_mean: float = 0.0
    score_floor: float = -np.inf
    refine: bool = True
    calibration: ConfidenceCalibration = IDENTITY
    match: TranscriptMatch | None = None

    def __post_init__(self) -> None:
        names = self.acoustics.names
        sizes = [self.weights.shape, self.topology.shape]
        numbers = [*self.weights, *self.topology, self.beta, self.tolerance, self.score_mean]
        if sizes != [(len(names),), (len(topology_names(names)) + 1,)] or not np.isfinite(numbers).all():
            raise DataError("the weights do not fit the features of the model")
        if not (self.acoustics.complete and self.beta > 0):
            raise DataError("the model lacks a classifier, or its beta is not positive")

    def reading(self, alphabet: str) -> AlignmentModel:
        """The model for transcripts in ``alphabet`` (``PhoneSet.reading``)."""
        phones = self.acoustics.phones.reading(alphabet)
        if phones is self.acoustics.phones:
            return self
        return replace(self, acoustics=replace(self.acoustics, phones=phones))
