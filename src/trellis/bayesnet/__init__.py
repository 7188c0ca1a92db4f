"""Bayesian networks and factor graphs over discrete variables with names."""

from __future__ import annotations

from trellis.bayesnet.builders import NetworkBuilder, from_hmm, full_bayes, markov_chain, naive_bayes
from trellis.bayesnet.formats.uai import read_evidence, read_evidence_samples, write_evidence
from trellis.bayesnet.models import BayesianNetwork, FactorGraph, read_model

__all__ = [
    "BayesianNetwork",
    "FactorGraph",
    "NetworkBuilder",
    "from_hmm",
    "full_bayes",
    "markov_chain",
    "naive_bayes",
    "read_evidence",
    "read_evidence_samples",
    "read_model",
    "write_evidence",
]
