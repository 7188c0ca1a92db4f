# mypy: allow-untyped-defs
"""Covariances as their roots, P = S S', and one orthogonal reduction that does all the work on them.

A double holds sixteen digits. A covariance whose largest and smallest variances differ by more than that is
no longer positive when it is written down; its root spans only half as many digits. Every step of the Kalman
filter and smoother is a reduction of a stack of rows that keeps their inner products:

    [ U ]           [ L  0 ]        L L' = U U'           L lower triangular
    [ V ]  O   =    [ G  E ]        G L' = V U'           E E' = V V' - G G'

If U and V are roots of the covariances of two random vectors (columns are independent unit noises), then
G L^-1 is the regression of the second on the first, and E a root of what is left of the second: no difference
of covariances is ever formed.

``L`` is an echelon: a row that depends on the rows above it takes no column, so singular covariances (a noise
of rank one, a state known for certain) need no special case. Pivots are positive, so ``L`` is unique, and two
steps of a recursion can be compared.
"""

from __future__ import annotations

import math

import numpy as np

from trellis.core.numerics import kernel

DEPENDENT = 4e-15  # a row whose new part is smaller than this, relative to the row, depends on those above
TINY = 1e-290  # squares below are zero
ZERO_PIVOT = 1e-14  # of a correlation matrix
NOT_A_COVARIANCE = 1e-9  # what may be left of a correlation matrix after its last pivot


@kernel
def triangularise(M, k, rows, cols, pivots):
    """Reduce the first ``k`` of ``rows`` x ``cols`` of ``M`` in place to an echelon; returns its rank.

    ``pivots[i]`` is the column of the pivot of row i, -1 where the row depends on those above. Column numbers
    are unsigned: no wrap-around test in the inner loops, which lets them use SIMD.
    """
    c, one, end = np.uint64(0), np.uint64(1), np.uint64(cols)
    for i in range(k):
        pivots[i] = -1
        used, tail = 0.0, 0.0
        for j in range(c):
            used += M[i, j] * M[i, j]
        for j in range(c + one, end):
            tail += M[i, j] * M[i, j]
        x = M[i, c] if c < end else 0.0
        square = x * x + tail
        if square <= TINY or square <= DEPENDENT * DEPENDENT * (used + square):
            for j in range(c, end):
                M[i, j] = 0.0
            continue
        norm = math.sqrt(square)
        # the reflection I - beta v v', v = (x - norm, the rest of the row), turns the row into (norm, 0, ...)
        if x <= 0.0 or tail > 1e-40 * square:
            M[i, c] = x - norm if x <= 0.0 else -tail / (x + norm)
            beta = 2.0 / (M[i, c] * M[i, c] + tail)
            for r in range(i + 1, rows):
                along = 0.0
                for j in range(c, end):
                    along += M[i, j] * M[r, j]
                along *= beta
                for j in range(c, end):
                    M[r, j] -= along * M[i, j]
        M[i, c] = norm
        for j in range(c + one, end):
            M[i, j] = 0.0
        pivots[i] = np.int64(c)
        c += one
    return np.int64(c)


@kernel
def regression(M, first, count, k, pivots, J):
    """J (count, k) with J L = G: ``L`` the first k rows of a reduced ``M``, ``G`` the rows from ``first``.

    Coefficients of rows that depend on others are zero.
    """
    for a in range(count):
        for i in range(k):
            J[a, i] = 0.0
    for i in range(k - 1, -1, -1):
        c = pivots[i]
        if c < 0:
            continue
        reciprocal = 1.0 / M[i, c]
        for a in range(count):
            total = M[first + a, c]
            for later in range(i + 1, k):
                total -= J[a, later] * M[later, c]
            J[a, i] = total * reciprocal


@kernel
def outer(S, rows, cols, P):
    """P = S S' of the first ``rows`` and ``cols`` of S."""
    for i in range(rows):
        for j in range(i + 1):
            total = 0.0
            for k in range(cols):
                total += S[i, k] * S[j, k]
            P[i, j] = total
            P[j, i] = total


@kernel
def multiply(A, S, M):
    """A S into the upper left corner of M."""
    rows, inner = A.shape
    n = S.shape[1]
    for i in range(rows):
        for j in range(n):
            M[i, j] = 0.0
        for k in range(inner):
            for j in range(n):
                M[i, j] += A[i, k] * S[k, j]


@kernel
def close(L, K, tol):
    """Whether two echelons agree: each entry to ``tol`` of the length of its row."""
    n = L.shape[0]
    for i in range(n):
        square, worst = 0.0, 0.0
        for j in range(n):
            square += L[i, j] * L[i, j]
            worst = max(worst, abs(L[i, j] - K[i, j]))
        if worst * worst > tol * tol * square:
            return False
    return True


@kernel
def covariance_roots(P):
    """Lower triangular roots (k, n, n) of covariances (k, n, n), which may be singular; and a verdict.

    The verdict is the index of the first matrix that is not positive semidefinite, or -1. Cholesky with the
    largest correlation left as the next pivot: without that order a small pivot would blow up rounding errors
    in the pivots after it.
    """
    n = P.shape[1]
    L = np.zeros(P.shape)
    left, scale, pivots = np.empty((n, n)), np.empty(n), np.empty(n, np.int64)
    for t in range(P.shape[0]):
        for i in range(n):
            scale[i] = math.sqrt(max(P[t, i, i], 0.0))
        for i in range(n):
            for j in range(n):
                product = scale[i] * scale[j]
                if product == 0.0 and P[t, i, j] != 0.0:
                    return L, t
                left[i, j] = P[t, i, j] / product if product > 0.0 else 0.0
        for k in range(n):
            p = 0
            for i in range(n):
                if left[i, i] > left[p, p]:
                    p = i
            if left[p, p] <= ZERO_PIVOT:
                break
            root = math.sqrt(left[p, p])
            for i in range(n):
                L[t, i, k] = left[i, p] / root
            for i in range(n):
                for j in range(n):
                    left[i, j] -= L[t, i, k] * L[t, j, k]
        for i in range(n):
            for j in range(n):
                if abs(left[i, j]) > NOT_A_COVARIANCE:
                    return L, t
                L[t, i, j] *= scale[i]
        triangularise(L[t], n, n, n, pivots)
    return L, -1
