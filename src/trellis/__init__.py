"""Trellis: structured prediction, learned for the loss you care about.

The public names are imported on first use, so that ``import trellis`` (and ``trellis --help``) stay fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# public name -> module that defines it (a module stands for itself)
_EXPORTS = {
    "BayesianNetwork": "trellis.bayesnet.network",
    "FactorGraph": "trellis.bayesnet.factor_graph",
    "Graph": "trellis.scores.graph_features",
    "GraphLabeler": "trellis.estimators.graph_labeler",
    "HMM": "trellis.estimators.hmm",
    "IOHMM": "trellis.estimators.io_hmm",
    "MEMM": "trellis.estimators.memm",
    "SequenceLabeler": "trellis.estimators.sequence_labeler",
    "SpectralHMM": "trellis.estimators.spectral",
    "LinearGaussian": "trellis.estimators.kalman",
    "load": "trellis.estimators.persistence",
    "ChainScores": "trellis.scores.parts",
    "Sequences": "trellis.data.sequences",
    "emissions": "trellis.emissions",
    "losses": "trellis.losses",
    "metrics": "trellis.metrics",
    "objectives": "trellis.objectives",
    "solvers": "trellis.solvers",
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
    from trellis import emissions, losses, metrics, objectives, solvers
    from trellis.bayesnet.factor_graph import FactorGraph
    from trellis.bayesnet.network import BayesianNetwork
    from trellis.data.sequences import Sequences
    from trellis.estimators.graph_labeler import GraphLabeler
    from trellis.estimators.hmm import HMM
    from trellis.estimators.io_hmm import IOHMM
    from trellis.estimators.kalman import LinearGaussian
    from trellis.estimators.memm import MEMM
    from trellis.estimators.persistence import load
    from trellis.estimators.sequence_labeler import SequenceLabeler
    from trellis.estimators.spectral import SpectralHMM
    from trellis.scores.graph_features import Graph
    from trellis.scores.parts import ChainScores


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'trellis' has no attribute {name!r}")
    module = import_module(_EXPORTS[name])
    value = module if _EXPORTS[name] == f"trellis.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
