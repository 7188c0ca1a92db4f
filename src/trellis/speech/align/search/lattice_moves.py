"""A lattice as the arrays that searches on frames walk through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import BoolArray, IntArray
from trellis.core.errors import UnsupportedError
from trellis.speech.corpus.phone_lattice import Lattice
from trellis.structures.segments.scores.segment_graph import BEGIN

MAX_PREDECESSORS = 254  # of a node: moves are stored as bytes


@dataclass(frozen=True, eq=False)
class LatticeMoves:
    """The classes of the nodes, ``codes``, and, CSR, what comes before each: always nodes before it, at most
    ``reach`` before. Paths begin in ``first`` and end in ``final`` (n,) nodes."""

    codes: IntArray
    indptr: IntArray
    pred: IntArray
    reach: int
    first: list[int]
    final: BoolArray

    @classmethod
    def of(cls, lattice: Lattice, codes: IntArray, source: str) -> LatticeMoves:
        befores = [[p for p in before if p != BEGIN] for before in lattice.predecessors]
        counts = np.array([len(before) for before in befores])
        if counts.max() > MAX_PREDECESSORS:
            raise UnsupportedError(
                f"{source}: a phone has more than {MAX_PREDECESSORS} predecessors; give fewer pronunciations"
            )
        reach = max((i - min(before) for i, before in enumerate(befores) if before), default=1)
        pred = np.array([p for before in befores for p in before], dtype=np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(codes.astype(np.int64), indptr, pred, int(reach), lattice.first_nodes, lattice.final)

    @property
    def n_nodes(self) -> int:
        return len(self.codes)
