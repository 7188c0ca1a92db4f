"""What is fitted after the weights, on utterances that were held out: how sharp probabilities are, what scores are
usual, and what an optional silence costs.

The cost of a silence, in nats, is chosen among ``COSTS``. Each held-out utterance is aligned to a lattice with an
optional silence at every place; the cost with the fewest silences put in or left out wrongly wins, and the middle one
of several that are as good. Weights that were learnt on sequences cannot tell, because all segmentations of a sequence
have the same number of segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.inference.segments import Segmentation
from trellis.objectives.segment_problem import SegmentExample
from trellis.scores.segments import SegmentFeatures
from trellis.speech.acoustics import Acoustics, TrainingUtterance
from trellis.speech.confidence import fit_beta
from trellis.speech.lattice import Lattice, loose_lattice
from trellis.speech.model import AlignmentModel
from trellis.speech.silence import is_silence

CONFIDENCE_SECONDS = 0.02
RANGE_UTTERANCES = 200
BETA_UTTERANCES = 60
SILENCE_UTTERANCES = 40
LONGEST_SILENCE = 1.0  # seconds, beyond the longest of the utterance: in lattices for the cost only
COSTS = (-16.0, -8.0, -4.0, -2.0, 0.0, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, 64.0)


def judged(
    model: AlignmentModel,
    train: Sequence[SegmentExample],
    holdout: Sequence[SegmentExample],
    utterances: Sequence[TrainingUtterance],
) -> AlignmentModel:
    """The model with everything that judges an alignment. ``utterances``: those of ``holdout``."""
    oracle = Segmentation()
    some = [*holdout, *train][:RANGE_UTTERANCES]
    found = np.array([oracle.best(e.features.scores(model.weights)).score for e in some])
    model = replace(model, score_mean=float(found.mean()), score_deviation=float(found.std()))
    model = replace(model, tolerance=CONFIDENCE_SECONDS, beta=_beta(model, holdout[:BETA_UTTERANCES]))
    if not model.acoustics.phones.has_silence:
        return model
    return replace(model, silence_cost=_silence_cost(model, utterances[:SILENCE_UTTERANCES]))


def _beta(model: AlignmentModel, examples: Sequence[SegmentExample]) -> float:
    oracle = Segmentation()
    scores = [e.features.scores(model.weights) for e in examples]
    return fit_beta(
        scores,
        [oracle.best(one) for one in scores],
        [np.asarray(e.reference) for e in examples],
        [float(len(e.gold.nodes)) for e in examples],
        CONFIDENCE_SECONDS / model.acoustics.step,
    )


def _silence_cost(model: AlignmentModel, utterances: Sequence[TrainingUtterance]) -> float:
    spoken = [u for u in utterances if not all(map(is_silence, u.labels))]
    loose = [_loose(model.acoustics, u) for u in spoken]
    if not loose:
        return 0.0
    oracle = Segmentation()
    wrong = np.zeros(len(COSTS))
    for i, cost in enumerate(COSTS):
        trial = replace(model, silence_cost=cost)
        for utterance, (lattice, features) in zip(spoken, loose, strict=True):
            path = oracle.best(trial.scores(features, lattice))
            wrong[i] += _differences(utterance.labels, [lattice.labels[n] for n in path.nodes])
    best = np.flatnonzero(wrong == wrong.min())
    return COSTS[best[len(best) // 2]]


def _loose(acoustics: Acoustics, utterance: TrainingUtterance) -> tuple[Lattice, SegmentFeatures]:
    lattice = loose_lattice(utterance.labels)
    lengths = np.diff(utterance.starts, append=float(len(utterance.frames)))
    silent = [length for label, length in zip(utterance.labels, lengths, strict=True) if is_silence(label)]
    longest = round(max(silent, default=0.0) + LONGEST_SILENCE / acoustics.step)
    features = acoustics.features(utterance.frames, lattice, where=utterance.id, longest_silence=longest)
    return lattice, features


def _differences(reference: Sequence[str], found: Sequence[str]) -> int:
    """At how many places between phones the one has a silence and the other has not."""
    return sum(a != b for a, b in zip(_places(reference), _places(found), strict=True))


def _places(labels: Sequence[str]) -> list[bool]:
    """Whether there is a silence before each phone, and at the end."""
    places = [False]
    for label in labels:
        if is_silence(label):
            places[-1] = True
        else:
            places.append(False)
    return places
