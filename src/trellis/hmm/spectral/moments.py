"""From triples of symbols to observable operators, by one singular value decomposition.

With the frequencies of consecutive symbols x_1, x_2, x_3, taken from the same triples,

    P_1[j] = p(x_1 = j)    P_21[i, j] = p(x_2 = i, x_1 = j)    P_3x1[i, j] = p(x_3 = i, x_2 = x, x_1 = j)

and P_21 ~ U S V^T its K leading singular triplets, the operators are

    B_x = U^T P_3x1 (U^T P_21)^+        b_inf = (P_21^T U)^+ P_1        b_1 = U^T p(first symbol)

where (U^T P_21)^+ = V S^-1. For a hidden Markov model with emission matrix O (columns are states) and
transition matrix T (columns are the previous state) whose P_21 has rank K, these are exactly

    B_x = Q T diag(O[x, :]) Q^-1        b_inf^T = 1^T Q^-1        b_1 = Q initial,        Q = U^T O

The distribution of the states at the triples cancels in B_x and b_inf, so triples from all positions are
equally good, stationary or not; only b_1 depends on the beginning of a sequence.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, NumericalError, UnsupportedError
from trellis.core.registration import register
from trellis.hmm.spectral.spectral_kernels import add_operators

DENSE = 512  # up to so many symbols the whole SVD is quick; above, Lanczos on the sparse matrix


class Triples(NamedTuple):
    """Consecutive symbols x_1, x_2, x_3, the weight of each triple (they add up to 1), and the sum of the
    weights before they were scaled."""

    first: IntArray
    second: IntArray
    third: IntArray
    weight: FloatArray
    total: float


@register
class Operators(NamedTuple):
    """The observable operators, in the coordinates of ``basis`` = U (M, K).

    ``start`` and ``average`` are the states (mass 1) at the beginning of a sequence and at the mean position;
    ``steps`` (M + 1, K, K) are the B_x and ``readout`` (M + 1, K) the rows b_inf^T B_x, both with their sum
    over all symbols as the last entry. ``start_mass`` is b_inf . b_1 before it was scaled to 1.
    """

    basis: FloatArray
    start: FloatArray
    average: FloatArray
    normaliser: FloatArray
    steps: FloatArray
    readout: FloatArray
    start_mass: float


def extract_triples(symbols: IntArray, offsets: IntArray, weight: FloatArray, only_first: bool) -> Triples:
    """All triples (or the first of each sequence) without a missing symbol; ``weight`` is per sequence."""
    at, w = find_triples(symbols, offsets, weight, only_first)
    if not len(at):
        raise no_triples()
    return Triples(symbols[at], symbols[at + 1], symbols[at + 2], w / w.sum(), float(w.sum()))


def find_triples(
    symbols: IntArray, offsets: IntArray, weight: FloatArray, only_first: bool
) -> tuple[IntArray, FloatArray]:
    """Where triples begin, and the weight of each."""
    lengths = np.diff(offsets)
    count = np.minimum(lengths - 2, 1) if only_first else lengths - 2
    count = np.maximum(count, 0)
    owner = np.repeat(np.arange(len(lengths)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    at = offsets[owner] + within
    w = weight[owner]
    kept = (symbols[at] >= 0) & (symbols[at + 1] >= 0) & (symbols[at + 2] >= 0) & (w > 0)
    return at[kept], w[kept]


def no_triples() -> DataError:
    return DataError("there is no triple of known symbols in the data; give sequences of length 3 or more")


def first_symbol_frequencies(
    symbols: IntArray, offsets: IntArray, weight: FloatArray, n_symbols: int
) -> FloatArray:
    """The distribution of the first symbol of a sequence."""
    began = find_beginnings(symbols, offsets, weight)
    check_beginnings(len(began))
    return symbol_frequencies(symbols[offsets[began]], weight[began], n_symbols)


def find_beginnings(symbols: IntArray, offsets: IntArray, weight: FloatArray) -> IntArray:
    """The sequences whose first symbol is known."""
    began = np.flatnonzero((np.diff(offsets) > 0) & (weight > 0))
    return began[symbols[offsets[began]] >= 0]


def check_beginnings(n: int) -> None:
    if n < 2:
        raise UnsupportedError(
            f"initial='first' learns the beginning of sequences from their first symbols, and there are "
            f"{n}; give more sequences or set initial='average'"
        )


def symbol_frequencies(symbols: IntArray, weight: FloatArray, n_symbols: int) -> FloatArray:
    """Weighted frequencies, which add up to 1."""
    counts = np.bincount(symbols, weight, n_symbols)
    distribution: FloatArray = counts / counts.sum()
    return distribution


def pair_frequencies(triples: Triples, n_symbols: int) -> Any:
    """P_21 as a sparse matrix."""
    entries = triples.weight, (triples.second, triples.first)
    return scipy.sparse.coo_array(entries, (n_symbols, n_symbols)).tocsr()


class Spectrum(NamedTuple):
    """The leading singular triplets of P_21: ``left`` (M, K), ``right`` (M, K), ``values`` (K, or K + 1)."""

    left: FloatArray
    values: FloatArray
    right: FloatArray


def compute_spectrum(pairs: Any, n_states: int) -> Spectrum:
    """The SVD, with one singular value more than ``n_states``, where there is one, to show the gap."""
    n_symbols = pairs.shape[0]
    if n_states > n_symbols:
        raise DataError(
            f"n_states={n_states} is more than the {n_symbols} symbols; the spectral method needs at least "
            f"as many symbols as states"
        )
    if n_symbols <= DENSE or n_states + 1 >= n_symbols:
        dense = pairs.toarray() if scipy.sparse.issparse(pairs) else pairs
        left, values, right = scipy.linalg.svd(dense)
    else:
        start = np.random.default_rng(0).random(n_symbols)  # any start will do; a fixed one is reproducible
        left, values, right = scipy.sparse.linalg.svds(pairs, k=n_states + 1, v0=start)
        order = np.argsort(-values)
        left, values, right = left[:, order], values[order], right[order]
    left, right = left[:, :n_states], right[:n_states].T
    sign = np.sign(left[np.abs(left).argmax(axis=0), np.arange(n_states)])  # of either sign: fix it
    return Spectrum(left * sign, values[: n_states + 1], right * sign)


def numerical_rank(spectrum: Spectrum, noise: FloatArray) -> int:
    """How many of the leading singular values exceed rounding and the ``noise`` of each."""
    rounding = float(spectrum.values[0]) * len(spectrum.left) * float(np.finfo(float).eps)
    above = spectrum.values[: len(noise)] > np.maximum(noise, rounding)
    return len(above) if above.all() else int(above.argmin())


def sampling_noise(pairs: Any, spectrum: Spectrum, n_triples: float) -> FloatArray:
    """About how large the estimate of each singular value would be if it were 0 (K,).

    The entries of P_21 have sampling variance P_21[i, j] / n; what the leading r - 1 singular vectors do not
    explain of it, W[i, j] = a_i P_21[i, j] c_j / n with a = 1 - sum of squared left vectors and c likewise,
    makes the r-th. The norm of a matrix with such entries is at most its Frobenius norm sqrt(sum W), and
    for independent entries near sqrt(largest row sum of W) + sqrt(largest column sum): the smaller of the
    two is taken. The triples are treated as independent.
    """
    noise = np.empty(spectrum.left.shape[1])
    a, c = np.ones(pairs.shape[0]), np.ones(pairs.shape[0])
    for r in range(len(noise)):
        rows, columns = a * (pairs @ c), c * (a @ pairs)
        noise[r] = min(np.sqrt(rows.sum()), np.sqrt(rows.max()) + np.sqrt(columns.max()))
        a = np.maximum(a - spectrum.left[:, r] ** 2, 0.0)
        c = np.maximum(c - spectrum.right[:, r] ** 2, 0.0)
    noise /= np.sqrt(n_triples)
    return noise


def estimate_operators(
    triples: Triples, spectrum: Spectrum, n_states: int, beginning: FloatArray
) -> Operators:
    """The operators defined above; ``beginning`` is the distribution of the first symbol."""
    n_symbols = len(spectrum.left)
    basis, values = np.ascontiguousarray(spectrum.left), spectrum.values[:n_states]
    right = np.ascontiguousarray(spectrum.right / values)
    first = symbol_frequencies(triples.first, triples.weight, n_symbols)
    steps = np.zeros((n_symbols + 1, n_states, n_states))
    add_operators(triples.first, triples.second, triples.third, triples.weight, basis, right, steps)
    return assemble_operators(basis, right.T @ first, steps, beginning, first)


def assemble_operators(
    basis: FloatArray, normaliser: FloatArray, steps: FloatArray, beginning: FloatArray, first: FloatArray
) -> Operators:
    """Close the operators under summation, and scale both states to mass 1."""
    steps[-1] = steps[:-1].sum(axis=0)
    readout = np.ascontiguousarray(normaliser @ steps)
    start, average = basis.T @ beginning, basis.T @ first
    start_mass, average_mass = float(normaliser @ start), float(normaliser @ average)
    if not (start_mass > 0 and average_mass > 0):
        raise NumericalError(
            f"the estimated mass of all sequences is {min(start_mass, average_mass):.3g}, not near 1; take "
            f"more data or fewer states"
        )
    return Operators(
        basis, start / start_mass, average / average_mass, normaliser, steps, readout, start_mass
    )
