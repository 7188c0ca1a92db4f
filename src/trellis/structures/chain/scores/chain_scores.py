"""Part scores of chains: what scorers compute, and inference, losses and objectives take.

A chain of ``n`` steps and ``K`` labels scores a labelling ``y`` as

    score(y) = start[y_1] + sum_t unary[t, y_t] + sum_{t>1} transitions[t, y_{t-1}, y_t] + end[y_n]

``-inf`` forbids a label, a transition, a start or an end. A set of allowed labels per step (a partial
labelling) is ``-inf`` in the other unaries (:meth:`ChainScores.restricted`). Gradients with respect to the
scores, part indicators and part marginals have the shapes of the scores, and are :class:`ChainParts`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.data.sequences import check_offsets, offsets_from_lengths


@dataclass(frozen=True, eq=False)
class ChainScores:
    """Scores of a packed batch of chains.

    ``unary``: (N, K), N steps in all. ``transitions``: (1, K, K), shared by all steps, or (N, K, K), where
    row ``t`` leads *into* step ``t`` (the row at the first step of each sequence is not used). ``start``,
    ``end``: (K,). ``offsets``: (S + 1,). Build it with :meth:`of`, which checks and converts.

    Examples
    --------
    >>> from trellis.structures.chain import ChainScores
    >>> unary, transitions = [[0.0, 1.0], [0.5, 0.0], [0.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]]
    >>> scores = ChainScores.of(unary, transitions, lengths=[2, 1])
    >>> scores.n_sequences, scores.n_labels
    (2, 2)
    """

    unary: FloatArray
    transitions: FloatArray
    start: FloatArray
    end: FloatArray
    offsets: IntArray

    @classmethod
    def of(
        cls,
        unary: ArrayLike,
        transitions: ArrayLike,
        start: ArrayLike | None = None,
        end: ArrayLike | None = None,
        *,
        lengths: ArrayLike | None = None,
        offsets: IntArray | None = None,
    ) -> ChainScores:
        """Check shapes and values; ``lengths`` (or ``offsets``) default to one sequence of all the steps."""
        u = as_scores("unary", unary, 2)
        n, k = u.shape
        if k == 0:
            raise DataError("unary scores have no labels; their shape must be (steps, labels)")
        a = as_scores("transitions", transitions, None)
        if a.ndim == 2:
            a = a[None]
        if a.shape not in {(1, k, k), (n, k, k)}:
            raise DataError(
                f"transition scores have shape {np.shape(transitions)}; for {k} labels and {n} steps "
                f"they must have shape ({k}, {k}) or ({n}, {k}, {k})"
            )
        return cls(u, a, *boundary_scores(start, end, k), checked_offsets(lengths, offsets, n))

    @property
    def n_labels(self) -> int:
        return int(self.unary.shape[1])

    @property
    def n_sequences(self) -> int:
        return len(self.offsets) - 1

    def restricted(self, allowed: NDArray[np.bool_]) -> ChainScores:
        """The same scores with every label outside ``allowed`` (N, K) forbidden."""
        if allowed.shape != self.unary.shape:
            raise DataError(
                f"allowed labels have shape {allowed.shape}; they must have shape {self.unary.shape}"
            )
        return replace(self, unary=np.where(allowed, self.unary, -np.inf))

    def with_unary(self, unary: FloatArray) -> ChainScores:
        return replace(self, unary=unary)


@dataclass(frozen=True, eq=False)
class ChainParts:
    """One number for each part of a batch of chains: indicators, marginals, or a gradient.

    The shapes are those of :class:`ChainScores`; what is shared there (``start``, ``end``, and shared
    ``transitions``) is summed over the batch here.
    """

    unary: FloatArray
    transitions: FloatArray
    start: FloatArray
    end: FloatArray

    def dot(self, scores: ChainScores) -> float:
        """Inner product with the scores; a part with weight 0 adds 0 even if its score is ``-inf``."""
        pairs = (
            (self.unary, scores.unary),
            (self.transitions, scores.transitions),
            (self.start, scores.start),
            (self.end, scores.end),
        )
        return float(sum(np.sum(np.where(p == 0, 0.0, p * np.where(p == 0, 0.0, s))) for p, s in pairs))

    def __sub__(self, other: ChainParts) -> ChainParts:
        return ChainParts(
            self.unary - other.unary,
            self.transitions - other.transitions,
            self.start - other.start,
            self.end - other.end,
        )


def boundary_scores(start: ArrayLike | None, end: ArrayLike | None, k: int) -> tuple[FloatArray, FloatArray]:
    """Those of the first and the last label, (K,) each; 0 where none are given."""
    s = np.zeros(k) if start is None else as_scores("start", start, 1)
    e = np.zeros(k) if end is None else as_scores("end", end, 1)
    if s.shape != (k,) or e.shape != (k,):
        raise DataError(f"start and end scores must have shape ({k},), got {s.shape} and {e.shape}")
    return s, e


def checked_offsets(lengths: ArrayLike | None, offsets: IntArray | None, n: int) -> IntArray:
    """Those given, or from lengths; one sequence of all n steps by default."""
    if offsets is None:
        offsets = offsets_from_lengths([n] if lengths is None else lengths)
    check_offsets(offsets, n)
    return offsets


def as_scores(name: str, values: Any, ndim: int | None) -> FloatArray:
    """Numbers that are finite or -inf, with so many axes."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if ndim is not None and array.ndim != ndim:
        raise DataError(f"{name} scores must have {ndim} axes, got shape {array.shape}")
    bad = ~(array < np.inf)  # NaN or +inf
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        raise DataError(
            f"{name} scores contain {array[where]} at {where}; scores must be finite or -inf (forbidden)"
        )
    return array
