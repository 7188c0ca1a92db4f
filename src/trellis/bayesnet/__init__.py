"""Bayesian networks and factor graphs over discrete variables with names."""

from __future__ import annotations

from trellis.bayesnet.formats.uai import read_evidence, read_evidence_samples, write_evidence
from trellis.bayesnet.model.builders import Network, from_hmm, full_bayes, markov_chain, naive_bayes
from trellis.bayesnet.model.factor_graph import FactorGraph
from trellis.bayesnet.model.network import BayesianNetwork

__all__ = [
    "BayesianNetwork",
    "FactorGraph",
    "Network",
    "from_hmm",
    "full_bayes",
    "markov_chain",
    "naive_bayes",
    "read_evidence",
    "read_evidence_samples",
    "write_evidence",
]
