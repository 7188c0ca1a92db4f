"""Task losses: what a wrong labeling costs, and which of them decompose."""

from trellis.losses.labelings import (
    CandidateLoss,
    Custom,
    Hamming,
    Loss,
    SpanF1,
    WeightedHamming,
    ZeroOne,
    get_loss,
)

__all__ = ["CandidateLoss", "Custom", "Hamming", "Loss", "SpanF1", "WeightedHamming", "ZeroOne", "get_loss"]
