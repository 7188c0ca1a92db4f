"""Part scores of chains whose transitions are a list of allowed pairs, see :mod:`.transition_pairs`.

    score(y) = start[y_1] + sum_t unary[t, y_t] + sum_{t>1} transitions[y_{t-1}, y_t] + end[y_n]

and -inf where a pair of neighbours is not in the list. The unary scores may be a table (N, K), or features
and weights from which they are computed a few steps at a time; ``unary`` then makes the table on request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.structures.chain.scores.chain_scores import (
    ChainScores,
    as_scores,
    boundary_scores,
    checked_offsets,
)
from trellis.structures.chain.scores.step_score_kernels import (
    ALL,
    Known,
    StepScores,
    load_steps,
    table_scores,
)
from trellis.structures.chain.scores.transition_pairs import TransitionPairs


@dataclass(frozen=True, eq=False)
class SparseChainScores:
    """``steps``: what the scores of steps come from. ``transitions`` (E,): one for each of ``pairs``, finite.
    ``start``, ``end``: (K,). ``offsets``: (S + 1,). Build it with :meth:`of`, which checks and converts.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from trellis.structures.chain import SparseChainScores
    >>> follow = csr_array(([0.5, 0.0, 1.0, 0.0], ([0, 0, 1, 2], [1, 2, 2, 0])), shape=(3, 3))  # 0 is allowed
    >>> len(SparseChainScores.of(np.zeros((3, 3)), follow).transitions)
    4
    """

    steps: StepScores
    pairs: TransitionPairs
    transitions: FloatArray
    start: FloatArray
    end: FloatArray
    offsets: IntArray

    @classmethod
    def of(
        cls,
        unary: ArrayLike,
        transitions: Any,
        start: ArrayLike | None = None,
        end: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
        offsets: IntArray | None = None,
    ) -> SparseChainScores:
        """``transitions``: a sparse matrix (K, K) whose stored entries, zeros included, are the allowed
        pairs, with row = previous label. A stored ``-inf`` forbids, as an entry that is not stored does."""
        if not issparse(transitions):
            raise DataError("transitions must be a SciPy sparse matrix; for a full table use ChainScores.of")
        u, stored = as_scores("unary", unary, 2), transitions.tocoo()
        n, k = u.shape
        if k == 0 or stored.shape != (k, k):
            raise DataError(
                f"transition scores have shape {stored.shape}; for unary scores of shape {u.shape} they must "
                "have one row and one column for each label, of which there must be one at least"
            )
        values = as_scores("transitions", stored.data, 1)
        allowed = values > -np.inf
        pairs = TransitionPairs.of(stored.row[allowed], stored.col[allowed], k)
        if len(pairs) < allowed.sum():
            raise DataError(
                "a pair of labels is stored twice in transitions; call its sum_duplicates() first"
            )
        ordered = np.empty(len(pairs))
        ordered[pairs.places(stored.row[allowed], stored.col[allowed])] = values[allowed]
        ends = boundary_scores(start, end, k)
        return cls(table_scores(u), pairs, ordered, *ends, checked_offsets(lengths, offsets, n))

    @property
    def n_labels(self) -> int:
        return self.pairs.n_labels

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_steps(self) -> int:
        return int(self.offsets[-1])

    @property
    def unary(self) -> FloatArray:
        """(N, K)."""
        if len(self.steps.unary) == self.n_steps:
            return self.steps.unary
        table = np.empty((self.n_steps, self.n_labels))
        load_steps(self.steps, nothing_known(self.n_labels), ALL, 0.0, 0, self.n_steps, table)
        return table

    def with_unary(self, unary: FloatArray) -> SparseChainScores:
        return replace(self, steps=table_scores(unary))

    def restricted(self, allowed: NDArray[np.bool_]) -> SparseChainScores:
        """The same scores with every label outside ``allowed`` (N, K) forbidden."""
        return self.with_unary(np.where(allowed, self.unary, -np.inf))

    def to_dense(self) -> ChainScores:
        """The same scores with a table of transitions (K, K)."""
        table = self.pairs.to_dense(self.transitions)[None]
        return ChainScores(self.unary, table, self.start, self.end, self.offsets)

    def transition_matrix(self) -> csr_array:
        return self.pairs.to_matrix(self.transitions)


def nothing_known(n_labels: int) -> Known:
    """For questions that are not about gold labels."""
    return Known(np.zeros(0, np.int32), np.zeros((0, n_labels), np.bool_), np.zeros((0, n_labels)))
