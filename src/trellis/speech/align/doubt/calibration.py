"""Calibration on utterances that the classifiers have not heard, after the weights: how sharp probabilities
are, how often starts are right, and which transcripts and scores are suspicious. (A handful of weights was
trained on these utterances; the classifiers never have been.)

Confidences (:mod:`.confidence_calibration`) are fitted on the starts of up to ``JUDGED_UTTERANCES``
utterances, and the match of transcripts (:mod:`.transcript_match`) on their transcripts and on wrong ones,
all aligned as they would be later.

A voice that was not in training scores far lower than those that were, and may still be aligned well; how far
a score lies below the usual ones says little. So a suspicious score is one that is no better than those of
*wrong* transcripts: the phones of held-out utterances in random order, their silences in place. It also
has to be unusual, which matters where a model hardly tells right from wrong:

    floor = min(mean_wrong + 2 deviation_wrong, mean_right - 3 deviation_right)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.acoustics.frame_evidence import FrameEvidence
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.doubt.boundary_confidence import fit_beta, refine_starts
from trellis.speech.align.doubt.confidence_calibration import ConfidenceCalibration
from trellis.speech.align.doubt.match_statistics import AlignedPhones, match_statistics
from trellis.speech.align.doubt.start_posterior import share_within, start_posterior
from trellis.speech.align.doubt.transcript_match import JudgedTranscript, TranscriptMatch
from trellis.speech.align.doubt.wrong_transcripts import wrong_transcripts
from trellis.speech.align.learning.corpus_preparation import PreparedCorpus
from trellis.speech.align.search.topology import topology_scores
from trellis.speech.corpus.phone_lattice import phone_lattice
from trellis.speech.phones.silence import is_silence
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_scores import SegmentFeatures

CONFIDENCE_SECONDS = 0.02
RANGE_UTTERANCES = 200
BETA_UTTERANCES = 60
JUDGED_UTTERANCES = 400
UNUSUAL, WRONG = 3.0, 2.0  # standard deviations


def calibrate(model: AlignmentModel, prepared: PreparedCorpus, refine: bool = True) -> AlignmentModel:
    """The model with the numbers that tell how far to trust an alignment; ``refine``: as in aligning."""
    train, holdout, wrong = prepared.train, prepared.holdout, prepared.wrong
    right = _best_scores(model, [e.features for e in [*holdout, *train][:RANGE_UTTERANCES]])
    floor = right.mean() - UNUSUAL * right.std()
    if wrong:
        scores = _best_scores(model, wrong)
        floor = min(floor, scores.mean() + WRONG * scores.std())
    scaled = replace(
        model,
        score_mean=float(right.mean()),
        score_floor=float(floor),
        tolerance=CONFIDENCE_SECONDS,
        beta=_beta(model, holdout[:BETA_UTTERANCES]),
    )
    return calibrate_doubt(scaled, prepared.unheard[:JUDGED_UTTERANCES], refine)


def calibrate_doubt(
    model: AlignmentModel, unheard: Sequence[TrainingUtterance], refine: bool = True
) -> AlignmentModel:
    """The model with confidences and a match of transcripts fitted on ``unheard``, in their order."""
    inventory = [label for u in unheard for label in u.labels if not is_silence(label)]
    judge = _Judge(model, np.random.default_rng(0), inventory, refine)
    shares, hits, examples = [], [], []
    for i, utterance in enumerate(unheard):
        found = judge.transcripts(utterance, unheard[(i + 1) % len(unheard)].labels, i)
        shares.append(found.share)
        hits.append(found.hit)
        examples += found.examples
    if not shares:
        return model
    calibration = ConfidenceCalibration.fit(np.concatenate(shares), np.concatenate(hits))
    return replace(model, calibration=calibration, match=TranscriptMatch.fit(examples))


@dataclass(frozen=True, eq=False)
class _Found:
    """``share``, ``hit``: of the inner starts of the right transcript."""

    share: FloatArray
    hit: BoolArray
    examples: list[JudgedTranscript]


@dataclass(frozen=True, eq=False)
class _Judge:
    model: AlignmentModel
    rng: np.random.Generator
    inventory: list[str]
    refine: bool

    def transcripts(self, utterance: TrainingUtterance, other: Sequence[str], number: int) -> _Found:
        """The right transcript and wrong ones; those that the recording is too short or too long for are left
        out."""
        evidence = self.model.acoustics.evidence(utterance.frames)
        aligned = self._align(utterance, evidence, utterance.labels)
        share, hit = np.zeros(0), np.zeros(0, dtype=np.bool_)
        examples = []
        if aligned is not None:
            tolerance = self.model.tolerance / self.model.acoustics.step
            near = np.abs(aligned.starts - utterance.starts) <= tolerance + 1e-9
            share, hit = aligned.share[1:], near[1:]
            examples.append(self._example(evidence, aligned, np.zeros(len(hit) + 1, dtype=np.bool_), number))
            for wrong in wrong_transcripts(utterance.labels, other, self.inventory, self.rng):
                aligned = self._align(utterance, evidence, wrong.labels)
                if aligned is not None:
                    examples.append(self._example(evidence, aligned, wrong.wrong, number, wrong.kind))
        return _Found(share, hit, examples)

    def _align(
        self, utterance: TrainingUtterance, evidence: FrameEvidence, labels: Sequence[str]
    ) -> AlignedPhones | None:
        model, acoustics, lattice = self.model, self.model.acoustics, phone_lattice(labels)
        features = acoustics.features(utterance.frames, lattice, where=utterance.id, evidence=evidence)
        if not features.graph.min_length.sum() <= features.n_frames <= features.graph.max_length.sum():
            return None
        scores = features.scores(model.weights)
        path = Segmentation().best(scores)
        likelihood = topology_scores(acoustics, model.topology, features, lattice)
        posterior = start_posterior(likelihood, lattice.occurrences, path.nodes)
        starts = refine_starts(scores, path) if self.refine else path.starts.astype(np.float64)
        share = share_within(posterior, starts, model.tolerance / acoustics.step)
        return AlignedPhones(lattice.labels, starts, share, likelihood.boundary, path.score)

    def _example(
        self,
        evidence: FrameEvidence,
        aligned: AlignedPhones,
        wrong: BoolArray,
        number: int,
        kind: str = "right",
    ) -> JudgedTranscript:
        statistics = match_statistics(self.model.acoustics, self.model.topology, evidence, aligned)
        return JudgedTranscript(statistics, wrong[statistics.places], number, kind)


def _best_scores(model: AlignmentModel, features: Sequence[SegmentFeatures]) -> FloatArray:
    oracle = Segmentation()
    return np.array([oracle.best(one.scores(model.weights)).score for one in features])


def _beta(model: AlignmentModel, examples: Sequence[SegmentExample]) -> float:
    oracle = Segmentation()
    scores = [e.features.scores(model.weights) for e in examples]
    return fit_beta(
        scores,
        [oracle.best(one) for one in scores],
        [np.asarray(e.reference) for e in examples],
        [float(len(e.gold_path.nodes)) for e in examples],
        CONFIDENCE_SECONDS / model.acoustics.step,
    )
