# mypy: allow-untyped-defs
"""Observable operators: gathering them from triples, and running them along sequences.

A sequence is read by one small matrix per symbol, whatever the hidden states are. Symbol ``M`` stands for a
missing one; its operator is the sum of all the others, which marginalises it.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel


@kernel
def add_operators(first, second, third, weight, left, right, operators):
    """B_x += sum over triples with x_2 = x of weight left[x_3] right[x_1]^T.

    With ``left`` = U and ``right`` = (U^T P_21)^+ this is U^T P_{3,x,1} (U^T P_21)^+, without ever holding
    the M x M x M table of triples.
    """
    K = left.shape[1]
    for n in range(len(weight)):
        u, v, B = left[third[n]], right[first[n]], operators[second[n]]
        for a in range(K):
            scaled = weight[n] * u[a]
            for b in range(K):
                B[a, b] += scaled * v[b]


@kernel
def run_operators(
    symbols, offsets, start, restart, readout, operators, lowest, observed, mass, final, states
):
    """Run the operators along packed sequences; the state b always has total mass 1.

        observed[t] = readout[x_t] . b          the estimate of p(x_t | x_1 .. x_{t-1})
        mass[t] = readout[M] . b                that of the sum over all symbols
        b <- operators[x_t] b / observed[t]

    Where ``observed`` is at most ``lowest``, or exactly 0, there is nothing to go on from: b becomes
    ``restart``. The state after each sequence goes into ``final`` (S, K), and the one before each step into
    ``states`` (N, K), unless that is empty.
    """
    K, everything = len(start), len(readout) - 1
    b, moved = np.empty(K), np.empty(K)
    for i in range(len(offsets) - 1):
        b[:] = start
        for t in range(offsets[i], offsets[i + 1]):
            x = symbols[t]
            if states.shape[0] > 0:
                states[t] = b
            p = s = 0.0
            for k in range(K):
                p += readout[x, k] * b[k]
                s += readout[everything, k] * b[k]
            observed[t], mass[t] = p, s
            if p <= lowest or p == 0.0:
                b[:] = restart
                continue
            B = operators[x]
            for a in range(K):
                total = 0.0
                for k in range(K):
                    total += B[a, k] * b[k]
                moved[a] = total / p
            b[:] = moved
        final[i] = b
