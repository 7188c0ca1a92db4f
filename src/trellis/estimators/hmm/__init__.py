"""Hidden Markov models: ``HMM``, structures for its chain, a streaming filter, and tools to compare
models."""

from __future__ import annotations

from trellis.estimators.hmm.compare import align_states, distance
from trellis.estimators.hmm.model import HMM
from trellis.estimators.hmm.streaming import StreamingFilter
from trellis.estimators.hmm.structure import left_right

__all__ = ["HMM", "StreamingFilter", "align_states", "distance", "left_right"]
