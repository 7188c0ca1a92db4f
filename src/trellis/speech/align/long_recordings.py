"""Long recordings, aligned in chunks, in memory for little more than their features (about 30 MB for half an
hour).

Segmental inference would need (phones x frames) numbers. So the recording is aligned in chunks of about
``CHUNK`` seconds:

1. From the current position (a node of the lattice that starts at a known frame) a frame-level Viterbi
   search, with the frame classifier alone, looks ``LOOK_AHEAD`` seconds ahead. It is exact within its window
   and may end in any node.
2. Its path tells which node begins about ``CHUNK`` seconds ahead: in the longest silence near there, if there
   is one.
3. Segmental inference aligns the nodes up to there exactly, with silences at most ``EXTRA_SILENCE`` seconds
   longer than the longest that the search found.
4. All but the last ``OVERLAP`` seconds are kept; the next chunk begins with the first node that is not.

A segment of twice ``CHUNK_SLACK`` seconds or more (a long pause, music) is not aligned as a whole: a chunk
ends ``CHUNK_SLACK`` seconds after its start, and the next one begins within it, ``CHUNK_SLACK`` seconds
before its end. So memory does not grow with pauses either, and no search needs to see beyond one.

A boundary that is kept was therefore found with at least ``OVERLAP`` seconds of what follows it in view, and
never by the frame-level search. What can go wrong is a search that loses its way for longer than it looks
ahead, because the recording has a minute of speech that is not in the transcript. The confidences of what
follows are then low and its phones implausible, and flags say so.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.long_recordings_kernels import frame_trace, frame_viterbi
from trellis.speech.align.utterance_alignment import LONG_SECONDS, Request, Segments, align_frames
from trellis.speech.corpus.phone_lattice import Lattice
from trellis.speech.phones.silence import is_silence

LOOK_AHEAD = 30.0  # seconds
CHUNK = 12.0
CHUNK_SLACK = 4.0  # how much earlier or later a chunk may end, where there is silence
OVERLAP = 2.0
MAX_PHONES_PER_SECOND = 25.0  # on average over a search: nodes further ahead are not searched
EXTRA_SILENCE = 1.0
MAX_PREDECESSORS = 255  # of a node: moves are stored as bytes


@dataclass(frozen=True, eq=False)
class _Search:
    """The node at each frame of a window (numbered as in the lattice), and whether the window reaches the
    end."""

    nodes: IntArray
    complete: bool


@dataclass(frozen=True)
class _Cut:
    """The end of a chunk: at frame ``end``, before the node ``stop`` (None: the end of the recording).

    With ``resume`` it ends within the node ``stop``, and the next chunk begins within it, at that frame.
    """

    end: int
    stop: int | None
    resume: int | None = None


def align_long(model: AlignmentModel, frames: Float32Array, lattice: Lattice, request: Request) -> Segments:
    """Align a long recording, chunk by chunk."""
    acoustics = model.acoustics
    if acoustics.classifier is None:
        raise UnsupportedError(
            f"recordings longer than {LONG_SECONDS:g} s need a frame classifier; train with the feature "
            "'classifier', or cut the recording"
        )
    evidence = acoustics.confidences(frames)
    codes = acoustics.phones.encode(lattice.labels, request.source).codes
    per_second = 1.0 / acoustics.step
    begin, heads, within = 0, lattice.first_nodes, False  # within: the first node began in an earlier chunk
    parts: list[tuple[list[int], FloatArray, FloatArray, FloatArray]] = []
    scores, stretched = [], False
    while True:
        search = _look_ahead(lattice, codes, evidence, begin, heads, per_second, request.source)
        cut = _chunk_end(lattice, search, begin, len(frames), per_second)
        if within and cut.resume is not None and [cut.stop] == heads:
            begin = cut.resume  # still the same long segment
            continue
        end = cut.end
        chunk = lattice.sublattice(heads, cut.stop, within_stop=cut.resume is not None)
        limit = _longest_silence(lattice, search.nodes[: end - begin]) + round(EXTRA_SILENCE * per_second)
        found = align_frames(model, frames[begin:end], chunk.lattice, request, evidence[begin:end], limit)
        nodes = [chunk.nodes[i] for i in found.nodes]
        whole = cut.stop is None or cut.resume is not None
        keep = len(nodes) if whole else _count_kept(found.starts, end - begin, OVERLAP * per_second)
        new = slice(int(within), keep)
        parts.append((nodes[new], found.starts[new] + begin, found.confidence[new], found.margins[new]))
        scores.append((found.score, keep))
        stretched |= found.stretched
        if cut.stop is None:
            break
        within = cut.resume is not None
        if cut.resume is not None:
            heads, begin = [cut.stop], cut.resume
        elif keep == len(nodes):  # a single segment, longer than what is kept in view
            heads, begin = [cut.stop], end
        else:
            heads, begin = [nodes[keep]], begin + round(float(found.starts[keep]))
    return _join(parts, scores, stretched)


def _look_ahead(
    lattice: Lattice,
    codes: IntArray,
    evidence: Float32Array,
    begin: int,
    heads: list[int],
    per_second: float,
    source: str,
) -> _Search:
    """The best path of frames from ``begin`` on, starting in one of ``heads``."""
    end = min(len(evidence), begin + round(LOOK_AHEAD * per_second))
    complete = end == len(evidence)
    deepest = lattice.depth[heads[0]] + MAX_PHONES_PER_SECOND * (end - begin) / per_second
    far = np.flatnonzero(lattice.depth[heads[0] :] > deepest)
    last = lattice.n_nodes if complete or len(far) == 0 else heads[0] + int(far[0])
    window = lattice.sublattice(heads, None, last)
    befores = window.lattice.predecessors
    if max(len(b) for b in befores) > MAX_PREDECESSORS:
        raise UnsupportedError(
            f"{source}: a phone has more than {MAX_PREDECESSORS} predecessors; give fewer pronunciations"
        )
    # a node before all others, so that several heads may begin
    inner = [tuple(p + 1 for p in b if p >= 0) + ((0,) if -1 in b else ()) for b in befores]
    indptr = np.concatenate([[0, 0], np.cumsum([len(b) for b in inner])]).astype(np.int64)
    pred = np.array([p for b in inner for p in b], dtype=np.int64)
    local = np.concatenate([[0], codes[list(window.nodes)]])
    padded = np.concatenate([np.zeros((1, evidence.shape[1]), dtype=np.float32), evidence[begin:end]])
    back = np.zeros((len(padded), len(local)), dtype=np.uint8)
    score = np.empty(len(local))
    frame_viterbi(padded, local, indptr, pred, score, back)
    ends = np.concatenate([[False], window.lattice.final if complete else np.ones(len(window.nodes), bool)])
    final = int(np.argmax(np.where(ends, score, -np.inf)))
    if score[final] == -np.inf:
        raise InfeasibleError(
            f"{source + ': ' if source else ''}the recording is too short for its transcript; check it"
        )
    path = np.empty(len(padded), dtype=np.int64)
    frame_trace(indptr, pred, back, final, path)
    return _Search(np.array(window.nodes)[path[1:] - 1], complete)


def _chunk_end(lattice: Lattice, search: _Search, begin: int, n_frames: int, per_second: float) -> _Cut:
    """Where the chunk that begins at ``begin`` ends."""
    nodes = search.nodes
    slack, middle = round(CHUNK_SLACK * per_second), round(CHUNK * per_second)
    if search.complete and len(nodes) <= middle + slack:
        return _Cut(n_frames, None)
    changes = np.flatnonzero(np.diff(nodes)) + 1  # frames at which a node begins
    starts = np.concatenate([[0], changes])
    runs = np.diff(starts, append=len(nodes))
    long = np.flatnonzero((runs >= 2 * slack) & (starts <= middle + slack))
    if len(long):
        start, length = int(starts[long[0]]), int(runs[long[0]])
        return _Cut(begin + start + slack, int(nodes[start]), begin + start + length - slack)
    near = changes[np.abs(changes - middle) <= slack]  # some, since no segment is as long as that
    lengths = np.append(changes[1:], len(nodes))[np.searchsorted(changes, near)] - near
    silent = np.array([is_silence(lattice.labels[nodes[t]]) for t in near])
    best = (
        int(np.argmax(np.where(silent, lengths, 0)))
        if silent.any()
        else int(np.argmin(np.abs(near - middle)))
    )
    at = int(near[best])
    return _Cut(begin + at, int(nodes[at]))


def _longest_silence(lattice: Lattice, nodes: IntArray) -> int:
    """The longest run of frames in one silence."""
    changes = np.concatenate([[0], np.flatnonzero(np.diff(nodes)) + 1, [len(nodes)]])
    runs = zip(changes[:-1], np.diff(changes), strict=True)
    return int(max((n for t, n in runs if is_silence(lattice.labels[nodes[t]])), default=0))


def _count_kept(starts: FloatArray, n_frames: int, overlap: float) -> int:
    """How many segments of a chunk are kept: those that begin early enough, at least one."""
    early = int(np.searchsorted(starts, n_frames - overlap))
    return max(1, min(early, len(starts) - 1))


def _join(
    parts: list[tuple[list[int], FloatArray, FloatArray, FloatArray]],
    scores: list[tuple[float, int]],
    stretched: bool,
) -> Segments:
    """The score is the mean of the chunks' scores (per phone), weighted with their phones."""
    total = sum(count for _, count in scores)
    return Segments(
        tuple(node for nodes, *_ in parts for node in nodes),
        np.concatenate([starts for _, starts, _, _ in parts]),
        np.concatenate([sure for _, _, sure, _ in parts]),
        np.concatenate([margin for *_, margin in parts]),
        sum(score * count for score, count in scores) / total,
        stretched,
    )
