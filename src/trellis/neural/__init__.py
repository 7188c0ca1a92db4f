"""Factors scored by neural networks: PyTorch tensors in, structured objectives and answers out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.errors import MissingExtraError
from trellis.core.lazy import lazy_exports

try:
    import torch as _torch  # noqa: F401
except ImportError as error:
    raise MissingExtraError(
        "trellis.neural needs PyTorch, which is not installed; run: pip install 'trellis-learn[torch]'"
    ) from error

if TYPE_CHECKING:
    from trellis.neural.chain.neural_chain import Chain as Chain
    from trellis.neural.factors.neural_factors import Factors as Factors
    from trellis.neural.labeler.neural_labeler import NeuralSequenceLabeler as NeuralSequenceLabeler
    from trellis.neural.segments.neural_segmentation import Segmentation as Segmentation
    from trellis.neural.tensor_questions import EpsilonSchedule as EpsilonSchedule
    from trellis.neural.tensor_questions import decode as decode
    from trellis.neural.tensor_questions import entropy as entropy
    from trellis.neural.tensor_questions import k_best as k_best
    from trellis.neural.tensor_questions import log_partition as log_partition
    from trellis.neural.tensor_questions import marginals as marginals
    from trellis.neural.tensor_questions import relative_gaps as relative_gaps
    from trellis.neural.tensor_questions import sample as sample
    from trellis.neural.tensor_questions import structured_loss as structured_loss
    from trellis.neural.tensor_questions import typical_gap as typical_gap
    from trellis.neural.token_classifier import StructuredTokenClassifier as StructuredTokenClassifier
    from trellis.neural.token_classifier import StructuredTokenOutput as StructuredTokenOutput

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "chain.neural_chain": "Chain",
        "factors.neural_factors": "Factors",
        "labeler.neural_labeler": "NeuralSequenceLabeler",
        "segments.neural_segmentation": "Segmentation",
        "tensor_questions": "EpsilonSchedule decode entropy k_best log_partition marginals "
        "relative_gaps sample structured_loss typical_gap",
        "token_classifier": "StructuredTokenClassifier StructuredTokenOutput",
    },
)
