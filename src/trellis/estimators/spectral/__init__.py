"""Learning hidden Markov models without local optima: observable operators from the moments of triples."""

from __future__ import annotations

from trellis.estimators.spectral.negative import NegativeProbabilities, SpectralWarning
from trellis.estimators.spectral.recovery import RecoveredHMM
from trellis.estimators.spectral.spectral_hmm import SpectralHMM

__all__ = ["NegativeProbabilities", "RecoveredHMM", "SpectralHMM", "SpectralWarning"]
