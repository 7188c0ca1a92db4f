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
STREAMS = 4  # chains that share one reading of the transitions


class Cost(NamedTuple):
    """Of one step (token), with the working set in bytes."""

    flops: float
    bytes: float
    working_set: float


class Stage(NamedTuple):
    """A part of the CRF's evaluation, for one token."""

    name: str
    flops: float
    moved: float  # bytes between registers and caches
    needed: float  # bytes that no cache can save: each evaluation reads or writes them once


class CompactSizes(NamedTuple):
    """Of a compact design: tokens, full rows and single weights that all of them read, rows of the table,
    weights, labels, columns of a row, and steps of a block."""

    tokens: int
    rows: int
    singles: int
    table: int
    weights: int
    labels: int
    columns: int
    block: int


def crf_stages(sizes: CompactSizes) -> list[Stage]:
    """Objective and gradient of a chain CRF as its kernels do it, padding included: r rows and s single
    weights a token, P columns."""
    n, P = sizes.tokens, sizes.columns
    r, s = sizes.rows / n, sizes.singles / n
    row, matrix = DOUBLE * P, DOUBLE * P * P / STREAMS
    indices = 4 * r + 16 + 8 * s  # rows, two pointers, places and targets
    table, weights = row * sizes.table / n, DOUBLE * sizes.weights / n
    return [
        Stage("weights to table and back", 4 * table / DOUBLE, 4 * table, 2 * weights),
        Stage("scores", 2 * r * P + 2 * s, indices + r * row + row + 24 * s, indices),
        Stage("exponentials", 36 * P, 3 * row, 0),
        Stage("forward", 2 * P * P + 3 * P, matrix + 5 * row, 0),
        Stage("backward", 2 * P * P + 3 * P, matrix + 7 * row, 0),
        Stage("pairs", 2 * P * P, row * (P / 8 + P / 4), 0),
        Stage("pull-back", 2 * r * P + 2 * s, indices + 2 * r * row + row + 24 * s, 0),
    ]


def crf_evaluation(sizes: CompactSizes) -> Cost:
    """All stages, of which these bytes must cross: rows and single weights, read to score, read and written
    to give the gradient back. What stays with a block in a nearer cache does not count; rows that many tokens
    share may stay there, too, so with these bytes the limit is that of a corpus without repetition."""
    scored = (sizes.rows * sizes.columns + sizes.singles) / sizes.tokens
    index = (4.0 * sizes.rows + 6.0 * sizes.singles) / sizes.tokens
    r, s, K = sizes.rows / sizes.tokens, sizes.singles / sizes.tokens, sizes.labels
    flops = 2 * (r * K + s) + 6 * K**2 + (EXP + 8) * K
    moved = 3 * DOUBLE * scored + 2 * index
    kept = 2 * sizes.weights * DOUBLE + 4 * sizes.block * sizes.columns * DOUBLE
    return Cost(flops, moved, kept)


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
