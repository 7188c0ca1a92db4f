"""Task losses: what a wrong labelling costs, and metrics of predicted labels.

Examples
--------
>>> from trellis import losses
>>> losses.get_loss("hamming")
losses.Hamming()
"""

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
