"""Long recordings: one search through the whole of it, then exact alignment in chunks.

Segmental inference would need (phones x frames) numbers. So

1. :mod:`.frame_search` finds the best path of frames through the whole transcript, from the first frame to
   the last: roughly where each phone is, by the evidence of :mod:`.search_evidence`, with offsets for the
   recording's own sound (:mod:`.recording_offsets`).
2. The recording is cut into chunks of about ``CHUNK`` seconds: in the longest silence near there, if there is
   one.
3. Segmental inference aligns the nodes of each chunk exactly, with silences at most ``EXTRA_SILENCE`` seconds
   longer than the longest that the search found.
4. All but the last ``OVERLAP`` seconds are kept; the next chunk begins with the first node that is not.

A segment of twice ``CHUNK_SLACK`` seconds or more (a long pause, music) is not aligned as a whole: a chunk
ends ``CHUNK_SLACK`` seconds after its start, and the next one begins within it, ``CHUNK_SLACK`` seconds
before its end. So memory does not grow with pauses either.

A boundary that is kept was therefore found with at least ``OVERLAP`` seconds of what follows it in view, and
never by the search on frames. What can go wrong is that much was said that is not in the transcript, or the
other way round: phones are then put where they do not belong. Stretches that know no more of their frames
than chance, or far less than the rest of the recording (:mod:`.derailment`), are named in the flags, with
their times. (The score of a chunk says nothing here: scores are per phone, and pauses count in them.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.blas_threads import one_blas_thread
from trellis.core.errors import UnsupportedError
from trellis.speech.acoustics.noise_scores import with_prior
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.search.derailment import doubtful_stretches
from trellis.speech.align.search.frame_search import best_frame_path
from trellis.speech.align.search.lattice_moves import LatticeMoves
from trellis.speech.align.search.recording_offsets import recording_offsets, with_offsets
from trellis.speech.align.search.search_evidence import search_evidence
from trellis.speech.align.utterance_alignment import (
    LONG_SECONDS,
    Request,
    Segments,
    align_frames,
    length_limits,
)
from trellis.speech.corpus.phone_lattice import Lattice
from trellis.speech.phones.noise import is_noise
from trellis.speech.phones.silence import is_silence

CHUNK = 12.0  # seconds
CHUNK_SLACK = 4.0  # how much earlier or later a chunk may end, where there is silence
OVERLAP = 2.0
EXTRA_SILENCE = 1.0
SHORTEST = 0.05  # seconds of a phone in the search, unless speech is faster


@dataclass(frozen=True, eq=False)
class _Runs:
    """The path of frames as segments: node ``nodes[k]`` from frame ``starts[k]`` to ``starts[k + 1]``."""

    nodes: IntArray
    starts: IntArray
    silent: NDArray[np.bool_]

    @classmethod
    def of(cls, path: IntArray, lattice: Lattice) -> _Runs:
        starts = np.concatenate([[0], np.flatnonzero(np.diff(path)) + 1])
        nodes = path[starts]
        labels = [lattice.labels[i] for i in nodes]
        silent = np.array([is_silence(label) or is_noise(label) for label in labels])  # of any length
        return cls(nodes, np.append(starts, len(path)), silent)

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.starts)

    def longest_silence(self, begin: int, end: int) -> int:
        """Frames of the longest silence between two frames."""
        first, last = np.searchsorted(self.starts, [begin, end], side="right")
        inside = slice(max(first - 1, 0), last)
        return int(np.max(self.lengths[inside] * self.silent[inside], initial=0))


@dataclass(frozen=True)
class _Cut:
    """The end of a chunk: at frame ``end``, before the node ``stop`` (None: the end of the recording).

    With ``resume`` it ends within the node ``stop``, and the next chunk begins within it, at that frame.
    """

    end: int
    stop: int | None
    resume: int | None = None


@dataclass
class _Found:
    """What is kept of the chunks, in order."""

    nodes: list[int]
    starts: list[FloatArray]
    confidence: list[FloatArray]
    margins: list[FloatArray]
    scores: list[tuple[float, int]]
    stretched: bool = False

    def segments(self, doubtful: tuple[tuple[float, float], ...] | None) -> Segments:
        """The score is the mean of the chunks' scores (per phone), weighted with their phones."""
        total = sum(count for _, count in self.scores)
        return Segments(
            tuple(self.nodes),
            np.concatenate(self.starts),
            np.concatenate(self.confidence),
            np.concatenate(self.margins),
            sum(score * count for score, count in self.scores) / total,
            self.stretched,
            doubtful,
        )


