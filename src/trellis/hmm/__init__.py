"""Hidden Markov models: ``HMM``, what its states emit, input-output and spectral models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis.core.lazy import lazy_exports

if TYPE_CHECKING:
    from trellis.hmm import emissions as emissions
    from trellis.hmm.compare import align_states as align_states
    from trellis.hmm.compare import distance as distance
    from trellis.hmm.hidden_markov_model import HMM as HMM
    from trellis.hmm.input_output.io_hmm import IOHMM as IOHMM
    from trellis.hmm.learning.mixture_em import fit_mixture as fit_mixture
    from trellis.hmm.spectral.spectral_hmm import SpectralHMM as SpectralHMM
    from trellis.hmm.streaming_filter import StreamingFilter as StreamingFilter
    from trellis.hmm.transition_constraints import left_right as left_right

__getattr__, __dir__, __all__ = lazy_exports(
    __name__,
    {
        "compare": "align_states distance",
        "hidden_markov_model": "HMM",
        "input_output.io_hmm": "IOHMM",
        "learning.mixture_em": "fit_mixture",
        "spectral.spectral_hmm": "SpectralHMM",
        "streaming_filter": "StreamingFilter",
        "transition_constraints": "left_right",
    },
    modules={"emissions": "emissions"},
)
