"""Emissions as exponential families: what discriminative training needs of them.

    log p(x | k) = T(x) . w[:, k] - a[k] + c(x)

T(x) are the ``natural_features`` (N, F) of a record, ``natural_weights`` (F, K) its own w, for which the log
normalisers a are 0, and ``from_natural`` turns any other w into a record and its a. What all states have in
common, c(x), does not concern p(states | x), so it may be chosen: here it is a reference near the average of
the record's states, and T is standardised by it. With w = 0 every state emits the reference, so that a
penalty on ||w||^2 pulls states together and never into something that is no distribution, whatever the units
of the data. T and c belong to the record: ``from_natural`` is to be asked of the one that made the features.

For the same reason, weights that belong to no distribution (a Gaussian whose precision is not positive
definite) can be replaced: adding one vector to the weights of all states moves something from c(x) to them
and leaves p(states | x) alone. ``natural_shift`` names a vector that makes them proper.

An observation that is entirely missing has no features. One that is missing in part has no T(x) and is
rejected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.data.row_checks import row_error


def complete_rows(rows: FloatArray) -> NDArray[np.bool_]:
    """Which rows are there, (N,); a row that is there in part is an error."""
    missing = np.isnan(rows)
    absent = np.asarray(missing.all(axis=1))
    partly = missing.any(axis=1) & ~absent
    if partly.any():
        raise row_error(
            int(np.argmax(partly)),
            "the observation is missing in part, so it has no natural features; make all of it NaN, fill it "
            "in, or use fit, which marginalises",
            UnsupportedError,
        )
    return ~absent


def feature_rows(there: NDArray[np.bool_], *blocks: FloatArray) -> csr_array:
    """Features (N, F) from blocks of columns of the rows that are there, and a last column of ones."""
    dense = np.hstack([*blocks, np.ones((int(there.sum()), 1))])
    entries = np.where(there, dense.shape[1], 0)
    indptr = np.concatenate([[0], np.cumsum(entries)])
    columns = np.tile(np.arange(dense.shape[1]), len(dense))
    return csr_array((dense.ravel(), columns, indptr), shape=(len(there), dense.shape[1]))
