"""Normalisation over the speech of a recording: what silence is added to it, and how much, does not matter.

The mean over a whole recording moves with the silence in it: a second of digital zeros before a word shifts
every frame of the word. Here, with the logarithms m_tb of channels b at frames t:

1. *Loudness* e_t = log sum_b exp m_tb, as the median over ``MEDIAN`` frames around t, which forgets clicks.
   The *level* is its mean weighted by the square of the energy, where silence has no say:

       L = sum_t w_t e_t / sum_t w_t,      w_t = exp(2 e_t)

2. *Speech* is every frame with e_t >= L - ``SPEECH``. mu_b is the mean of m_tb over it.
3. *Noise* is every frame with L - ``RANGE`` <= e_t < L - ``SPEECH`` at most ``NEAR`` seconds from speech: the
   recording's own background, not zeros that somebody has added. nu_b is the ``QUIET`` quantile of m_tb over
   it, but not less than mu_b - ``RANGE``; that bound itself where there is no such frame.
4. The result is max(m_tb, nu_b) - mu_b.

All numbers are natural logarithms of energy: 1 is 4.3 dB. Frames that are added further than ``NEAR`` from
speech, and less loud than L - ``SPEECH``, change nothing but L and w_t of order exp(2 (e_t - L)). Whatever is
below the noise of the recording looks like that noise.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import maximum_filter1d, median_filter

from trellis.core.arrays import FloatArray

MEDIAN = 7  # frames
SPEECH = 3.5
RANGE = 10.0
NEAR = 0.2  # seconds
QUIET = 0.3


def normalise_by_speech(channels: FloatArray, step_seconds: float) -> FloatArray:
    """(T, B) logarithms of channels, less their mean over speech, and not below the noise near it."""
    loud = channels.max(axis=1)
    energy = loud + np.log(np.exp(channels - loud[:, None]).sum(axis=1))
    energy = median_filter(energy, min(MEDIAN, 2 * len(energy) - 1), mode="nearest")
    weight = np.exp(2.0 * (energy - energy.max()))
    level = float(weight @ energy / weight.sum())
    speech = energy >= level - SPEECH
    mean = channels[speech].mean(axis=0)
    near = maximum_filter1d(speech, 2 * round(NEAR / step_seconds) + 1, mode="constant")
    noise = channels[near & ~speech & (energy >= level - RANGE)]
    floor = mean - RANGE
    if len(noise):
        floor = np.maximum(floor, np.quantile(noise, QUIET, axis=0))
    return np.asarray(np.maximum(channels, floor) - mean)
