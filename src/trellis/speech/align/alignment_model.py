"""All that it takes to align: the acoustic model, the weights, and the calibration of confidences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import AnyArray, FloatArray
from trellis.core.errors import ModelFileError
from trellis.speech.acoustics.acoustic_model import AcousticModel, under
from trellis.speech.align.topology import topology_names


@dataclass(frozen=True, eq=False)
class AlignmentModel:
    """``beta``: sharpness of the marginals (``boundary_confidence``). ``tolerance``: seconds, of
    the confidences. ``score_mean``: of the best alignments of utterances that were not used for the
    classifiers; ``score_floor``: below it a score is suspicious (:mod:`trellis.speech.align.calibration`).
    ``topology``: the weights that choose among pronunciations and silences
    (:mod:`trellis.speech.align.topology`)."""

    acoustics: AcousticModel
    weights: FloatArray
    topology: FloatArray
    beta: float = 1.0
    tolerance: float = 0.02
    score_mean: float = 0.0
    score_floor: float = -np.inf

    def to_state(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        meta, arrays = self.acoustics.to_state()
        return {
            "acoustics": meta,
            "beta": self.beta,
            "tolerance": self.tolerance,
            "score_mean": self.score_mean,
            "score_floor": self.score_floor,
        }, {
            "weights": self.weights,
            "topology": self.topology,
            **{f"acoustics.{name}": a for name, a in arrays.items()},
        }

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> AlignmentModel:
        acoustics = AcousticModel.from_state(meta["acoustics"], under("acoustics.", arrays))
        weights, topology = (np.asarray(arrays[k], dtype=np.float64) for k in ("weights", "topology"))
        names = ("beta", "tolerance", "score_mean", "score_floor")
        numbers = {name: float(meta[name]) for name in names}
        sizes = (len(acoustics.names),), (len(topology_names(acoustics.names)) + 1,)
        if (weights.shape, topology.shape) != sizes or not np.isfinite([*weights, *topology]).all():
            raise ModelFileError("the weights do not fit the features of the model")
        if not (np.isfinite(list(numbers.values())).all() and numbers["beta"] > 0):
            raise ModelFileError("the numbers that judge alignments are not finite")
        return cls(
            acoustics=acoustics,
            weights=weights,
            topology=topology,
            **numbers,
        )
