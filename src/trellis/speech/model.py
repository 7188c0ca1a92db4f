"""What an aligner has learnt: the acoustics, the weights, and what it takes to judge a new alignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import ModelFileError
from trellis.scores.parts import FloatArray
from trellis.scores.segments import SegmentFeatures, SegmentScores
from trellis.solvers.loop import Status
from trellis.speech.acoustics import Acoustics, under
from trellis.speech.lattice import Lattice


@dataclass(frozen=True, eq=False)
class AlignmentModel:
    """``beta``: sharpness of the marginals (:mod:`trellis.speech.confidence`). ``tolerance``: seconds, of the confidences.
    ``score_mean``, ``score_deviation``: of the best alignments of utterances that were not used for the classifiers.
    ``silence_cost``: nats, what it takes to put in an optional silence."""

    acoustics: Acoustics
    weights: FloatArray
    status: Status
    beta: float = 1.0
    tolerance: float = 0.02
    score_mean: float = 0.0
    score_deviation: float = 1.0
    silence_cost: float = 0.0
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
            "silence_cost": self.silence_cost,
            "epsilon": self.epsilon,
            "epsilon_losses": None if losses is None else list(losses.items()),
        }, {"weights": self.weights, **{f"acoustics.{name}": a for name, a in arrays.items()}}

    @classmethod
    def from_state(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> AlignmentModel:
        acoustics = Acoustics.from_state(meta["acoustics"], under("acoustics.", arrays))
        weights = np.asarray(arrays["weights"], dtype=np.float64)
        names = ("beta", "tolerance", "score_mean", "score_deviation", "silence_cost")
        numbers = {name: float(meta[name]) for name in names}
        if weights.shape != (len(acoustics.names),) or not np.isfinite(weights).all():
            raise ModelFileError("the weights do not fit the features of the model")
        if not (np.isfinite(list(numbers.values())).all() and numbers["beta"] > 0):
            raise ModelFileError("the numbers that judge alignments are not finite")
        losses = meta["epsilon_losses"]
        return cls(
            acoustics=acoustics,
            weights=weights,
            status=Status(**meta["status"]),
            epsilon=meta["epsilon"],
            epsilon_losses=None if losses is None else dict(map(tuple, losses)),
            **numbers,
        )

    def scores(self, features: SegmentFeatures, lattice: Lattice) -> SegmentScores:
        """w . Phi, with the costs of optional silences and the priors of pronunciations, which are in nats."""
        scores = features.scores(self.weights)
        bias = np.array(lattice.prior) - self.silence_cost * np.array(lattice.optional)
        if bias.any():
            nats = self.beta * lattice.fewest()
            scores = replace(scores, boundary=scores.boundary + bias[:, None] / nats)
        return scores
