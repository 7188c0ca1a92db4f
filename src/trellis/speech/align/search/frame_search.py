"""Roughly where in a recording each phone is: the best path of frames through the whole lattice, from its
beginning to its end, with the frame classifier alone.

    max over paths  sum_t evidence of the class of the path's node at t

Paths are those whose segments are no longer than the longest lengths allow: otherwise a phone that sounds
like the background noise would sit in every pause, at the expense of all others. Nor are they shorter than
``shortest`` frames: otherwise words that fit badly would be passed in a few frames, and others put in their
place.

Back-pointers of an hour of speech would fill a disk. So the state of the search is kept at the beginning of
every block of ``BLOCK`` frames only, and moves are computed again, block by block, on the way back: memory is
that of one block, time twice that of the search.

Up to ``EXACT_CELLS`` (frames times nodes, some minutes) the search is exact. Beyond, nodes that fall ``BEAM``
nats behind the best of their frame are given up, and the search is repeated with twice as wide a beam until
the score no longer rises: a path that was given up too early is found by the wider one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.speech.align.search.frame_search_kernels import (
    pack_queues,
    search_block,
    trace_block,
    unpack_queues,
)
from trellis.speech.corpus.phone_lattice import Lattice
from trellis.structures.segments.scores.segment_graph import BEGIN

BLOCK = 2000  # frames
EXACT_CELLS = 1e8
BEAM = 250.0  # nats
MAX_PREDECESSORS = 254  # of a node: moves are stored as bytes


@dataclass(frozen=True, eq=False)
class _Moves:
    """The lattice as arrays: the classes of its nodes, their longest lengths and, CSR, what comes before
    each."""

    codes: IntArray
    longest: IntArray
    indptr: IntArray
    pred: IntArray
    reach: int

    @classmethod
    def of(cls, lattice: Lattice, codes: IntArray, longest: IntArray, source: str) -> _Moves:
        befores = [[p for p in before if p != BEGIN] for before in lattice.predecessors]
        counts = np.array([len(before) for before in befores])
        if counts.max() > MAX_PREDECESSORS:
            raise UnsupportedError(
                f"{source}: a phone has more than {MAX_PREDECESSORS} predecessors; give fewer pronunciations"
            )
        reach = max((i - before[0] for i, before in enumerate(befores) if before), default=1)
        pred = np.array([p for before in befores for p in before], dtype=np.int64)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return cls(codes.astype(np.int64), longest.astype(np.int64), indptr, pred, int(reach))


@dataclass(frozen=True, eq=False)
class _Kept:
    """The state of a search at the beginning of a block."""

    low: int
    high: int
    total: FloatArray
    sizes: IntArray
    values: FloatArray
    whens: NDArray[np.int32]
    waiting: FloatArray
    begun: IntArray


class _Search:
    """The queues of :mod:`.frame_search_kernels`; ``longest`` below ``n_frames`` is a limit."""

    def __init__(
        self, lattice: Lattice, moves: _Moves, evidence: Float32Array, beam: float, shortest: int
    ) -> None:
        self.lattice, self.moves, self.evidence, self.beam = lattice, moves, evidence, beam
        limited = moves.longest[moves.longest < len(evidence)]
        n, width = lattice.n_nodes, int(limited.max(initial=0)) + 1
        self.value, self.when = np.zeros((n, width)), np.zeros((n, width), dtype=np.int32)
        self.head, self.size = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.waiting, self.begun = np.full((n, shortest), -np.inf), np.full(n, -shortest)
        self.ends = np.full(n, -np.inf)
        self.total = np.zeros(evidence.shape[1])
        self.blocks = range(0, len(evidence), BLOCK)
        self.kept: list[tuple[_Kept, int]] = []  # with the most nodes that the block has

    def forwards(self) -> float:
        """The score of the best path, -inf if none reaches the end."""
        heads = self.lattice.first_nodes
        self.waiting[heads, 0], self.begun[heads] = 0.0, 0
        low, high = min(heads), max(heads) + 1
        nothing = np.zeros((0, 0), dtype=np.int32), np.zeros((0, 0), dtype=np.uint8)
        for first in self.blocks:
            state = self._state(low, high)
            low, high, widest = self._run(first, low, high, *nothing)
            self.kept.append((state, widest))
        return float(np.max(self.ends[self.lattice.final]))

    def backwards(self) -> IntArray:
        """The node of each frame on the best path, once it is found."""
        moves, path = self.moves, np.empty(len(self.evidence), dtype=np.int64)
        node = int(np.argmax(np.where(self.lattice.final, self.ends, -np.inf)))
        at, begun = len(path), False
        for first, (state, widest) in zip(reversed(self.blocks), reversed(self.kept), strict=True):
            shape = len(self.evidence[first : first + BLOCK]), widest - state.low
            starts, chosen = np.zeros(shape, dtype=np.int32), np.zeros(shape, dtype=np.uint8)
            self._restore(state)
            self._run(first, state.low, state.high, starts, chosen)
            node, at, begun = trace_block(
                moves.indptr, moves.pred, first, state.low, starts, chosen, node, at, begun, path
            )
        return path

    def _run(
        self,
        first: int,
        low: int,
        high: int,
        starts: NDArray[np.int32],
        chosen: NDArray[np.uint8],
    ) -> tuple[int, int, int]:
        moves = self.moves
        found: tuple[int, int, int] = search_block(
            self.evidence[first : first + BLOCK], first, moves.codes, moves.longest, moves.indptr, moves.pred,
            moves.reach, self.beam, low, high, self.total, self.value, self.when, self.head, self.size,
            self.waiting, self.begun, self.ends, starts, chosen,
        )  # fmt: skip
        return found

    def _state(self, low: int, high: int) -> _Kept:
        sizes = self.size[low:high].copy()
        values, whens = np.empty(int(sizes.sum())), np.empty(int(sizes.sum()), dtype=np.int32)
        pack_queues(self.value, self.when, self.head, self.size, low, high, values, whens)
        waiting, begun = self.waiting[low:high].copy(), self.begun[low:high].copy()
        return _Kept(low, high, self.total.copy(), sizes, values, whens, waiting, begun)

    def _restore(self, state: _Kept) -> None:
        inside = slice(state.low, state.high)
        self.size[:] = 0
        self.ends[:] = self.waiting[:] = -np.inf
        self.waiting[inside], self.begun[inside] = state.waiting, state.begun
        self.total[:] = state.total
        unpack_queues(
            state.values, state.whens, state.sizes, state.low, self.value, self.when, self.head, self.size
        )


def best_frame_path(
    lattice: Lattice,
    codes: IntArray,
    evidence: Float32Array,
    longest: IntArray | None = None,
    source: str = "",
    shortest: int = 1,
) -> IntArray:
    """The node of each frame. ``codes``: the classes of the nodes; ``evidence``: (T, classes); ``longest``:
    lengths of nodes in frames, at least T where there is no limit; ``shortest``: that of all of them."""
    if longest is None:
        longest = np.full(lattice.n_nodes, len(evidence))
    moves = _Moves.of(lattice, codes, longest, source)
    exact = float(len(evidence)) * lattice.n_nodes <= EXACT_CELLS
    beam = np.inf if exact else BEAM
    search = _Search(lattice, moves, evidence, beam, shortest)
    score = search.forwards()
    while beam < np.inf:
        beam = 2.0 * beam if beam < 512.0 * BEAM else np.inf
        wider = _Search(lattice, moves, evidence, beam, shortest)
        risen = wider.forwards()
        if score > -np.inf and risen <= score:
            break
        search, score = wider, risen
    if score == -np.inf:
        raise InfeasibleError(
            f"{source + ': ' if source else ''}the recording is too short for its transcript; check it"
        )
    return search.backwards()
