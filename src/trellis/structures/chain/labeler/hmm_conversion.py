"""From the scores of a chain back to probabilities, by a backward pass.

A chain with log scores ``start`` (K,), ``step`` (K, K) and ``end`` (K,), in which what a step emits has been
summed out, is the distribution p(s) = exp(start[s_1] + sum step[s_{t-1}, s_t] + end[s_n]) / Z over state
sequences of n steps. With M = exp(step) and the backward messages b_n = exp(end), b_{t-1} = M b_t it is a
Markov chain:

    P(s_1 = k) = exp(start[k]) b_1[k] / Z,     P(s_t = k | s_{t-1} = j) = M[j, k] b_t[k] / b_{t-1}[j].
"""

from __future__ import annotations

import numpy as np

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.logspace import log_sum_exp, softmax

_SQUARINGS = 50  # the limit of long sequences is read off at 2^50 steps


def normalised_chain(
    start: FloatArray, step: FloatArray, end: FloatArray, length: int | None
) -> tuple[FloatArray, FloatArray]:
    """Initial probabilities (K,) and transitions: (length - 1, K, K), or (K, K) without ``length``.

    For a given ``length`` this is the same distribution, with transitions that change from step to step. With
    ``length=None`` it is the limit for long sequences, in which b has become an eigenvector of M and the
    transitions stay the same. A state that nothing goes on from has a row of zeros.
    """
    backward = end
    if length is None:
        backward = _long_run(step, end)
        transitions = softmax(step + backward)
    else:
        length = check_int("length", length, 1)
        k = len(start)
        transitions = np.empty((length - 1, k, k))
        for t in reversed(range(length - 1)):
            transitions[t] = softmax(step + backward)
            backward = log_sum_exp(step + backward, axis=1)
    return softmax(start + backward), transitions


def _long_run(step: FloatArray, end: FloatArray) -> FloatArray:
    """log M^n exp(end) up to a constant as n grows: by repeated squaring, in log space for precision."""
    power = step
    for _ in range(_SQUARINGS):
        power = log_sum_exp(power[:, :, None] + power[None, :, :], axis=1)
        top = power.max()
        if top == -np.inf:
            raise UnsupportedError(
                "the constraints allow no long labelling, so there is no limit; give a length"
            )
        power = power - top
    backward: FloatArray = log_sum_exp(power + end, axis=1)
    after = log_sum_exp(step + backward, axis=1)
    alive = np.isfinite(backward)
    growth = after[alive] - backward[alive]
    if not alive.any() or not np.allclose(growth, growth[0], rtol=0.0, atol=1e-6):
        raise UnsupportedError(
            "the labels alternate forever under the constraints, or no way leads from some to those that "
            "long sequences prefer, so there is no limit; give a length"
        )
    shifted: FloatArray = backward - backward.max()
    return shifted