# The matrices of a chunk are small: a second BLAS thread gains nothing, and spins on a core for as long.
@one_blas_thread()
def align_long(model: AlignmentModel, frames: Float32Array, lattice: Lattice, request: Request) -> Segments:
    """Align a long recording, chunk by chunk. The match of transcripts is left out: it is learned from
    utterances, and among the many phones of a chunk some always look wrong to it."""
    model = replace(model, match=None)
    acoustics = model.acoustics
    if not acoustics.hears_classes:
        raise UnsupportedError(
            f"recordings longer than {LONG_SECONDS:g} s need a frame classifier; train with the feature "
            "'classifier', or cut the recording"
        )
    per_second = 1.0 / acoustics.step
    confidences = acoustics.confidences(frames)
    runs, offsets = _rough_path(model, confidences, lattice, request.source)
    begin, heads, within = 0, lattice.first_nodes, False  # within: the first node began in an earlier chunk
    passed = 0  # the frame of the path that the last chunk ended at
    found = _Found([], [], [], [], [])
    while True:
        cut = _chunk_end(runs, begin, passed, len(frames), per_second)
        end = passed = cut.end
        chunk = lattice.sublattice(heads, cut.stop, within_stop=cut.resume is not None)
        limit = runs.longest_silence(begin, end) + round(EXTRA_SILENCE * per_second)
        heard = with_offsets(acoustics.evidence(frames, begin, end), offsets, acoustics.phones.noise_code)
        part = align_frames(model, frames[begin:end], chunk.lattice, request, heard, limit)
        nodes = [chunk.nodes[i] for i in part.nodes]
        whole = cut.stop is None or cut.resume is not None
        keep = len(nodes) if whole else _count_kept(part.starts, end - begin, OVERLAP * per_second)
        new = slice(int(within), keep)
        found.nodes += nodes[new]
        found.starts.append(part.starts[new] + begin)
        found.confidence.append(part.confidence[new])
        found.margins.append(part.margins[new])
        found.scores.append((part.score, keep))
        found.stretched |= part.stretched
        if cut.stop is None:
            confidences[:, : len(offsets)] += offsets
            return found.segments(_astray(model, confidences, lattice, found))
        within = cut.resume is not None
        if cut.resume is not None:
            heads, begin, passed = [cut.stop], cut.resume, cut.resume
        elif keep == len(nodes):  # a single segment, longer than what is kept in view
            heads, begin = [cut.stop], end
        else:
            heads, begin = [nodes[keep]], begin + round(float(part.starts[keep]))


def _rough_path(
    model: AlignmentModel, confidences: Float32Array, lattice: Lattice, source: str
) -> tuple[_Runs, Float32Array]:
    """Roughly where each phone is, with phones no longer than segmental inference allows them to be; and the
    offsets of the recording."""
    acoustics, n_frames = model.acoustics, len(confidences)
    encoded = acoustics.phones.encode(lattice.labels, source)
    _, longest = acoustics.lengths(encoded.kinds, n_frames, length_limits(model, lattice, n_frames))
    shortest = max(1, min(round(SHORTEST / acoustics.step), n_frames // (2 * lattice.min_phones)))
    prior, noise_code = acoustics.log_prior, acoustics.phones.noise_code
    evidence, offsets = confidences, np.zeros(0, dtype=np.float32)  # a classifier without probabilities
    if prior is not None:
        moves = LatticeMoves.of(lattice, encoded.codes, source)
        spoken, classes = acoustics.phones.spoken_classes, confidences[:, : len(prior)]
        offsets = recording_offsets(
            classes,
            moves,
            shortest,
            lambda b: search_evidence(classes + b, prior, spoken, noise_code),
            noise_code,
        )
        evidence = search_evidence(classes + offsets, prior, spoken, noise_code)
    longest = np.maximum(longest, shortest)
    path = best_frame_path(lattice, encoded.codes, evidence, longest, source, shortest)
    return _Runs.of(path, lattice), offsets


def _astray(
    model: AlignmentModel, confidences: Float32Array, lattice: Lattice, found: _Found
) -> tuple[tuple[float, float], ...] | None:
    """The stretches, in seconds, that do not fit; None if the classifier has no probabilities to tell.
    ``confidences``: with the offsets of the recording."""
    acoustics, prior = model.acoustics, model.acoustics.log_prior
    if prior is None:
        return None
    labels = [lattice.labels[i] for i in found.nodes]
    silent = np.array([is_silence(label) for label in labels])
    starts = np.rint(np.concatenate(found.starts)).astype(np.int64)
    codes = acoustics.phones.encode(labels).codes
    posteriors = with_prior(confidences, prior, acoustics.phones.noise_code)
    stretches = doubtful_stretches(posteriors, starts, codes, labels, silent)
    return tuple((begin * acoustics.step, end * acoustics.step) for begin, end in stretches)


def _chunk_end(runs: _Runs, begin: int, passed: int, n_frames: int, per_second: float) -> _Cut:
    """Where the chunk that begins at ``begin`` ends: after ``passed``, because the paths of chunks may differ
    from that of the frames and only meet it where a chunk ended."""
    slack, middle = round(CHUNK_SLACK * per_second), round(CHUNK * per_second)
    starts, lengths = runs.starts[:-1], runs.lengths
    later = np.flatnonzero(starts >= passed if passed == 0 else starts > passed)
    long = later[(lengths[later] >= 2 * slack) & (starts[later] <= begin + middle + slack)]
    if len(long):
        start, length = int(starts[long[0]]), int(lengths[long[0]])
        return _Cut(start + slack, int(runs.nodes[long[0]]), start + length - slack)
    if n_frames - begin <= middle + slack:
        return _Cut(n_frames, None)
    near = later[np.abs(starts[later] - begin - middle) <= slack]  # some: no segment is as long as that
    best = (
        near[np.argmax(lengths[near] * runs.silent[near])]
        if runs.silent[near].any()
        else near[np.argmin(np.abs(starts[near] - begin - middle))]
    )
    return _Cut(int(starts[best]), int(runs.nodes[best]))


def _count_kept(starts: FloatArray, n_frames: int, overlap: float) -> int:
    """How many segments of a chunk are kept: those that begin early enough, at least one."""
    early = int(np.searchsorted(starts, n_frames - overlap))
    return max(1, min(early, len(starts) - 1))
