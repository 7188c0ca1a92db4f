"""The choice of a path through a lattice: which pronunciation was spoken, and where there was silence.

The weights of the aligner are trained for *where* boundaries lie between given phones. All segmentations of a
sequence have the same number of segments, so those weights cannot tell *whether* a segment is there. That is
a question of likelihood: a second set of weights maximises the log-likelihood of the reference among all
segmentations of all sequences that a lattice allows,

    max_w  sum_i log p(y_i | x_i) - (L2 / 2) ||w||^2,     p(y | x) proportional to exp(w . Phi(x, y)),

on utterances that the classifiers have not seen, with an optional silence at every place. Phi are the
features of ``alignment_features`` without rate, summed (not divided by the number of phones), and
the number of silences. The best path, with the priors of pronunciations added, is the sequence that the
aligner then aligns. The same distribution says how sure a boundary is (``doubt.start_posterior``): it is a
likelihood of whole alignments, silences and pronunciations included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.core.arrays import BoolArray, Float32Array, FloatArray, IntArray
from trellis.objectives.records import Log
from trellis.solvers import Solution, get_solver
from trellis.speech.acoustics.acoustic_model import UNLIMITED, AcousticModel, Limits
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.corpus.phone_lattice import Lattice, loose_lattice, phone_lattice
from trellis.speech.phones.silence import is_silence
from trellis.structures.segments.problem.alignment_losses import TauAlignment
from trellis.structures.segments.problem.segment_problem import SegmentExample, SegmentProblem
from trellis.structures.segments.scores.segment_graph import SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentFeatures, SegmentScores
from trellis.training.checkpoints import Checkpoints
from trellis.training.driver import minimise

L2 = 0.1
ITERATIONS = 50
EXTRA_SILENCE = 0.5  # seconds that a silence may exceed the longest of its utterance in training


def topology_names(names: Sequence[str]) -> tuple[str, ...]:
    """The features of the choice, in the order of their weights; the number of silences comes last."""
    return tuple(name for name in names if name != "rate")


def fit_topology(
    acoustics: AcousticModel,
    utterances: Sequence[TrainingUtterance],
    n_jobs: int = 1,
    checkpoints: Checkpoints | None = None,
) -> FloatArray:
    """The weights of the choice. ``checkpoints``: of the fit that this is a stage of."""
    examples = [example for u in utterances if (example := _example(acoustics, u)) is not None]
    dimension = len(topology_names(acoustics.names)) + 1
    if not examples:
        return np.zeros(dimension)
    problem = SegmentProblem(examples, Log(), TauAlignment(1.0), l2=L2, n_jobs=n_jobs)
    rng, start = np.random.default_rng(0), np.zeros(dimension)
    solution: Solution = minimise(
        get_solver("lbfgs"), problem, start, max_iter=ITERATIONS, rng=rng, checkpoints=checkpoints
    )
    return solution.weights


def topology_scores(
    acoustics: AcousticModel, weights: FloatArray, features: SegmentFeatures, lattice: Lattice
) -> SegmentScores:
    """log p(path) but for a constant, of the ``features`` of a lattice: sums over phones, the number of
    silences, and the priors of pronunciations. There is no rate."""
    by_name = dict(zip(topology_names(acoustics.names), weights, strict=False))
    plain = np.array([by_name.get(name, 0.0) for name in acoustics.names])
    scores = features.scores(lattice.min_phones * plain)
    silent = np.array([is_silence(label) for label in lattice.labels], dtype=np.float64)
    return replace(
        scores,
        boundary=scores.boundary + np.array(lattice.prior)[:, None],
        duration=scores.duration + weights[-1] * silent[:, None],
        rate_weight=0.0,
    )


def _features(
    acoustics: AcousticModel,
    frames: Float32Array,
    lattice: Lattice,
    gold: SegmentPath | None = None,
    limits: Limits = UNLIMITED,
) -> SegmentFeatures:
    """Sums over phones, and the number of silences."""
    kept = [i for i, name in enumerate(acoustics.names) if name != "rate"]
    plain = replace(acoustics, names=topology_names(acoustics.names), scale=acoustics.scale[kept])
    features = plain.features(frames, lattice, gold=gold, limits=limits)
    sums = replace(
        features,
        prefix=lattice.min_phones * features.prefix,
        boundary=lattice.min_phones * features.boundary,
        duration=lattice.min_phones * features.duration,
    )
    return count_silences(sums, np.array([is_silence(label) for label in lattice.labels]))


def count_silences(features: SegmentFeatures, silent: BoolArray) -> SegmentFeatures:
    """With one more feature, the last: the number of ``silent`` (P,) nodes on the path."""
    one = np.repeat(silent.astype(np.float64)[:, None], features.graph.longest + 1, axis=1)
    duration = np.concatenate([features.duration[:, features.duration_rows], one[None]])
    return replace(features, duration=duration, duration_rows=np.arange(len(silent)))


def _example(acoustics: AcousticModel, utterance: TrainingUtterance) -> SegmentExample | None:
    """The reference as a path; None if it has silences in a row, which no lattice has."""
    with_silence = acoustics.phones.has_silence
    lattice = loose_lattice(utterance.labels) if with_silence else phone_lattice(utterance.labels)
    nodes = follow_labels(lattice, utterance.labels)
    if nodes is None:
        return None
    n_frames = len(utterance.frames)
    gold = SegmentPath(nodes, utterance.gold, n_frames)
    silent = [n for label, n in zip(utterance.labels, gold.lengths, strict=True) if is_silence(label)]
    longest = int(max(silent, default=0)) + round(EXTRA_SILENCE / acoustics.step)
    limits = Limits(longest_silence=longest)
    features = _features(acoustics, utterance.frames, lattice, gold, limits)
    return SegmentExample(features, gold, name=utterance.id)


def follow_labels(lattice: Lattice, labels: Sequence[str]) -> IntArray | None:
    """The nodes of the path with these labels."""
    nodes: list[int] = []
    after: dict[int, list[int]] = {}
    for i, before in enumerate(lattice.predecessors):
        for p in before:
            after.setdefault(p, []).append(i)
    here = -1
    for label in labels:
        wanted = [i for i in after.get(here, ()) if lattice.labels[i] == label]
        wanted = wanted or [
            i for i in after.get(here, ()) if is_silence(label) and is_silence(lattice.labels[i])
        ]
        if not wanted:
            return None
        here = wanted[0]
        nodes.append(here)
    return np.array(nodes, dtype=np.int64) if lattice.final[here] else None
