"""Bayesian networks and factor graphs over discrete variables with names."""

from __future__ import annotations

from trellis.bayesnet.network import BayesianNetwork

__all__ = ["BayesianNetwork"]
