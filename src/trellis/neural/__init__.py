"""Factors scored by neural networks: PyTorch tensors in, structured objectives and answers out."""

from __future__ import annotations

from trellis.core.errors import MissingExtraError

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "trellis.neural needs PyTorch, which is not installed; run: pip install 'trellis-learn[torch]'"
    ) from error

from trellis.neural.chain.neural_chain import Chain
from trellis.neural.factors.neural_factors import Factors
from trellis.neural.labeler.neural_labeler import NeuralSequenceLabeler
from trellis.neural.segments.neural_segmentation import Segmentation
from trellis.neural.tensor_questions import (
    decode,
    entropy,
    k_best,
    log_partition,
    marginals,
    relative_gaps,
    sample,
    structured_loss,
    typical_gap,
)
from trellis.solvers.online.epsilon_schedule import EpsilonSchedule

__all__ = [
    "Chain",
    "EpsilonSchedule",
    "Factors",
    "NeuralSequenceLabeler",
    "Segmentation",
    "decode",
    "entropy",
    "k_best",
    "log_partition",
    "marginals",
    "relative_gaps",
    "sample",
    "structured_loss",
    "typical_gap",
]
