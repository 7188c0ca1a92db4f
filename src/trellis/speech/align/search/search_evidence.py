"""The evidence that a whole recording is searched by: what the classes say of each frame, with a doubt.

With g_c(t) = log p(c | x_t) - log p(c) from the classifier, and *speech* for all spoken classes together,

    g_speech(t) = log p(speech | x_t) - log p(speech),

the evidence for silence is h_c(t) = g_c(t) + PRIOR_SHARE log p(c), and that for a spoken class

    log( (1 - DOUBT) exp h_c(t) + DOUBT exp h_speech(t) )

A phone may sound like no other of its class (a voiceless lateral, a syllabic fricative, a slip of the
transcript), but it is speech. Without the doubt such a phone costs more than a whole word that is called
silence, and words are drawn to where others are spoken. PRIOR_SHARE lies between scaled likelihoods (0), with
which rare classes, a little likelier in noise than elsewhere, draw words into long pauses, and posteriors
(1), with which silence swallows phones that training hardly had.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array
from trellis.speech.acoustics.noise_scores import with_noise

PRIOR_SHARE = np.float32(0.5)
DOUBT = 0.2


def search_evidence(
    confidences: Float32Array, log_prior: Float32Array, spoken: BoolArray, noise_code: int
) -> Float32Array:
    """(T, classes and noise). ``confidences``: g, and perhaps noise after it; ``log_prior``: (C,);
    ``spoken``: (C,), which classes are."""
    evidence = confidences[:, : len(log_prior)] + PRIOR_SHARE * log_prior
    if spoken.any():
        of_all = np.logaddexp.reduce(log_prior[spoken])
        heard = np.logaddexp.reduce(confidences[:, : len(log_prior)][:, spoken] + log_prior[spoken], axis=1)
        speech = heard + np.float32(PRIOR_SHARE - 1) * of_all + np.float32(np.log(DOUBT))
        own = evidence[:, spoken] + np.float32(np.log1p(-DOUBT))
        evidence[:, spoken] = np.logaddexp(own, speech[:, None])
    return with_noise(evidence, noise_code)
