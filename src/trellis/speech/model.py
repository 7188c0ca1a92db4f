"""What an aligner has learnt: the acoustics, the weights, and what it takes to judge a new alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import ModelFileError
from trellis.scores.parts import FloatArray
from trellis.solvers.loop import Status
from trellis.speech.acoustics import Acoustics, under


@dataclass(frozen=True, eq=False)
class AlignmentModel:
    """``beta``: sharpness of the marginals (:mod:`trellis.speech.confidence`). ``tolerance``: seconds, of the confidences.
    ``score_mean``, ``score_deviation``: of the best alignments of utterances that were not used for the classifiers."""

    acoustics: Acoustics
    weights: FloatArray
    status: Status
    beta: float
    tolerance: float
    score_mean: float
    score_deviation: float
    epsilon: float | None = None
    epsilon_losses: dict[float, float] | None = None

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta, arrays = self.acoustics.to_state()
        losses = self.epsilon_losses
        return {
            "acoustics": meta,
            "status": asdict(self.status),
            "beta": self.beta,
            "tolerance": self.tolerance,
            "score_mean": self.score_mean,
            "score_deviation": self.score_deviation,
            "epsilon": self.epsilon,
            "epsilon_losses": None if losses is None else list(losses.items()),
        }, {"weights": self.weights, **{f"acoustics.{name}": a for name, a in arrays.items()}}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> AlignmentModel:
        acoustics = Acoustics.from_state(meta["acoustics"], under("acoustics.", arrays))
        weights = np.asarray(arrays["weights"], dtype=np.float64)
        numbers = [float(meta[k]) for k in ("beta", "tolerance", "score_mean", "score_deviation")]
        if weights.shape != (len(acoustics.names),) or not np.isfinite(weights).all():
            raise ModelFileError("the weights do not fit the features of the model")
        if not (np.isfinite(numbers).all() and numbers[0] > 0):
            raise ModelFileError("the numbers that judge alignments are not finite")
        losses = meta["epsilon_losses"]
        return cls(
            acoustics,
            weights,
            Status(**meta["status"]),
            *numbers,
            meta["epsilon"],
            None if losses is None else dict(map(tuple, losses)),
        )
