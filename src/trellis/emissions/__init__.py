"""Emissions: what the states of a hidden Markov model emit."""

from __future__ import annotations

from trellis.emissions.emission import Emission

__all__ = ["Emission"]
