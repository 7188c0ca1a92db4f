"""All that it takes to align: the acoustic model, the weights, and the calibration of confidences."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.align.search.topology import topology_names


@register
@dataclass(frozen=True, eq=False)
class AlignmentModel:
    """``topology``: the weights that choose among pronunciations and silences
    (``search.topology``). ``beta``: sharpness of the marginals (``boundary_confidence``).
    ``tolerance``: seconds, of the confidences. ``score_mean``: of the best alignments of utterances that were
    not used for the classifiers; ``score_floor``: below it a score is suspicious
    (:mod:`trellis.speech.align.doubt.calibration`). ``refine``: whether the references of its corpus lie
    between frames (``learning.refinement_choice``)."""

    acoustics: AcousticModel
    weights: FloatArray
    topology: FloatArray
    beta: float = 1.0
    tolerance: float = 0.02
    score_mean: float = 0.0
    score_floor: float = -np.inf
    refine: bool = True

    def __post_init__(self) -> None:
        names = self.acoustics.names
        sizes = [self.weights.shape, self.topology.shape]
        numbers = [*self.weights, *self.topology, self.beta, self.tolerance, self.score_mean]
        if sizes != [(len(names),), (len(topology_names(names)) + 1,)] or not np.isfinite(numbers).all():
            raise DataError("the weights do not fit the features of the model")
        if not (self.acoustics.complete and self.beta > 0):
            raise DataError("the model lacks a classifier, or its beta is not positive")
