"""What a wrong alignment costs, as a sum over boundaries, so that loss-adjusted inference stays exact.

With reference starts y_k of K nodes and predicted starts y'_k, all in frames:

    TauAlignment     (1/K) |{k : |y_k - y'_k| > tau}|
    TauInsensitive   (1/K) sum_k max(|y_k - y'_k| - tau, 0)

``tau`` is any number of frames that is not negative, and the reference may lie between frames: seconds
divided by the frame step, unrounded. The first boundary of a chain is fixed and costs the same on every
path, and K counts it. In a graph with optional nodes the reference is NaN where a node has none: such nodes
cost nothing and do not count in K, and a node that a path leaves out costs nothing either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.foreign_names import unknown_choice
from trellis.core.registration import register
from trellis.structures.segments.scores.segment_scores import SegmentPath

ROUNDING = 1e-9  # frames: a reference that was divided by the step must not miss its own tolerance


@dataclass(frozen=True)
class AlignmentLoss:
    """``tau`` in frames."""

    tau: float = 1.0
    name: ClassVar[str]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.tau) and self.tau >= 0):
            raise DataError(f"tau={self.tau} frames; it must be finite and not negative")

    def of_error(self, error: FloatArray) -> FloatArray:
        """The cost of ``|y - y'|`` frames, before division by K."""
        raise UnsupportedError(f"the loss {type(self).__name__} has no cost per boundary")

    def table(self, reference: ArrayLike, n_frames: int) -> FloatArray:
        """(P, T + 1): what it costs that node i starts at t. Added to ``boundary`` in inference."""
        starts = np.asarray(reference, dtype=np.float64)
        known = np.isfinite(starts)
        costs = np.zeros((len(starts), n_frames + 1))
        if known.any():
            error = np.abs(starts[known, None] - np.arange(n_frames + 1.0))
            costs[known] = self.of_error(error) / known.sum()
        return costs

    def of_path(self, reference: ArrayLike, path: SegmentPath) -> float:
        """L(reference, path)."""
        starts = np.asarray(reference, dtype=np.float64)
        known = np.isfinite(starts)
        error = np.abs(starts[path.nodes] - path.starts)
        return float(np.sum(self.of_error(error[known[path.nodes]]))) / max(int(known.sum()), 1)


@register
@dataclass(frozen=True)
class TauAlignment(AlignmentLoss):
    """The share of boundaries that are off by more than ``tau`` frames.

    Examples
    --------
    >>> from trellis.structures.segments import SegmentPath, TauAlignment
    >>> round(TauAlignment(0.5).of_path([0.0, 2.4, 3.2], SegmentPath.of_chain([0, 3, 4], 6)), 3)
    0.667
    """

    name = "tau_alignment"

    def of_error(self, error: FloatArray) -> FloatArray:
        return (error > self.tau + ROUNDING).astype(np.float64)


@register
@dataclass(frozen=True)
class TauInsensitive(AlignmentLoss):
    """The mean of what exceeds ``tau`` frames.

    Examples
    --------
    >>> from trellis.structures.segments import SegmentPath, TauInsensitive
    >>> round(TauInsensitive(0.5).of_path([0.0, 2.4, 3.2], SegmentPath.of_chain([0, 3, 4], 6)), 3)
    0.133
    """

    name = "tau_insensitive"

    def of_error(self, error: FloatArray) -> FloatArray:
        return np.maximum(error - self.tau, 0.0)


ALIGNMENT_LOSSES: dict[str, type[AlignmentLoss]] = {c.name: c for c in (TauAlignment, TauInsensitive)}


def get_alignment_loss(loss: str | AlignmentLoss, tau: float = 1.0) -> AlignmentLoss:
    """A loss by name with ``tau`` frames, or as given."""
    if isinstance(loss, AlignmentLoss):
        return loss
    if loss not in ALIGNMENT_LOSSES:
        raise DataError(unknown_choice("loss", loss, ALIGNMENT_LOSSES))
    return ALIGNMENT_LOSSES[loss](tau)
