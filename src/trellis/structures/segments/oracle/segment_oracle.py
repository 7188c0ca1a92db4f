"""The oracle of segmentations: best path, log-partition and expected parts, gaps to the best alternatives.

Without the rate term every question takes O(P T L) (``segment_kernels``). With it, the
best path still takes O(P T L) and sums take O(P T L^2) (``segment_rate_kernels``), and
a first round without the term narrows the windows of the second. For r >= 0 the term only lowers scores, so

    best      a segment whose best path *without* the term scores less than some path *with* it is on no
              best path (the score of that path is guessed first, see ``best``);
    sums      log Z_r >= log Z_0 - r E_0[sum d^2] (Jensen), and a segment's mass without the term bounds its
              mass with it; what is left out adds up to less than 2^-52 of the whole.

Both keep the answer exact to rounding. For r < 0 the windows are those that lengths allow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.errors import DataError, InfeasibleError
from trellis.core.logspace_kernels import MAX, SUM
from trellis.structures.segments.oracle import segment_kernels as plain
from trellis.structures.segments.oracle import segment_rate_kernels as rated
from trellis.structures.segments.oracle.segment_kernels import Lattice, Windows
from trellis.structures.segments.scores.segment_scores import SegmentParts, SegmentPath, SegmentScores

ROUNDING = 1e-12  # relative
GUESS = 0.1  # of the way from the upper to the lower bound
NEGLIGIBLE = 36.05  # nats: exp of minus this is 2^-52


@dataclass(frozen=True, eq=False)
class SegmentMarginals:
    """log sum over paths of exp(score), and the expected parts: ``parts.starts[i, t]`` is the probability
    that node i starts at t."""

    log_partition: float
    parts: SegmentParts


@dataclass(frozen=True, eq=False)
class _Alternatives:
    """The best score of paths on which node i starts at s (P, T + 1); that go along each entry of ``pred``;
    that end in node i (P,)."""

    starts: FloatArray
    edges: FloatArray
    finals: FloatArray


class Segmentation:
    """Every question about the segmentations of one utterance. It has no state: any thread may ask.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.structures.segments import SegmentGraph, Segmentation, SegmentScores
    >>> graph = SegmentGraph.chain(min_length=[1, 1], max_length=[3, 3])
    >>> prefix = np.array([[0.0, 1, 2, 1, 0], [0, -1, -2, -1, 0]])
    >>> Segmentation().best(SegmentScores.of(graph, prefix)).starts.tolist()
    [0, 2]
    """

    def best(self, scores: SegmentScores, boundary_bonus: FloatArray | None = None) -> SegmentPath:
        """argmax over paths of score + bonus; the path's ``score`` includes the bonus."""
        scores = scores.plus(boundary_bonus)
        lattice, windows = _lattice(scores), _windows(scores)
        into, until, total = _forward(MAX, lattice, windows)
        _check_total(scores, total)
        path = _plain_path(scores, lattice, windows, into, until)
        if scores.rate_weight == 0.0:
            return path
        if scores.rate_weight < 0.0:
            return _rated_path(scores, lattice, windows)
        # A first guess at the best score, between its bounds. If a path reaches it, no better one was left
        # out;
        # if not, what was found is a bound that is reached.
        backward = _backward(MAX, lattice, windows)
        guess = total - GUESS * (total - path.score)
        found = _rated_path(scores, lattice, _narrowed(lattice, windows, into, backward, guess))
        if found.score < guess:
            found = _rated_path(scores, lattice, _narrowed(lattice, windows, into, backward, found.score))
        return found

    def score(self, scores: SegmentScores, path: SegmentPath) -> float:
        """The score of a path; ``InfeasibleError`` if the graph does not allow it."""
        scores.graph.check(path)
        return scores.of_path(path)

    def log_partition(self, scores: SegmentScores) -> float:
        """log sum over paths of exp(score)."""
        if scores.rate_weight != 0.0:
            return self.marginals(scores).log_partition
        _, _, total = _forward(SUM, _lattice(scores), _windows(scores))
        _check_total(scores, total)
        return total

    def marginals(self, scores: SegmentScores) -> SegmentMarginals:
        """Under p(path) proportional to exp(score): boundary marginals and all expected parts."""
        lattice, windows = _lattice(scores), _windows(scores)
        rate = scores.rate_weight
        if rate >= 0.0:
            into, until, total = _forward(SUM, lattice, windows)
            _check_total(scores, total)
            onward, after = _backward(SUM, lattice, windows)
            parts = _plain_parts(scores, lattice, windows, into, until, onward, after, total)
            if rate == 0.0:
                return SegmentMarginals(total, parts)
            floor = total - rate * parts.squared_rate_change
            windows = plain.scoring_windows(
                lattice, windows, into, onward, after, _negligible(lattice, windows, floor)
            )
        return _rated_marginals(scores, lattice, windows)

    def gaps(
        self, scores: SegmentScores, path: SegmentPath, apart: int = 0, largest: float = np.inf
    ) -> FloatArray:
        """(n,): for each node of the best ``path``, its score minus that of the best path on which the node
        starts more than ``apart`` frames elsewhere, or is left out; never more than ``largest``, which spares
        work. ``inf`` where there is no other path."""
        if apart < 0 or not largest >= 0:
            raise DataError(f"apart={apart} and largest={largest} must not be negative")
        score = self.score(scores, path)
        alternatives = _alternatives(scores, score - largest)
        frames = np.arange(scores.n_frames + 1)
        elsewhere = np.abs(frames - path.starts[:, None]) > apart
        best = np.max(alternatives.starts[path.nodes], axis=1, where=elsewhere, initial=-np.inf)
        best = np.maximum(best, _best_without(scores, alternatives, path.nodes))
        gaps: FloatArray = np.minimum(score - best, largest)
        return gaps


