# mypy: allow-untyped-defs
"""Filter and posterior of a hidden Markov model from *scaled likelihoods*: no exponential in any loop over
time.

``e`` (N, K), packed: e[t, k] = p(x_t | k) / exp(shift_t), each row's maximum 1. Messages have size =
``lanes(K)`` entries, those beyond K always 0; q_t is a factor that keeps alpha[t] in range.

    alpha[0] = initial * e[0] q_0              alpha[t] = (alpha[t-1] A) * e[t] q_t
    beta[n-1] = 1 / sum_k alpha[n-1, k]        beta[t-1] = A w[t],    w[t] = e[t] * beta[t] q_t

Then sum_k alpha[t, k] beta[t, k] = 1 at every step, and

    P(y_t = k) = alpha[t, k] beta[t, k]        P(y_{t-1} = j, y_t = k) = alpha[t-1, j] A[j, k] w[t, k]

The factor q_t is 1 until the sum of alpha falls below ``RESCALE``, so neither a division nor a logarithm
stands in the way of the next step; beta is normalised again every ``CHUNK`` steps, which keeps all digits
however long the sequence is.

Underflow. Two kinds of transition matrices need two kinds of care:

* DENSE, every transition at least 1e-50. One step spreads what is there over all states, so what is lost at
  one step (below 1e-307, of a message whose sum is above 1e-70) stays below 1e-180 of every later message.
  Nothing has to be watched but the first step.
* SPARSE, transitions 0 or at least 1e-100, and so the initial probabilities. A state that looks hopeless now
  may be the only one that survives. Here ``e`` and ``alpha`` are never let below ``FLOOR`` = 1e-200 where the
  truth is positive, so an exact zero means "impossible" and all errors are overestimates. They all pass
  through entries of alpha below ``SUSPECT`` = 1e-100; while none of these carries a posterior above
  ``NEGLIGIBLE`` = 1e-25, neither does the error in any answer. Otherwise the kernel gives up on this sequence
  (NaN), and the caller answers it in log space (:func:`log_space_batch`), which is slower and always right.
* Anything else is LOG: log space throughout.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel
from trellis.core.numerics_kernels import highest
from trellis.structures.chain.oracle.backward_filter_kernels import filter_forward, filter_marginals
from trellis.structures.chain.oracle.chain_kernels import add_outer

DENSE, SPARSE, LOG = 0, 1, 2
FLOOR, SUSPECT, NEGLIGIBLE = 1e-200, 1e-100, 1e-25
RESCALE = 1e-20
LEAST = 1e-90  # less than this left after one step: give up
HARDLY_REACHED = 1e-280
CHUNK = 64  # steps whose w are kept, and after which beta is normalised


@kernel
def _times(M, x, s, y, t):
    """y[t] = x[s] M, for a matrix laid out by ``hmm_chain.kernel_layout``.

    Small matrices are (size / 4, size, 4), four columns in a block: four sums that LLVM keeps in one
    register. Large ones are (1, size, size), transposed: four dot products, each of them in SIMD. Indices and
    not views of rows: a view counts references, which costs more than it has to compute here.
    """
    size = y.shape[1]
    if M.shape[2] == 4:
        for b in range(M.shape[0]):
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for j in range(size):
                v = x[s, j]
                s0 += v * M[b, j, 0]
                s1 += v * M[b, j, 1]
                s2 += v * M[b, j, 2]
                s3 += v * M[b, j, 3]
            k = 4 * b
            y[t, k], y[t, k + 1], y[t, k + 2], y[t, k + 3] = s0, s1, s2, s3
    else:
        for k in range(0, size, 4):
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for j in range(size):
                v = x[s, j]
                s0 += v * M[0, k, j]
                s1 += v * M[0, k + 1, j]
                s2 += v * M[0, k + 2, j]
                s3 += v * M[0, k + 3, j]
            y[t, k], y[t, k + 1], y[t, k + 2], y[t, k + 3] = s0, s1, s2, s3


@kernel
def _lifted(e, row, alpha, t):
    """alpha[t] *= e[row], but not below FLOOR where both are positive; the sum, and whether any was lifted.

    Positive factors are at least 1e-300, so zeros are true; their product may underflow.
    """
    c, lifted = 0.0, 0.0
    for k in range(e.shape[1]):
        x = alpha[t, k] * e[row, k]
        low = x < FLOOR and alpha[t, k] > 0.0 and e[row, k] > 0.0
        x = FLOOR if low else x
        alpha[t, k] = x
        c += x
        lifted += 1.0 if low else 0.0
    return c, lifted > 0.0


@kernel
def _forward(e, lo, n, initial, A, sparse, alpha, q):
    """Fill alpha (n, size) and q (n,); returns log p(x) less the shifts, and whether anything was lifted.

    NaN where too little is left after a step to be trusted: an impossible sequence, or underflow.
    """
    K, size = e.shape[1], alpha.shape[1]
    log_p, lifted = 0.0, False
    for t in range(n):
        c = 0.0
        if t == 0:
            for k in range(size):
                alpha[0, k] = initial[k]
        else:
            _times(A, alpha, t - 1, alpha, t)
        if sparse:
            c, low = _lifted(e, lo + t, alpha, t)
            lifted = lifted or low
        else:
            for k in range(K):
                x = alpha[t, k] * e[lo + t, k]
                alpha[t, k] = x
                c += x
        q[t] = 1.0
        if c < RESCALE:
            if c < LEAST:
                return np.nan, lifted
            log_p += math.log(c)
            c = 1.0 / c
            q[t] = c
            for k in range(K):
                alpha[t, k] *= c
    return log_p + math.log(_row_sum(alpha, n - 1)), lifted


@kernel
def _row_sum(x, t):
    total = 0.0
    for k in range(x.shape[1]):
        total += x[t, k]
    return total


@kernel
def _backward(e, lo, n, A_t, sparse, alpha, q, beta, w, outer):
    """e[t] becomes P(y_t = .); outer += sum_t alpha[t-1] w[t]^T, still to be multiplied by A.

    Returns False where the certificate of the sparse case fails. Scratch: ``beta`` (1, size) and ``w``
    (CHUNK + 1, size), zero beyond K.
    """
    K, size = e.shape[1], alpha.shape[1]
    for k in range(size):
        beta[0, k] = 1.0
    for first in range((n - 1) // CHUNK * CHUNK, -1, -CHUNK):
        last = min(n, first + CHUNK)
        s = 0.0
        for k in range(size):
            s += alpha[last - 1, k] * beta[0, k]
        s = 1.0 / s
        for k in range(size):
            beta[0, k] *= s
        suspect = 0.0
        for t in range(last - 1, first - 1, -1):
            row, i = lo + t, t - first + 1
            if sparse:
                # States that cannot be reached may have a beta of any size: it is not kept.
                for k in range(K):
                    beta[0, k] = beta[0, k] if alpha[t, k] > 0.0 else 0.0
                    suspect += alpha[t, k] * beta[0, k] if alpha[t, k] < SUSPECT else 0.0
            c = q[t]
            for k in range(K):
                b = beta[0, k]
                w[i, k] = e[row, k] * b * c
                e[row, k] = alpha[t, k] * b
            _times(A_t, w, i, beta, 0)
        if not suspect <= NEGLIGIBLE:
            return False
        before = max(first - 1, 0)  # step 0 has no pair
        add_outer(alpha[before:last], w[before + 1 - first : last - first + 1], outer)
    return True


@kernel
def longest(offsets):
    """The length of the longest sequence."""
    top = 0
    for i in range(offsets.shape[0] - 1):
        top = max(top, offsets[i + 1] - offsets[i])
    return top


@kernel
def _posterior(e, lo, n, initial, A, A_t, sparse, alpha, q, beta, w, own, start, outer):
    """e[lo : lo + n] becomes the posterior of one sequence, and is added to ``start`` and ``outer``; returns
    log p(x) less the shifts, NaN where it is still to do (then nothing was added). Scratch: the rest."""
    log_p, _ = _forward(e, lo, n, initial, A, sparse, alpha, q)
    if np.isnan(log_p):
        return log_p
    target = own if sparse else outer  # what fails its certificate must not be counted
    certain = _backward(e, lo, n, A_t, sparse, alpha, q, beta, w, target)
    if sparse:
        for j in range(own.shape[0]):
            for k in range(own.shape[1]):
                outer[j, k] += own[j, k] if certain else 0.0
                own[j, k] = 0.0
    if not certain:
        return np.nan
    for k in range(e.shape[1]):
        start[k] += e[lo, k]
    return log_p


@kernel
def posterior_batch(e, shift, offsets, initial, A, A_t, sparse, log_p, start, outer):
    """The posteriors of a block of sequences, in place of ``e``; ``log_p`` (S,) is NaN where it is still to
    do.

    Added to: ``start`` (K,) the posteriors of the first steps, and ``outer`` (size, size), which times A is
    the sum of the posteriors of the transitions.
    """
    size, n = outer.shape[0], longest(offsets)
    alpha, q = np.empty((n, size)), np.empty(n)
    beta, w, own = np.empty((1, size)), np.zeros((CHUNK + 1, size)), np.zeros((size, size))
    for i in range(offsets.shape[0] - 1):
        lo, hi = offsets[i], offsets[i + 1]
        log_p[i] = 0.0
        if lo == hi:
            continue
        log_p[i] = _posterior(
            e, lo, hi - lo, initial, A, A_t, sparse, alpha, q, beta, w, own, start, outer
        )  # fmt: skip
        for t in range(lo, hi):
            log_p[i] += shift[t]


@kernel
def value_posterior_batch(
    codes, offsets, table, shift, initial, A, A_t, sparse, log_p, start, outer, weights
):  # fmt: skip
    """:func:`posterior_batch` for observations of few values: step t has the likelihoods table[codes[t]] and
    their shift. Posteriors are not kept but added up for each value, in ``weights`` (values, K); so a shard
    is one call, and what it works on is one sequence, which the cache holds.
    """
    K, size, n = table.shape[1], outer.shape[0], longest(offsets)
    e, alpha, q = np.empty((n, K)), np.empty((n, size)), np.empty(n)
    beta, w, own = np.empty((1, size)), np.zeros((CHUNK + 1, size)), np.zeros((size, size))
    for i in range(offsets.shape[0] - 1):
        lo, hi = offsets[i], offsets[i + 1]
        log_p[i] = 0.0
        if lo == hi:
            continue
        shifts = 0.0
        for t in range(lo, hi):
            value = codes[t]
            shifts += shift[value]
            for k in range(K):
                e[t - lo, k] = table[value, k]
        log_p[i] = shifts + _posterior(
            e, 0, hi - lo, initial, A, A_t, sparse, alpha, q, beta, w, own, start, outer
        )  # fmt: skip
        if np.isnan(log_p[i]):
            continue
        for t in range(lo, hi):
            value = codes[t]
            for k in range(K):
                weights[value, k] += e[t - lo, k]


@kernel
def filter_batch(e, shift, offsets, initial, A, sparse, log_p):
    """P(y_t = . | x_1..t) in place of ``e``; ``log_p`` (S,) is NaN where it is still to do.

    In the sparse case that is wherever anything was lifted: without beta nothing says that it does not
    matter.
    """
    K, size, n = e.shape[1], initial.shape[0], longest(offsets)
    alpha, q = np.empty((n, size)), np.empty(n)
    for i in range(offsets.shape[0] - 1):
        lo, hi = offsets[i], offsets[i + 1]
        log_p[i] = 0.0
        if lo == hi:
            continue
        log_p[i], lifted = _forward(e, lo, hi - lo, initial, A, sparse, alpha, q)
        if lifted or np.isnan(log_p[i]):
            log_p[i] = np.nan
            continue
        for t in range(lo, hi):
            log_p[i] += shift[t]
            c = 1.0 / _row_sum(alpha, t - lo)
            for k in range(K):
                e[t, k] = alpha[t - lo, k] * c


@kernel
def log_space_batch(u, offsets, log_initial, log_A, smooth, log_p, out, start, pairs):
    """The sequences whose ``log_p`` is NaN, from log-likelihoods ``u``: always right, several times slower.

    ``out`` gets the posteriors (``smooth``; then ``start`` and ``pairs`` (1, K, K) are added to) or the
    filter. Where a sequence is impossible ``log_p`` is -inf, and rows of ``out`` are zero: the filter's from
    the step on that cannot be.
    """
    K, n = u.shape[1], longest(offsets)
    f, free = np.empty((n, K)), np.zeros(K)
    shift, e, weight, q = np.empty(K), np.empty((K, K)), np.empty(K), np.empty((K, K))
    for i in range(offsets.shape[0] - 1):
        if not np.isnan(log_p[i]):
            continue
        lo, hi = offsets[i], offsets[i + 1]
        if lo == hi:  # the row at lo belongs to another sequence, if to any
            log_p[i] = 0.0
            continue
        own = f[: hi - lo]
        out[lo:hi] = 0.0
        if smooth:
            log_p[i] = filter_marginals(u[lo:hi], log_A, log_initial, free, own, out[lo:hi], pairs, False)
            for k in range(K):
                start[k] += out[lo, k]
            continue
        own[:] = -np.inf
        log_p[i] = filter_forward(u[lo:hi], log_A, log_initial, own, shift, e, weight, q, own[:0], own[:0])
        for t in range(lo, hi):
            for k in range(K):
                out[t, k] = math.exp(own[t - lo, k])


@kernel
def filter_step(log_likelihood, log_initial, A, log_A, before, n_before, after, probabilities):
    """One step of a filter in logs, from ``before`` to ``after`` (K,), and the exponentials of the latter.

    after[k] = log_likelihood[k] + log sum_j exp(before[j] + log_A[j, k]) - log p(x_t | past), the last of
    which is returned: -inf for an impossible observation, and then ``after`` means nothing. A sum of products
    exp(before - max) A that is far above the underflow of its terms has all its digits; one that is not, so
    a state that is hardly reached, is summed again in logs.
    """
    K = A.shape[0]
    if n_before == 0:
        for k in range(K):
            after[k] = log_initial[k]
    else:
        top = highest(before)
        for k in range(K):
            after[k] = 0.0
        for j in range(K):
            weight = math.exp(before[j] - top)
            for k in range(K):
                after[k] += weight * A[j, k]
        for k in range(K):
            after[k] = math.log(after[k]) + top if after[k] > HARDLY_REACHED else _reached(before, log_A, k)
    for k in range(K):
        after[k] += log_likelihood[k]
    top = highest(after)
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(K):
        total += math.exp(after[k] - top)
    total = top + math.log(total)
    for k in range(K):
        after[k] -= total
        probabilities[k] = math.exp(after[k])
    return total


@kernel
def _reached(before, log_A, k):
    """log sum_j exp(before[j] + log_A[j, k])."""
    top = -np.inf
    for j in range(before.shape[0]):
        top = max(top, before[j] + log_A[j, k])
    if top == -np.inf:
        return top
    total = 0.0
    for j in range(before.shape[0]):
        total += math.exp(before[j] + log_A[j, k] - top)
    return top + math.log(total)


@kernel
def walk_batch(uniforms, offsets, initial, A, states):
    """States of a Markov chain, by inverting the distribution function; the last possible state answers for
    the rounding of the sum, so an impossible one is never drawn. ``initial`` (1 or S, K)."""
    K = A.shape[0]
    for i in range(offsets.shape[0] - 1):
        for t in range(offsets[i], offsets[i + 1]):
            p = initial[i % initial.shape[0]] if t == offsets[i] else A[states[t - 1]]
            reached, last = 0.0, 0
            for k in range(K):
                if p[k] > 0.0:
                    last = k
                    reached += p[k]
                    if reached > uniforms[t]:
                        break
            states[t] = last
