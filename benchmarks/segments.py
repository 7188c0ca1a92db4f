"""Segmentations of one utterance: time of each question, and how it grows with frames, phones and lengths.

The utterance is drawn: lengths around a mean per phone, frame scores that favour the phone being spoken,
bumps of the boundary score where phones meet, and noise on all of it. ``sharp`` scores prefer the right phone
by 3 nats a frame; ``flat`` ones are a hundredth of that, so that sums are narrowed nowhere and their worst
case shows. The peer is the same recursion over (phone, end, length, previous length) in vectorised NumPy,
O(P T L^2); both must find the same score.

    python benchmarks/segments.py [--quick]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from _common import Figures, check, cold_seconds, fastest, parser
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.scores.segment_scores import SegmentGraph, SegmentScores

PHONES, FRAMES, LONGEST, RATE = 40, 310, 60, 0.3
FLAT = 0.01
oracle = Segmentation()

COLD = """
import numpy as np
from trellis.structures.segments import SegmentGraph, Segmentation, SegmentScores
graph = SegmentGraph.chain([1, 1, 1], [5, 5, 5])
Segmentation().best(SegmentScores.of(graph, np.zeros((3, 9)), rate_weight=1.0))
"""


def utterance(
    phones: int, frames: int, longest: int, rate: float, *, scale: float = 1.0, seed: int = 0
) -> SegmentScores:
    rng = np.random.default_rng(seed)
    mean = rng.uniform(0.6, 1.4, phones) * frames / phones
    weights = mean * rng.lognormal(0.0, 0.35, phones)
    starts = np.floor(np.concatenate([[0], np.cumsum(weights)[:-1]]) / weights.sum() * frames).astype(int)
    spoken = np.searchsorted(starts, np.arange(frames), side="right") - 1
    score = np.where(spoken == np.arange(phones)[:, None], 1.5, -1.5) + rng.normal(0, 1.5, (phones, frames))
    prefix = np.concatenate([np.zeros((phones, 1)), np.cumsum(score, axis=1)], axis=1)
    boundary = rng.normal(0, 0.5, (1, frames + 1))
    boundary[0, starts] += 1.5
    boundary[0, 0] = 0.0
    lengths = np.arange(longest + 1)
    duration = -0.5 * ((lengths - mean[:, None]) / (0.4 * mean[:, None])) ** 2
    graph = SegmentGraph.chain(np.ones(phones, int), np.full(phones, longest), mean)
    return SegmentScores.of(graph, scale * prefix, scale * boundary, scale * duration, scale * rate)


def numpy_best(scores: SegmentScores) -> float:
    """The best score of a chain: ended[e, l] of one phone after the other."""
    frames, longest = scores.n_frames, scores.graph.longest
    lengths = np.arange(1, longest + 1)
    ends = np.arange(frames + 1)[:, None]
    starts = ends - lengths
    allowed, at = starts >= 0, np.maximum(starts, 0)
    before: np.ndarray | None = None
    for i, mean in enumerate(scores.graph.mean_length):
        if before is None:
            into = np.where(np.arange(frames + 1)[:, None] == 0, 0.0, np.full((1, longest), -np.inf))
        else:
            previous = scores.graph.mean_length[i - 1]
            change = (lengths / mean)[:, None] - (lengths / previous)[None]
            into = np.max(before[:, None, :] - scores.rate_weight * change**2, axis=2)
        segment = scores.prefix[i][:, None] - scores.prefix[i][at] + scores.boundary[i][at]
        ended = into[at, lengths - 1] + segment + scores.duration[i][lengths]
        before = np.where(allowed, ended, -np.inf)
    if before is None:
        return -np.inf
    return float(before[-1].max())


QUESTIONS: dict[str, Callable[[SegmentScores], object]] = {
    "best path": oracle.best,
    "log-partition and marginals": oracle.marginals,
    "gaps up to 20": lambda scores: oracle.gaps(scores, oracle.best(scores), 0, 20.0),
}
TARGETS = {("best path", 0.0): 2.0, ("best path", RATE): 8.0, ("log-partition and marginals", RATE): 40.0}


def speed(figures: Figures, repeats: int) -> None:
    for rate in (0.0, RATE):
        for scale in (1.0, FLAT):
            scores = utterance(PHONES, FRAMES, LONGEST, rate, scale=scale)
            for name, ask in QUESTIONS.items():
                ask(scores)
                (seconds,) = fastest(partial(ask, scores), repeats=repeats)
                target = TARGETS.get((name, rate))
                figures.row(
                    f"{name}, {'with' if rate else 'without'} rate, {'sharp' if scale == 1.0 else 'flat'}",
                    f"{1e3 * seconds:.2f} ms",
                    "" if target is None else f"\u2264 {target:g} ms",
                    met=None if target is None else 1e3 * seconds <= target,
                )
    scores = utterance(PHONES, FRAMES, LONGEST, RATE)
    check(abs(numpy_best(scores) - oracle.best(scores).score) < 1e-8, "the best score")
    (peer,) = fastest(lambda: numpy_best(scores), repeats=2)
    figures.row("best path, with rate, in NumPy", f"{1e3 * peer:.0f} ms", "", met=None)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def growth(figures: Figures, repeats: int, quick: bool) -> None:
    """Flat scores, so that nothing is narrowed; one size grows, the other two stay."""
    top = 3 if quick else 4
    sweeps = {
        "frames": [(40, 200 * 2**k, 100) for k in range(top)],
        "phones": [(20 * 2**k, 800, 100) for k in range(top)],
        "longest segment": [(20, 600, 60 * 2**k) for k in range(top)],
    }
    axis = {"frames": 1, "phones": 0, "longest segment": 2}
    for rate in (0.0, RATE):
        for name, ask in QUESTIONS.items():
            for sweep, sizes in sweeps.items():
                seconds = []
                for phones, frames, longest in sizes:
                    scores = utterance(phones, frames, longest, rate, scale=FLAT)
                    (least,) = fastest(partial(ask, scores), repeats=repeats)
                    seconds.append(least)
                values = [size[axis[sweep]] for size in sizes]
                squared = rate > 0 and ask == oracle.marginals and sweep == "longest segment"
                power, at_most = exponent(values, seconds), 2.2 if squared else 1.3
                figures.row(
                    f"{name}, {'with' if rate else 'without'} rate: {sweep}",
                    f"{values[0]} to {values[-1]}",
                    f"{1e3 * seconds[-1]:.1f} ms",
                    f"{power:.2f}",
                    f"\u2264 {at_most:g}",
                    met=power <= at_most,
                )


def main() -> None:
    given = parser(__doc__).parse_args()
    repeats = 3 if given.quick else 10
    began = time.perf_counter()
    with threadpool_limits(limits=1, user_api="blas"):
        figures = Figures(
            f"{PHONES} phones, {FRAMES} frames, segments of up to {LONGEST}", ("CPU time", "target", "met")
        )
        speed(figures, repeats)
        first, again = cold_seconds(COLD)
        figures.row("compiling the best path, wall", f"{first - again:.1f} s", "", met=None)
        figures.print()
        figures = Figures("Growth of CPU time", ("from, to", "time at the top", "exponent", "target", "met"))
        growth(figures, 3, given.quick)
        figures.print()
    print(f"{time.perf_counter() - began:.0f} s in all")


if __name__ == "__main__":
    main()
