# mypy: allow-untyped-defs
"""Components of an observation that are missing while others are observed.

The noises of one observation are correlated: those of the missing components follow from those of the
observed ones, r = G r_o + e, with G = R_{.o} R_oo^-1 the regression on the observed noises and e the rest.
So  x = C z + shift + G (x_o - C_o z - shift_o) + e,  with the mean and covariance of z from the smoother.
"""

from __future__ import annotations

import numpy as np

from trellis.core.numerics import kernel
from trellis.statespace.kalman_kernels import read_pattern
from trellis.statespace.square_root_kernels import regression, triangularise


@kernel
def noise_regression(R_root, observed, count, M, pivots, G, rest):
    """``G`` (m, count): noises regressed on the observed ones; ``rest`` (m, m): covariance of the rest."""
    m = R_root.shape[0]
    missing = np.empty(m - count, np.int64)
    seen = 0
    for i in range(m):  # observed rows first, missing rows after them
        is_observed = seen < count and observed[seen] == i
        if not is_observed:
            missing[i - seen] = i
        row = seen if is_observed else count + i - seen
        seen += is_observed
        for j in range(m):
            M[row, j] = R_root[i, j]
            rest[i, j] = 0.0
    rank = triangularise(M, count, m, m, pivots)
    J = np.empty((m - count, count))
    regression(M, count, m - count, count, pivots, J)
    for o in range(count):
        for i in range(m):
            G[i, o] = 0.0
        G[observed[o], o] = 1.0
    for a in range(m - count):
        for o in range(count):
            G[missing[a], o] = J[a, o]
        for b in range(m - count):
            total = 0.0
            for j in range(rank, m):
                total += M[count + a, j] * M[count + b, j]
            rest[missing[a], missing[b]] = total


@kernel
def fill_missing(y, offsets, C, R_root, means, covariances, filled, spreads):
    """E[y_t | all] into ``filled`` (N, m), where y is observed y itself; Cov into ``spreads`` (N, m, m)."""
    m, n = C.shape[1:]
    c_step, r_step = int(C.shape[0] > 1), int(R_root.shape[0] > 1)
    M, pivots, G, H = np.empty((m, m)), np.empty(m, np.int64), np.empty((m, m)), np.empty((m, n))
    observed, count = np.empty(m, np.int64), -1
    for s in range(len(offsets) - 1):
        for now in range(offsets[s], offsets[s + 1]):
            t = now - offsets[s]
            c, mean, P, spread = C[t * c_step], means[now], covariances[now], spreads[now]
            count, _ = read_pattern(y[now], observed, count)
            noise_regression(R_root[t * r_step], observed, count, M, pivots, G, spread)
            # H = C - G C_o: what the state adds to a missing component
            for i in range(m):
                total = 0.0
                for j in range(n):
                    H[i, j] = c[i, j]
                    for o in range(count):
                        H[i, j] -= G[i, o] * c[observed[o], j]
                    total += H[i, j] * mean[j]
                for o in range(count):
                    total += G[i, o] * y[now, observed[o]]
                filled[now, i] = total
            for o in range(count):
                for j in range(n):
                    H[observed[o], j] = 0.0
                filled[now, observed[o]] = y[now, observed[o]]
            for i in range(m):
                for k in range(n):
                    along = 0.0
                    for j in range(n):
                        along += H[i, j] * P[j, k]
                    for j in range(m):
                        spread[i, j] += along * H[j, k]
