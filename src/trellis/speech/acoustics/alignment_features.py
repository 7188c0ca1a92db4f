"""The feature map of the aligner: seven features of Keshet et al. (2007), and three more.

For K phones p_1..p_K with start frames s_1 = 0 < s_2 < ... and lengths l_k = s_{k+1} - s_k, before
normalisation:

    classifier     sum_k sum_{s_k <= t < s_{k+1}} g_{p_k}(x_t)        confidence of the frame classifier
    articulation   sum_k sum_{s_k <= t < s_{k+1}} log p(phi_{p_k} | x, t)     articulatory features (option)
    change_j       sum_{k>1} d_j(s_k),  j = 1..4                      spectral change across the boundary
    boundary       sum_{k>1} log-odds(s_k; p_{k-1}, p_k)              of a boundary between two phones
    (option) duration       sum_k log N(step l_k; mu_{p_k}, sigma_{p_k}^2)     Gaussian on the length
    log_duration   sum_k log N(log(step l_k); m_{p_k}, s_{p_k}^2)     Gaussian on its logarithm (option) rate
    -sum_{k>1} (l_k / mu_k - l_{k-1} / mu_{k-1})^2     steadiness of the speaking rate

    d_j(t) = (1/D) || (x_{t-1} + ... + x_{t-j}) / j - (x_t + ... + x_{t+j-1}) / j ||^2

The convolutional network (:mod:`trellis.speech.acoustics.convolutional.convolutional_network`) has
``classifier``, ``articulation`` and ``boundary``; other frame classifiers have a boundary classifier beside
them, and no ``articulation``. Nor has a phone set that is not folded by articulation: presets then leave the
feature out.

x are the D static columns of the frames (cepstra and energy), standardised. Every feature is divided by K, so
that long utterances do not outweigh short ones, and by its *scale*: the root mean square, over training
utterances, of the change in the feature (per phone) when the boundaries of the reference are moved by up to
``JITTER_MS``. One unit of any feature is then about what wrong boundaries cost, so that online learning can
use one step size for all. In a lattice K is the number of phones on the shortest path.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError, UnsupportedError
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentFeatures

CHANGES = ("change_1", "change_2", "change_3", "change_4")
ALL = (
    "classifier",
    "articulation",
    *CHANGES,
    "boundary",
    "duration",
    "log_duration",
    "rate",
)  # also the order of the weights
PRESETS = {
    "paper": ("classifier", *CHANGES, "duration", "rate"),
    "standard": ("classifier", "articulation", *CHANGES, "boundary", "log_duration"),
    "all": ALL,
}
JITTER_MS = 20.0


def feature_names(features: str | Sequence[str], articulation: bool = True) -> tuple[str, ...]:
    """A preset or a choice of names, in the order of the weights; ``articulation``: whether that feature is
    there."""
    if isinstance(features, str):
        if features not in PRESETS:
            raise DataError(
                f"features is {features!r}; give one of {', '.join(PRESETS)}, or a list of {', '.join(ALL)}"
            )
        return tuple(name for name in PRESETS[features] if articulation or name != "articulation")
    if not features or not set(features) <= set(ALL):
        raise DataError(f"features is {list(features)!r}; choose from {', '.join(ALL)}")
    if "articulation" in features and not articulation:
        raise UnsupportedError(
            "the feature 'articulation' needs classifier='convolutional' and phones folded by articulation, "
            "such as fold='voiced'; leave it out, or give both"
        )
    return tuple(name for name in ALL if name in features)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The tables of an utterance that features are made of, and the rows of its P nodes in them.

    ``classes``, ``articulation``: (R, T), the scores of frames for R phones, with the rows ``phones`` (P,).
    ``change``: (4, T + 1). ``log_odds``: (R, T + 1) of R pairs of phones, with the rows ``pairs`` (P,).
    ``durations``: (2, kinds, L + 1), with the rows ``kinds`` (P,).
    """

    kinds: IntArray
    durations: FloatArray
    classes: Float32Array | None = None
    articulation: Float32Array | None = None
    phones: IntArray | None = None
    change: FloatArray | None = None
    log_odds: Float32Array | None = None
    pairs: IntArray | None = None