def _lattice(scores: SegmentScores) -> Lattice:
    """One layout of the arrays: any other would compile the kernels anew."""
    graph = scores.graph
    return Lattice(
        np.require(scores.prefix, np.float64, ["C", "W"]),
        np.require(scores.boundary, np.float64, ["C", "W"]),
        np.require(scores.duration, np.float64, ["C", "W"]),
        1.0 / graph.mean_length,
        float(scores.rate_weight),
        graph.pred_indptr,
        graph.pred,
        graph.final,
    )


def _windows(scores: SegmentScores) -> Windows:
    """What lengths allow; ``InfeasibleError`` if they allow nothing."""
    graph, frames = scores.graph, scores.n_frames
    windows, shortest, longest = plain.feasible_windows(
        graph.pred_indptr, graph.pred, graph.final, graph.min_length, graph.max_length, frames
    )
    if shortest > longest:
        raise InfeasibleError("no path leads from the beginning of this graph to a final node")
    if not shortest <= frames <= longest:
        wrong = "few" if frames < shortest else "many"
        raise InfeasibleError(
            f"{frames} frames are too {wrong} for these {graph.n_nodes} phones, which take {shortest} to "
            f"{longest} frames; check the transcript against the audio, or widen the phones' durations"
        )
    result: Windows = windows
    return result


def _check_total(scores: SegmentScores, total: float) -> None:
    if total == -np.inf:
        raise InfeasibleError(
            f"no segmentation of {scores.n_frames} frames into these {scores.graph.n_nodes} phones is "
            "allowed: their lengths cannot add up to it, or scores of -inf forbid every path"
        )


def _forward(mode: int, lattice: Lattice, windows: Windows) -> tuple[FloatArray, FloatArray, float]:
    into, until = np.empty(lattice.prefix.shape), np.empty(lattice.prefix.shape)
    return into, until, float(plain.plain_forward(mode, lattice, windows, into, until))


def _backward(mode: int, lattice: Lattice, windows: Windows) -> tuple[FloatArray, FloatArray]:
    onward, after = np.empty(lattice.prefix.shape), np.empty(lattice.prefix.shape)
    plain.plain_backward(mode, lattice, windows, onward, after)
    return onward, after


def _narrowed(
    lattice: Lattice,
    windows: Windows,
    into: FloatArray,
    backward: tuple[FloatArray, FloatArray],
    threshold: float,
) -> Windows:
    """The windows of segments on some path that scores ``threshold`` or more without the rate term."""
    onward, after = backward
    threshold -= _rounding(lattice, threshold)
    result: Windows = plain.scoring_windows(lattice, windows, into, onward, after, threshold)
    return result


def _tables(windows: Windows) -> tuple[IntArray, FloatArray]:
    offsets = rated.table_offsets(windows)
    return offsets, np.empty(offsets[-1])


def _room(scores: SegmentScores) -> tuple[IntArray, IntArray]:
    n = scores.graph.n_nodes
    return np.empty(n, np.int64), np.empty(n, np.int64)


def _plain_path(
    scores: SegmentScores, lattice: Lattice, windows: Windows, into: FloatArray, until: FloatArray
) -> SegmentPath:
    nodes, starts = _room(scores)
    size = plain.plain_trace(lattice, windows, into, until, nodes, starts)
    return _path(scores, nodes[:size], starts[:size])


def _rated_path(scores: SegmentScores, lattice: Lattice, windows: Windows) -> SegmentPath:
    offsets, ended = _tables(windows)
    rated.rate_forward(MAX, lattice, windows, offsets, ended, ended)
    nodes, starts = _room(scores)
    size = rated.rate_trace(lattice, windows, offsets, ended, nodes, starts)
    return _path(scores, nodes[:size], starts[:size])


def _path(scores: SegmentScores, nodes: IntArray, starts: IntArray) -> SegmentPath:
    """From the last segment first to the first one first."""
    path = SegmentPath(nodes[::-1].copy(), starts[::-1].copy(), scores.n_frames)
    return SegmentPath(path.nodes, path.starts, path.n_frames, scores.of_path(path))


