"""Chains: one label for each step of a sequence, scored by steps and by pairs of neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.memm import MEMM as MEMM
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler as SequenceLabeler
    from trellis.structures.chain.oracle.chain_oracle import Chain as Chain
    from trellis.structures.chain.oracle.exhaustive import Enumeration as Enumeration
    from trellis.structures.chain.oracle.many_labels.beam_search import beam_search as beam_search
    from trellis.structures.chain.oracle.many_labels.sparse_chain import SparseChain as SparseChain
    from trellis.structures.chain.problem.chain_problem import LinearChainProblem as LinearChainProblem
    from trellis.structures.chain.scores.chain_scores import ChainScores as ChainScores
    from trellis.structures.chain.scores.linear_chain import LinearLayout as LinearLayout
    from trellis.structures.chain.scores.sparse_chain_scores import SparseChainScores as SparseChainScores

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "labeler.memm": "MEMM",
        "labeler.sequence_labeler": "SequenceLabeler",
        "oracle.chain_oracle": "Chain",
        "oracle.exhaustive": "Enumeration",
        "oracle.many_labels.beam_search": "beam_search",
        "oracle.many_labels.sparse_chain": "SparseChain",
        "problem.chain_problem": "LinearChainProblem",
        "scores.chain_scores": "ChainScores",
        "scores.linear_chain": "LinearLayout",
        "scores.sparse_chain_scores": "SparseChainScores",
    },
)
