"""Task losses: what a wrong labelling costs, and metrics of predicted labels."""

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