def _rounding(lattice: Lattice, total: float) -> float:
    """How far sums in another order may differ: prefix sums can be far larger than what is left of them."""
    return ROUNDING * (1.0 + abs(total) + float(np.abs(lattice.prefix).max()))


def _negligible(lattice: Lattice, windows: Windows, total: float) -> float:
    """All segments of at most this log-mass together are lost in the rounding of ``total``."""
    starts, lengths = windows.last - windows.first + 1, windows.longest - windows.shortest + 1
    n_segments = int(np.maximum(starts, 0) @ np.maximum(lengths, 0))
    return float(total - NEGLIGIBLE - np.log(n_segments)) - _rounding(lattice, total)


def _plain_parts(
    scores: SegmentScores,
    lattice: Lattice,
    windows: Windows,
    into: FloatArray,
    until: FloatArray,
    onward: FloatArray,
    after: FloatArray,
    total: float,
) -> SegmentParts:
    # A segment whose probability is lost in rounding need not be looked at.
    windows = plain.scoring_windows(
        lattice, windows, into, onward, after, _negligible(lattice, windows, total)
    )
    starts, ends, lengths = (np.zeros(x.shape) for x in (into, into, scores.duration))
    start_moments, end_moments = np.zeros((2, *into.shape)), np.zeros((2, *into.shape))
    plain.plain_parts(lattice, windows, into, after, total, starts, ends, lengths, start_moments, end_moments)
    change = plain.plain_rate(
        lattice, windows, until, onward, total, starts, ends, start_moments, end_moments
    )
    return SegmentParts(starts, ends, lengths, float(change))


def _rated_marginals(scores: SegmentScores, lattice: Lattice, windows: Windows) -> SegmentMarginals:
    offsets, ended = _tables(windows)
    squares, rest = np.empty_like(ended), np.empty_like(ended)
    total = float(rated.rate_forward(SUM, lattice, windows, offsets, ended, squares))
    _check_total(scores, total)
    rated.rate_backward(SUM, lattice, windows, offsets, ended, rest, np.empty(0))
    starts, ends, lengths = (np.zeros(x.shape) for x in (scores.prefix, scores.prefix, scores.duration))
    change = rated.rate_parts(windows, offsets, ended, rest, squares, total, starts, ends, lengths)
    return SegmentMarginals(total, SegmentParts(starts, ends, lengths, float(change)))


def _alternatives(scores: SegmentScores, threshold: float) -> _Alternatives:
    """Exact where it is at least ``threshold``; elsewhere below it, or -inf."""
    lattice, windows, graph = _lattice(scores), _windows(scores), scores.graph
    into, until, _ = _forward(MAX, lattice, windows)
    if scores.rate_weight == 0.0:
        onward, _ = _backward(MAX, lattice, windows)
        owner = np.repeat(np.arange(graph.n_nodes), np.diff(graph.pred_indptr))
        edges = np.max(until[graph.pred] + (scores.boundary + onward)[owner], axis=1)
        at_begin = graph.pred == plain.BEGIN
        edges[at_begin] = (into + onward)[owner[at_begin], 0]
        return _Alternatives(into + onward, edges, np.where(graph.final, until[:, -1], -np.inf))
    if scores.rate_weight > 0.0 and threshold > -np.inf:
        windows = _narrowed(lattice, windows, into, _backward(MAX, lattice, windows), threshold)
    offsets, ended = _tables(windows)
    rated.rate_forward(MAX, lattice, windows, offsets, ended, ended)
    rest, edges = np.empty_like(ended), np.full(len(graph.pred), -np.inf)
    rated.rate_backward(MAX, lattice, windows, offsets, ended, rest, edges)
    starts = np.full(scores.prefix.shape, -np.inf)
    rated.best_by_start(windows, offsets, ended, rest, starts)
    finals = np.full(graph.n_nodes, -np.inf)
    rated.best_at_end(lattice, windows, offsets, ended, finals)
    return _Alternatives(starts, edges, finals)


def _best_without(scores: SegmentScores, alternatives: _Alternatives, nodes: IntArray) -> FloatArray:
    """The best path that leaves out each of ``nodes``: nodes are in topological order, so it steps over the
    node
    along one edge p < node < q, begins beyond it, or ends before it."""
    graph = scores.graph
    owner = np.repeat(np.arange(graph.n_nodes), np.diff(graph.pred_indptr))
    over = (graph.pred < nodes[:, None]) & (nodes[:, None] < owner)
    best = np.max(np.broadcast_to(alternatives.edges, over.shape), axis=1, where=over, initial=-np.inf)
    before = np.arange(graph.n_nodes) < nodes[:, None]
    ended = np.broadcast_to(alternatives.finals, before.shape)
    result: FloatArray = np.maximum(best, np.max(ended, axis=1, where=before, initial=-np.inf))
    return result
