"""Trellis: structured prediction, learned for the loss you care about.

Public names are imported on first use, so that ``import trellis`` (and ``trellis --help``) stay fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

__version__ = "0.1.0"

if TYPE_CHECKING:
    from trellis import losses as losses
    from trellis import objectives as objectives
    from trellis import solvers as solvers
    from trellis.bayesnet.models import BayesianNetwork as BayesianNetwork
    from trellis.bayesnet.models import FactorGraph as FactorGraph
    from trellis.core import errors as errors
    from trellis.core.backends.choice import config_context as config_context
    from trellis.core.persistence import load as load
    from trellis.data.sequences import Sequences as Sequences
    from trellis.data.shard_files import ShardFiles as ShardFiles
    from trellis.hmm import HMM as HMM
    from trellis.hmm import emissions as emissions
    from trellis.hmm.input_output import IOHMM as IOHMM
    from trellis.hmm.spectral import SpectralHMM as SpectralHMM
    from trellis.losses import metrics as metrics
    from trellis.statespace import LinearGaussian as LinearGaussian
    from trellis.structures.chain.labeler.memm import MEMM as MEMM
    from trellis.structures.chain.labeler.sequence_labeler import SequenceLabeler as SequenceLabeler
    from trellis.structures.graph.labeler.graph_labeler import GraphLabeler as GraphLabeler
    from trellis.structures.graph.scores.graph_features import Graph as Graph

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "bayesnet.models": "BayesianNetwork FactorGraph",
        "core.backends.choice": "config_context",
        "core.persistence": "load",
        "data.sequences": "Sequences",
        "data.shard_files": "ShardFiles",
        "hmm": "HMM",
        "hmm.input_output": "IOHMM",
        "hmm.spectral": "SpectralHMM",
        "statespace": "LinearGaussian",
        "structures.chain.labeler.memm": "MEMM",
        "structures.chain.labeler.sequence_labeler": "SequenceLabeler",
        "structures.graph.labeler.graph_labeler": "GraphLabeler",
        "structures.graph.scores.graph_features": "Graph",
    },
    modules={
        "emissions": "hmm.emissions",
        "errors": "core.errors",
        "losses": "losses",
        "metrics": "losses.metrics",
        "objectives": "objectives",
        "solvers": "solvers",
    },
)
