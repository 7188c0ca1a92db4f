"""The best path through a whole lattice in coarse steps: where the search on frames has to look.

Frames are added up, ``step`` at a time (the last sum has the rest, too); a node has at least one sum, and no
longest length:

    max over paths  sum_u evidence of the class of the path's node in sum u

With as many frames in a step as a node has at least, this is the search of :mod:`.frame_search` without
longest lengths and with boundaries on a grid. It looks at every node in every step, so no path is ever
given up: hours of speech that the classes hear badly take no longer than others. As there, moves are computed
again, block by block, on the way back.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.speech.align.search.frame_search_kernels import coarse_block, coarse_trace
from trellis.speech.align.search.lattice_moves import LatticeMoves

BLOCK = 1000  # steps
NEAR = 512  # nodes


def coarse_frame_path(
    moves: LatticeMoves, evidence: Float32Array, step: int, near: IntArray | None = None
) -> IntArray | None:
    """The node of each frame; None where the steps are too few for any path. ``near``: a path of other
    evidence; only nodes up to ``NEAR`` from those that it has in a block are looked at."""
    firsts = step * np.arange(max(len(evidence) // step, 1))
    sums = np.add.reduceat(evidence, firsts, axis=0)
    ends = np.full(moves.n_nodes, -np.inf)
    ends[moves.first] = sums[0, moves.codes[moves.first]]
    blocks = range(1, len(sums), BLOCK)
    kept = [ends.copy()]
    for first in blocks:
        ends, low, high = kept[-1].copy(), 0, moves.n_nodes
        if near is not None:
            seen = near[firsts[first : first + BLOCK]]
            low, high = max(int(seen[0]) - NEAR, 0), min(int(seen[-1]) + NEAR, moves.n_nodes)
        ends[:low] = -np.inf
        _run(moves, sums[first : first + BLOCK], ends, low, high)
        kept.append(ends)
    last = np.where(moves.final, kept[-1], -np.inf)
    node = int(np.argmax(last))
    if last[node] == -np.inf:
        return None
    path = np.empty(len(sums), dtype=np.int64)
    for k in reversed(range(len(blocks))):
        inside = slice(blocks[k], blocks[k] + BLOCK)
        chosen, low = _moves_to(moves, sums[inside], kept[k], node, kept[k + 1][node])
        node = coarse_trace(moves.indptr, moves.pred, chosen, low, node, path[inside])
    path[0] = node
    return np.repeat(path, np.diff(firsts, append=len(evidence)))


def _moves_to(
    moves: LatticeMoves, sums: Float32Array, before: FloatArray, node: int, score: float
) -> tuple[NDArray[np.uint8], int]:
    """The moves that lead through a block to ``node``, and the node of their first column. Paths never go
    back, and pass few nodes in a block: those ``NEAR`` before it are enough if its ``score`` is found."""
    for low in (max(node - NEAR, 0), 0):
        ends = before.copy()
        ends[:low] = -np.inf
        chosen = _run(moves, sums, ends, low, node + 1, keep=True)
        if ends[node] == score:
            break
    return chosen, low


def _run(
    moves: LatticeMoves, sums: Float32Array, ends: FloatArray, low: int, high: int, keep: bool = False
) -> NDArray[np.uint8]:
    """Through one block; its moves if they are to be kept."""
    chosen = np.zeros((len(sums) if keep else 0, high - low), dtype=np.uint8)
    coarse_block(sums, moves.codes, moves.indptr, moves.pred, low, high, ends, chosen)
    return chosen
