"""Roughly where in a recording each phone is: the best path of frames through the whole lattice, from its
beginning to its end, with the frame classifier alone.

    max over paths  sum_t log p(class of the path's node at t | frames around t)

Back-pointers of an hour of speech would fill a disk. So the scores are kept at the beginning of every block
of ``BLOCK`` frames only, and moves are computed again, block by block, on the way back: memory is that of one
block, time twice that of the search.

Up to ``EXACT_CELLS`` (frames times nodes, ten minutes or so) the search is exact. Beyond, nodes that fall
``BEAM`` nats behind the best of their frame are given up, and the search is repeated with twice as wide a
beam until the score no longer rises: a path that was given up too early is found by the wider one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.speech.align.search.frame_search_kernels import search_block, trace_block
from trellis.speech.corpus.phone_lattice import Lattice
from trellis.structures.segments.scores.segment_graph import BEGIN

BLOCK = 2000  # frames
EXACT_CELLS = 6e8
BEAM = 2000.0  # nats; a second of speech that fits nothing costs a few hundred
MAX_PREDECESSORS = 254  # of a node: moves are stored as bytes


@dataclass(frozen=True, eq=False)
class _Moves:
    """The lattice as arrays: the classes of its nodes and, CSR, what comes before each."""

    codes: IntArray
    indptr: IntArray
    pred: IntArray
    reach: int

    @classmethod
    def of(cls, lattice: Lattice, codes: IntArray, source: str) -> _Moves:
        befores = [[p for p in before if p != BEGIN] for before in lattice.predecessors]
        counts = np.array([len(before) for before in befores])
        if counts.max() > MAX_PREDECESSORS:
            raise UnsupportedError(
                f"{source}: a phone has more than {MAX_PREDECESSORS} predecessors; give fewer pronunciations"
            )
        reach = max((i - before[0] for i, before in enumerate(befores) if before), default=1)
        pred = np.array([p for before in befores for p in before], dtype=np.int64)
        return cls(codes, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), pred, int(reach))


def best_frame_path(lattice: Lattice, codes: IntArray, evidence: Float32Array, source: str = "") -> IntArray:
    """The node of each frame. ``codes``: the classes of the nodes; ``evidence``: (T, classes)."""
    moves = _Moves.of(lattice, codes, source)
    if float(len(evidence)) * lattice.n_nodes <= EXACT_CELLS:
        found, _ = _search(lattice, moves, evidence, np.inf)
    else:
        beam = BEAM
        found, score = _search(lattice, moves, evidence, beam)
        while beam < np.inf:
            beam = 2.0 * beam if beam < 64.0 * BEAM else np.inf
            wider, risen = _search(lattice, moves, evidence, beam)
            if found is not None and risen <= score:
                break
            found, score = wider, risen
    if found is None:
        raise InfeasibleError(
            f"{source + ': ' if source else ''}the recording is too short for its transcript; check it"
        )
    return found


def _search(
    lattice: Lattice, moves: _Moves, evidence: Float32Array, beam: float
) -> tuple[IntArray | None, float]:
    """The best path and its score, None if no path reaches the end."""
    n_frames, n_nodes = len(evidence), lattice.n_nodes
    no_moves = np.zeros((0, 0), dtype=np.uint8)
    score = np.full(n_nodes, -np.inf)
    heads = lattice.first_nodes
    score[heads] = evidence[0, moves.codes[heads]]
    low, high = min(heads), max(heads) + 1
    blocks = range(1, n_frames, BLOCK)
    kept = []
    for first in blocks:
        before = low, high, score[low:high].copy()
        low, high, widest = search_block(
            evidence[first : first + BLOCK], moves.codes, moves.indptr, moves.pred, moves.reach, beam, low,
            high, score, no_moves,
        )  # fmt: skip
        kept.append((*before, widest))
    ends = np.where(lattice.final, score, -np.inf)
    last = int(np.argmax(ends))
    best = float(ends[last])
    if best == -np.inf:
        return None, best
    path = np.empty(n_frames, dtype=np.int64)
    path[0] = last
    for first, (low, high, scores, widest) in zip(reversed(blocks), reversed(kept), strict=True):
        frames = evidence[first : first + BLOCK]
        score[:] = -np.inf
        score[low:high] = scores
        back = np.zeros((len(frames), widest - low), dtype=np.uint8)
        search_block(frames, moves.codes, moves.indptr, moves.pred, moves.reach, beam, low, high, score, back)
        last = trace_block(moves.indptr, moves.pred, back, low, last, path[first : first + len(frames)])
        path[0] = last
    return path, best
