"""Learning hidden Markov models without local optima: observable operators from the moments of triples."""

from __future__ import annotations

from trellis.hmm.spectral.negative_probabilities import NegativeProbabilities, SpectralWarning
from trellis.hmm.spectral.recovery import RecoveredHMM
from trellis.hmm.spectral.spectral_hmm import SpectralHMM

__all__ = ["NegativeProbabilities", "RecoveredHMM", "SpectralHMM", "SpectralWarning"]