def spectral_change(static: Float32Array, widths: Sequence[int] = (1, 2, 3, 4)) -> FloatArray:
    """d_j(t) for t = 0 .. T, (len(widths), T + 1); the frames at the ends are repeated, and d_j(0) = 0."""
    n_frames, width = static.shape
    reach = max(widths)
    padded = np.pad(static.astype(np.float64), ((reach, reach), (0, 0)), mode="edge")
    sums = np.concatenate([np.zeros((1, width)), np.cumsum(padded, axis=0)])
    middle = np.arange(n_frames + 1) + reach
    change = np.empty((len(widths), n_frames + 1))
    for row, j in enumerate(widths):
        before, after = sums[middle] - sums[middle - j], sums[middle + j] - sums[middle]
        change[row] = np.mean(((after - before) / j) ** 2, axis=1)
    change[:, 0] = 0.0
    return change


def segment_features(
    names: Sequence[str],
    scale: FloatArray,
    graph: SegmentGraph,
    n_frames: int,
    n_phones: int,
    evidence: Evidence,
) -> SegmentFeatures:
    """The features of one utterance, divided by ``n_phones`` and ``scale``."""
    factor = dict(zip(names, 1.0 / (n_phones * scale), strict=True))
    tables: dict[str, Any] = {}
    by_frames = {"classifier": evidence.classes, "articulation": evidence.articulation}
    heard = [(table, factor[n]) for n, table in by_frames.items() if n in factor and table is not None]
    if heard:
        sums = np.zeros((len(heard), len(heard[0][0]), n_frames + 1))
        for into, (table, f) in zip(sums[:, :, 1:], heard, strict=True):
            np.cumsum(table, axis=1, dtype=np.float64, out=into)
            into *= f
        tables |= {"prefix": sums, "prefix_rows": evidence.phones}
    tables |= _boundary_tables(factor, evidence, n_frames)
    chosen = [(row, factor[n]) for row, n in enumerate(("duration", "log_duration")) if n in factor]
    if chosen:
        used, rows = np.unique(evidence.kinds, return_inverse=True)
        tables["duration"] = np.stack([evidence.durations[row][used] * f for row, f in chosen])
        tables["duration_rows"] = rows
    return SegmentFeatures.of(graph, n_frames, rate=factor.get("rate", 0.0), **tables)


def _boundary_tables(factor: dict[str, float], evidence: Evidence, n_frames: int) -> dict[str, Any]:
    changes = [i for i, name in enumerate(CHANGES) if name in factor]
    log_odds = evidence.log_odds if "boundary" in factor else None
    if not changes and log_odds is None:
        return {}
    n_rows = 1 if log_odds is None else len(log_odds)
    table = np.empty((len(changes) + (log_odds is not None), n_rows, n_frames + 1), dtype=np.float32)
    for row, i in enumerate(changes):
        if evidence.change is None:
            raise DataError("the spectral change of the utterance is missing; compute it first")
        table[row] = evidence.change[i] * factor[CHANGES[i]]
    if log_odds is None:
        return {"boundary": table}
    table[-1] = log_odds * np.float32(factor["boundary"])
    return {"boundary": table, "boundary_rows": evidence.pairs}


def measure_scale(examples: Sequence[SegmentExample], jitter: int, seed: int) -> FloatArray:
    """The scale of each feature, from examples whose features were made with scale 1."""
    rng = np.random.default_rng(seed)
    changes = []
    for example in examples:
        gold, features = example.gold_path, example.features
        moved = gold.starts.copy()
        moved[1:] += rng.integers(-jitter, jitter + 1, len(moved) - 1)
        path = SegmentPath(gold.nodes, whole_frames(moved, gold.n_frames), gold.n_frames)
        if path.lengths.max() <= features.graph.longest:
            changes.append(features.of_path(path) - example.gold_features)
    if not changes:
        return np.ones(examples[0].features.dimension)
    scale: FloatArray = np.sqrt(np.mean(np.square(changes), axis=0))
    return np.where(scale > 1e-12, scale, 1.0)


def whole_frames(starts: FloatArray | IntArray, n_frames: int) -> IntArray:
    """The nearest whole frames, at least one frame apart, from 0 and below ``n_frames``."""
    n = len(starts)
    if n > n_frames:
        raise DataError(f"{n} phones in {n_frames} frames: some are shorter than a frame; use a shorter step")
    steps = np.arange(n)
    frames = np.rint(starts).astype(np.int64)
    frames[0] = 0
    apart = np.maximum.accumulate(frames - steps) + steps  # push later ones forwards ...
    return np.asarray(np.minimum(apart, n_frames - n + steps), dtype=np.int64)  # ... and back from the end
