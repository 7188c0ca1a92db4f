"""Learning weights of segmentations: examples, an objective and an alignment loss as a problem for solvers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.sparse import csr_array

from trellis.alignment_losses import AlignmentLoss
from trellis.objectives.modes import Objective
from trellis.scores.parts import FloatArray
from trellis.scores.segments import SegmentFeatures, SegmentPath


@dataclass(frozen=True, eq=False)
class SegmentExample:
    """``gold``: the reference on whole frames. ``reference``: (P,) its starts for the loss, which may lie
    between frames, NaN for nodes without one; default: those of ``gold``."""

    features: SegmentFeatures
    gold: SegmentPath
    reference: FloatArray | None = None
    name: str = ""


@dataclass(frozen=True, eq=False)
class SegmentProblem:
    """``weight``: c_i (n,), default 1. ``epsilon`` concerns the direct objective."""

    examples: Sequence[SegmentExample]
    objective: Objective
    loss: AlignmentLoss
    l2: float = 0.0
    l1: float = 0.0
    epsilon: float = 1.0
    weight: FloatArray | None = None
    n_jobs: int = 1

    def value_and_gradient(self, weights: FloatArray) -> tuple[float, FloatArray]:
        raise NotImplementedError

    def run_value_and_gradient(self, weights: FloatArray, first: int, last: int) -> tuple[float, FloatArray]:
        raise NotImplementedError

    def example_plane(self, index: int, weights: FloatArray) -> tuple[float, FloatArray]:
        raise NotImplementedError

    def example_planes(self, weights: FloatArray) -> tuple[FloatArray, csr_array]:
        raise NotImplementedError

    def predict(self, weights: FloatArray) -> list[SegmentPath]:
        raise NotImplementedError

    def task_losses(self, weights: FloatArray) -> FloatArray:
        """L(reference, best path) of each example: its mean is the hold-out loss of early stopping."""
        raise NotImplementedError

    def with_(self, **changes: Any) -> SegmentProblem:
        raise NotImplementedError
