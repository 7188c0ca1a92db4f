"""Oracles: what a structure answers about all its outputs at once, given their part scores."""

from trellis.inference.chain import Chain, ChainMarginals, ExpectedLoss
from trellis.inference.exhaustive import Enumeration
from trellis.inference.structure import Labellings, RankedLabellings, Structure

__all__ = [
    "Chain",
    "ChainMarginals",
    "Enumeration",
    "ExpectedLoss",
    "Labellings",
    "RankedLabellings",
    "Structure",
]
