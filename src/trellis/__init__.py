"""Trellis: structured prediction, learned for the loss you care about.

The public names are imported on first use, so that ``import trellis`` (and ``trellis --help``) stay fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

__version__ = "0.1.0"

# public name -> module that defines it
_EXPORTS = {
    "BayesianNetwork": "trellis.bayesnet.models",
    "FactorGraph": "trellis.bayesnet.models",
    "Graph": "trellis.structures.graph.scores.graph_features",
    "GraphLabeler": "trellis.structures.graph.labeler.graph_labeler",
    "HMM": "trellis.hmm",
    "IOHMM": "trellis.hmm.input_output",
    "MEMM": "trellis.structures.chain.labeler.memm",
    "SequenceLabeler": "trellis.structures.chain.labeler.sequence_labeler",
    "SpectralHMM": "trellis.hmm.spectral",
    "LinearGaussian": "trellis.statespace",
    "load": "trellis.core.persistence",
    "ChainScores": "trellis.structures.chain.scores.chain_scores",
    "Sequences": "trellis.data.sequences",
    "emissions": "module:trellis.hmm.emissions",
    "losses": "module:trellis.losses",
    "metrics": "module:trellis.losses.metrics",
    "objectives": "module:trellis.objectives",
    "solvers": "module:trellis.solvers",
}

__all__ = [
    "HMM",
    "IOHMM",
    "MEMM",
    "BayesianNetwork",
    "ChainScores",
    "FactorGraph",
    "Graph",
    "GraphLabeler",
    "LinearGaussian",
    "SequenceLabeler",
    "Sequences",
    "SpectralHMM",
    "__version__",
    "emissions",
    "load",
    "losses",
    "metrics",
    "objectives",
    "solvers",
]

if TYPE_CHECKING:
    from trellis import losses, objectives, solvers
    from trellis.bayesnet.models import BayesianNetwork, FactorGraph
    from trellis.core.persistence import load
    from trellis.data.sequences import Sequences
    from trellis.hmm import HMM, emissions
    from trellis.hmm.input_output import IOHMM
    from trellis.hmm.spectral import SpectralHMM
    from trellis.losses import metrics
    from trellis.statespace import LinearGaussian
    from trellis.structures.chain.labeler.memm import MEMM
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler
    from trellis.structures.chain.scores.chain_scores import ChainScores
    from trellis.structures.graph.labeler.graph_labeler import GraphLabeler
    from trellis.structures.graph.scores.graph_features import Graph


__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
