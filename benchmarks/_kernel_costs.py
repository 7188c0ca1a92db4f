"""Operations and bytes that one step of each main kernel must take: the arithmetic behind ``limits.py``.

Operations are additions and multiplications of doubles that the algorithm asks for (an exponential counts
25, a comparison 1), without padding. Bytes are what goes between the processor and the data of the kernel,
each number once for each time that the algorithm must read or write it; what stays in registers from one
step to the next does not count. The *working set* says where these data are: everything that is read again
before it is finished with.
"""

from __future__ import annotations

from typing import NamedTuple

EXP = 25.0
DOUBLE = 8.0


class Cost(NamedTuple):
    """Of one step (token), with the working set in bytes."""

    flops: float
    bytes: float
    working_set: float


def crf_evaluation(rows: float, singles: float, labels: int, lanes: int, weights: float, block: int) -> Cost:
    """Objective and gradient of a chain CRF: ``rows`` full rows of ``lanes`` weights and ``singles`` single
    weights a token, read to score it, read and written to give its gradient back. The scores and marginals of
    a block stay in a nearer cache and do not count; rows that many tokens share may, too, so with these bytes
    the limit is that of a corpus without repetition. ``weights``: how many there are."""
    scored = rows * lanes + singles
    index = 4.0 * rows + 6.0 * singles
    flops = 2 * (rows * labels + singles) + 6 * labels**2 + (EXP + 8) * labels
    moved = scored * DOUBLE + scored * 2 * DOUBLE + 2 * index
    return Cost(flops, moved, 2 * weights * DOUBLE + 4 * block * lanes * DOUBLE)


def viterbi(labels: int, steps: float) -> Cost:
    """The best labelling from given scores: the scores of a step are read, its maxima written and read again
    on the way back, and its label written."""
    return Cost(2 * labels**2 + labels, (3 * labels + 1) * DOUBLE, steps * labels * DOUBLE)


def hmm_e_step(states: int, length: float) -> Cost:
    """Forward-backward of one sequence and its counts: likelihoods written once, read three times and
    replaced by posteriors; alpha written, and read twice."""
    return Cost(6 * states**2 + 8 * states, (8 * states + 1) * DOUBLE, 2 * length * states * DOUBLE)


def kalman_smoother(n: int, m: int, steps: float) -> Cost:
    """The smoother on covariances with gaps in most steps: ``n`` states, ``m`` observations. Symmetric
    products count half. Covariances are written, read and written again; W and H of each step are written and
    read."""
    half = n * (n + 1) / 2
    forward = 2 * m * n**2 + m * (m + 1) / 2 * n + n**3 + m**2 * n + (n + m) * half + m**3 / 3
    backward = m * n**2 + 2 * n**3 + (2 * n + m) * half
    vectors = 4 * n**2 + 4 * m * n
    moved = 3 * n**2 + 4 * m * n + 4 * n + 4 * m
    return Cost(2 * (forward + backward + vectors), moved * DOUBLE, steps * (n**2 + 2 * m * n) * DOUBLE)


def perceptron_pass(features: float, weights_read: float, labels: int, weights: float) -> Cost:
    """A pass of the perceptron: ``features`` a token, whose rows hold ``weights_read`` weights with their
    labels (2 bytes); Viterbi; updates are rare and do not count. ``weights``: how many there are."""
    moved = weights_read * (DOUBLE + 2) + features * (4 + DOUBLE) + 3 * labels * DOUBLE
    return Cost(weights_read + 2 * labels**2 + labels, moved, weights * (DOUBLE + 2))
