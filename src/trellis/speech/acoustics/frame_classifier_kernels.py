# mypy: allow-untyped-defs
"""One pass of the multiclass passive-aggressive algorithm, on a kernel matrix or on explicit features.

With r the right class of example i and s the best wrong one,

    loss = max(0, 1 - f_r(x_i) + f_s(x_i)),         tau = min(C, loss / (2 k(x_i, x_i))),
    f_r <- f_r + tau k(x_i, .),                     f_s <- f_s - tau k(x_i, .)
"""

from __future__ import annotations

from trellis.core.numerics import kernel


@kernel
def kernel_pass(gram, targets, order, C, alpha, total):
    """f_c(x_i) = sum_j alpha[j, c] gram[i, j]; ``total`` adds up alpha after every visit. Returns
    mistakes."""
    n, n_classes = alpha.shape
    scores = gram @ alpha  # kept up to date, so that a visit without an update costs nothing
    mistakes = 0
    visits = len(order)
    for v in range(visits):
        i = order[v]
        r = targets[i]
        s = -1
        for c in range(n_classes):
            if c != r and (s < 0 or scores[i, c] > scores[i, s]):
                s = c
        loss = 1.0 - scores[i, r] + scores[i, s]
        if loss <= 0.0:
            continue
        if loss >= 1.0:
            mistakes += 1
        tau = min(C, loss / (2.0 * gram[i, i]))
        alpha[i, r] += tau
        alpha[i, s] -= tau
        # the sum over visits v' >= v of this step, without a loop over visits
        total[i, r] += tau * (visits - v)
        total[i, s] -= tau * (visits - v)
        for j in range(n):
            scores[j, r] += tau * gram[i, j]
            scores[j, s] -= tau * gram[i, j]
    return mistakes


@kernel
def feature_pass(rows, targets, C, weights, total, visited, visits):
    """The same with f_c(x) = weights[c] . x, for rows in the order given.

    ``visited``: visits before these rows, of ``visits`` in all; ``total`` adds up the weights after every
    visit.
    """
    n_classes, d = weights.shape
    scores = weights[:, 0].copy()
    mistakes = 0
    for i in range(len(rows)):
        norm = 0.0
        for a in range(d):
            norm += rows[i, a] * rows[i, a]
        for c in range(n_classes):
            value = 0.0
            for a in range(d):
                value += weights[c, a] * rows[i, a]
            scores[c] = value
        r = targets[i]
        s = -1
        for c in range(n_classes):
            if c != r and (s < 0 or scores[c] > scores[s]):
                s = c
        loss = 1.0 - scores[r] + scores[s]
        if loss <= 0.0 or norm == 0.0:
            continue
        if loss >= 1.0:
            mistakes += 1
        tau = min(C, loss / (2.0 * norm))
        left = tau * (visits - visited - i)
        for a in range(d):
            weights[r, a] += tau * rows[i, a]
            weights[s, a] -= tau * rows[i, a]
            total[r, a] += left * rows[i, a]
            total[s, a] -= left * rows[i, a]
    return mistakes
