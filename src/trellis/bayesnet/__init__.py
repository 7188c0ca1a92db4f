"""Bayesian networks and factor graphs over discrete variables with names."""

from __future__ import annotations

from trellis.bayesnet.builders import Network
from trellis.bayesnet.factor_graph import FactorGraph
from trellis.bayesnet.network import BayesianNetwork

__all__ = ["BayesianNetwork", "FactorGraph", "Network"]
