"""Hidden Markov models: ``HMM``, what its states emit, input-output and spectral models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

# public name -> module that defines it
_EXPORTS = {
    "HMM": "trellis.hmm.hidden_markov_model",
    "IOHMM": "trellis.hmm.input_output.io_hmm",
    "SpectralHMM": "trellis.hmm.spectral.spectral_hmm",
    "StreamingFilter": "trellis.hmm.streaming_filter",
    "align_states": "trellis.hmm.compare",
    "distance": "trellis.hmm.compare",
    "emissions": "module:trellis.hmm.emissions",
    "fit_mixture": "trellis.hmm.mixture_em",
    "left_right": "trellis.hmm.transition_constraints",
}

__all__ = [
    "HMM",
    "IOHMM",
    "SpectralHMM",
    "StreamingFilter",
    "align_states",
    "distance",
    "emissions",
    "fit_mixture",
    "left_right",
]

if TYPE_CHECKING:
    from trellis.hmm import emissions
    from trellis.hmm.compare import align_states, distance
    from trellis.hmm.hidden_markov_model import HMM
    from trellis.hmm.input_output.io_hmm import IOHMM
    from trellis.hmm.mixture_em import fit_mixture
    from trellis.hmm.spectral.spectral_hmm import SpectralHMM
    from trellis.hmm.streaming_filter import StreamingFilter
    from trellis.hmm.transition_constraints import left_right

__getattr__, __dir__ = lazy_exports(__name__, _EXPORTS)
