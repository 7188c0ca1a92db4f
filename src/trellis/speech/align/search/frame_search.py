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

Up to ``EXACT_CELLS`` (frames times nodes, some minutes) the search is exact. Beyond, only the nodes up to
``CORRIDOR`` before and after those of :mod:`.coarse_search` are searched, and again in a corridor twice as
wide until the score no longer rises: a path that leaves the corridor is found in the wider one. (A beam,
which gives up what falls behind the best of a frame, would not do. Phones score higher than silence, so a
path that has passed more of the transcript than was said is ahead; that it has too few phones left is known
only at the end. Where the classes hear badly it is thousands of nats ahead until then.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import InfeasibleError
from trellis.speech.align.search.coarse_search import coarse_frame_path
from trellis.speech.align.search.frame_search_kernels import (
    pack_queues,
    search_block,
    trace_block,
    unpack_queues,
)
from trellis.speech.align.search.lattice_moves import LatticeMoves
from trellis.speech.corpus.phone_lattice import Lattice

BLOCK = 2000  # frames
EXACT_CELLS = 1e7
CORRIDOR = 50  # nodes


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


class _Search:
    """The queues of :mod:`.frame_search_kernels`; ``longest`` below ``n_frames`` is a limit. ``floor`` and
    ``ceiling``: (T,), the nodes that paths may use, frame by frame."""

    def __init__(
        self,
        moves: LatticeMoves,
        evidence: Float32Array,
        longest: IntArray,
        shortest: int,
        corridor: tuple[IntArray, IntArray],
    ) -> None:
        self.moves, self.evidence = moves, evidence
        self.longest = longest.astype(np.int64)
        self.floor, self.ceiling = corridor
        limited = longest[longest < len(evidence)]
        n, width = moves.n_nodes, int(limited.max(initial=0)) + 1
        self.value, self.when = np.zeros((n, width)), np.zeros((n, width), dtype=np.int32)
        self.head, self.size = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.waiting = np.full((n, shortest), -np.inf)
        self.ends = np.full(n, -np.inf)
        self.total = np.zeros(evidence.shape[1])
        self.blocks = range(0, len(evidence), BLOCK)
        self.kept: list[tuple[_Kept, int]] = []  # with the most nodes that the block has

    def forwards(self) -> float:
        """The score of the best path, -inf if none reaches the end."""
        heads = self.moves.first
        self.waiting[heads, 0] = 0.0
        low, high = min(heads), max(heads) + 1
        nothing = np.zeros((0, 0), dtype=np.int32), np.zeros((0, 0), dtype=np.uint8)
        for first in self.blocks:
            state = self._state(low, high)
            low, high, widest = self._run(first, low, high, *nothing)
            self.kept.append((state, widest))
        return float(np.max(self.ends[self.moves.final]))

    def backwards(self) -> IntArray:
        """The node of each frame on the best path, once it is found."""
        moves, path = self.moves, np.empty(len(self.evidence), dtype=np.int64)
        node = int(np.argmax(np.where(self.moves.final, self.ends, -np.inf)))
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
        moves, block = self.moves, slice(first, first + BLOCK)
        found: tuple[int, int, int] = search_block(
            self.evidence[block], first, moves.codes, self.longest, moves.indptr, moves.pred, moves.reach,
            self.floor[block], self.ceiling[block], low, high, self.total, self.value, self.when, self.head,
            self.size, self.waiting, self.ends, starts, chosen,
        )  # fmt: skip
        return found

    def _state(self, low: int, high: int) -> _Kept:
        sizes = self.size[low:high].copy()
        values, whens = np.empty(int(sizes.sum())), np.empty(int(sizes.sum()), dtype=np.int32)
        pack_queues(self.value, self.when, self.head, self.size, low, high, values, whens)
        return _Kept(low, high, self.total.copy(), sizes, values, whens, self.waiting[low:high].copy())

    def _restore(self, state: _Kept) -> None:
        inside = slice(state.low, state.high)
        self.size[:] = 0
        self.ends[:] = self.waiting[:] = -np.inf
        self.waiting[inside] = state.waiting
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
    moves = LatticeMoves.of(lattice, codes, source)
    rough = None
    if float(len(evidence)) * lattice.n_nodes > EXACT_CELLS:
        rough = coarse_frame_path(moves, evidence, shortest)
    width = lattice.n_nodes if rough is None else CORRIDOR
    search = _Search(moves, evidence, longest, shortest, _corridor(rough, width, len(evidence)))
    score = search.forwards()
    while width < lattice.n_nodes:
        width *= 2
        wider = _Search(moves, evidence, longest, shortest, _corridor(rough, width, len(evidence)))
        risen = wider.forwards()
        if score > -np.inf and risen <= score:
            break
        search, score = wider, risen
    if score == -np.inf:
        raise InfeasibleError(
            f"{source + ': ' if source else ''}the recording is too short for its transcript; check it"
        )
    return search.backwards()


def _corridor(rough: IntArray | None, width: int, n_frames: int) -> tuple[IntArray, IntArray]:
    """(T,) twice: the first node that paths may use at each frame, and the first after the last; up to
    ``width`` from those of ``rough``, or all."""
    if rough is None:
        return np.zeros(n_frames, dtype=np.int64), np.full(n_frames, width)
    return np.maximum(rough - width, 0), np.append(rough[1:], rough[-1]) + width + 1
