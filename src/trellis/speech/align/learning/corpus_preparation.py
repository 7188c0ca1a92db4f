"""From a corpus to a trained acoustic model, and to examples for the weights that it has not seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from trellis.core.arrays import Float32Array, FloatArray
from trellis.core.blas_threads import one_blas_thread
from trellis.core.errors import DataError
from trellis.core.shards import over_items
from trellis.core.stage_times import StageTimes
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.acoustic_training import TrainingUtterance, fit_acoustics
from trellis.speech.acoustics.alignment_features import JITTER_MS, feature_names, measure_scale
from trellis.speech.acoustics.boundary_classifier import BoundaryOptions
from trellis.speech.acoustics.classifier_names import get_classifier
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.acoustics.phone_durations import DurationModel
from trellis.speech.align.learning.end_to_end import train_end_to_end
from trellis.speech.align.search.topology import fit_topology
from trellis.speech.audio.front_end import frame_recording
from trellis.speech.corpus.corpus_split import folds, split_corpus
from trellis.speech.corpus.label_checks import check_labels
from trellis.speech.corpus.phone_lattice import phone_lattice
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.phones.phone_set import PhoneSet
from trellis.speech.phones.silence import is_silence
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_scores import SegmentFeatures
from trellis.training.checkpoints import Checkpoints

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner

SCALE_UTTERANCES = 200  # enough to measure the scale of the features
TOPOLOGY_UTTERANCES = 60
WRONG_UTTERANCES = 60

Progress = Callable[[str, float], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class PreparedCorpus:
    """What training the weights needs: features of utterances that the classifiers have not seen.
    ``wrong``: features of some of them with wrong transcripts (``doubt.calibration``). ``unheard``: those
    utterances themselves, the hold-out first."""

    acoustics: AcousticModel
    train: list[SegmentExample]
    holdout: list[SegmentExample]
    topology: FloatArray
    wrong: list[SegmentFeatures]
    unheard: list[TrainingUtterance]


def prepare_corpus(
    aligner: Aligner,
    corpus: Iterable[Utterance],
    report: Progress,
    checkpoints: Checkpoints,
    stages: StageTimes,
) -> PreparedCorpus:
    """Train the classifiers. This takes most of the time, and serves any objective and loss."""
    utterances = [u for u in corpus if u.reference is not None]
    if len(utterances) < 3:
        raise DataError(
            f"{len(utterances)} utterances with a reference are too few: each of the three parts needs one; "
            "give a corpus with reference alignments"
        )
    ids = [u.id for u in utterances]
    if len(set(ids)) < len(ids):
        raise DataError("two utterances of the corpus have the same id; give each its own")
    check_labels(utterances, aligner.fold, aligner.alphabet, aligner.unknown_phones)
    rng = np.random.default_rng(aligner.random_state)
    parts = split_corpus(ids, [u.group for u in utterances], aligner.split, rng)
    used = sorted({*parts.classifier, *parts.weights, *parts.holdout})
    options, done = aligner.frame_options(), count(1)

    def read(index: int) -> Float32Array:
        utterance = utterances[index]
        features = frame_recording(utterance.audio, options, utterance.channel).features.astype(np.float32)
        report("reading", next(done) / len(used))
        return features

    frames = dict(zip(used, _on_threads(read, used, aligner._threads()), strict=True))
    base = _untrained(
        aligner, [utterances[i] for i in used], [frames[i] for i in (*parts.classifier, *parts.weights)]
    )
    classify, weigh, hold = (
        [TrainingUtterance.of(utterances[i], base.standardise(frames[i]), base.step) for i in part]
        for part in (parts.classifier, parts.weights, parts.holdout)
    )
    stages.done("reading and encoding")
    report("classifiers", 0.0)
    groups = [utterances[i].group for i in (*parts.classifier, *parts.weights)]
    acoustics, train = _train_acoustics(aligner, classify, weigh, hold, groups, base, report, checkpoints)
    holdout = _on_threads(acoustics.example, hold, aligner._threads())
    report("topology", 0.0)
    weighed = hold if aligner.cross_fit else [*weigh, *hold]
    topology = fit_topology(acoustics, weighed[:TOPOLOGY_UTTERANCES], aligner._threads(), checkpoints)
    wrong = _with_wrong_transcripts(aligner, acoustics, [*hold, *weigh][:WRONG_UTTERANCES])
    unheard = hold if aligner.cross_fit else [*hold, *weigh]
    stages.done("classifiers")
    return PreparedCorpus(acoustics, train, holdout, topology, wrong, unheard)


def _untrained(aligner: Aligner, used: Sequence[Utterance], frames: Sequence[Float32Array]) -> AcousticModel:
    """The acoustic model without classifiers: phones, and mean and deviation of each column of the frames."""
    labels = [label for u in used if u.reference is not None for label in u.reference.labels]
    phones = PhoneSet.of(labels, aligner.fold, aligner.alphabet, aligner.unknown_phones)
    together = np.concatenate(frames)
    deviation = together.std(axis=0, dtype=np.float64)
    ones = np.ones(phones.n_kinds)
    convolutional = isinstance(get_classifier(aligner.classifier), ConvolutionalOptions)
    names = feature_names(aligner.features, convolutional and phones.articulated)
    return AcousticModel(
        options=aligner.frame_options(),
        phones=phones,
        mean=together.mean(axis=0, dtype=np.float64).astype(np.float32),
        deviation=np.where(deviation > 1e-6, deviation, 1.0).astype(np.float32),
        classifier=None,
        boundaries=None,
        durations=DurationModel(ones, ones, ones, ones, ones),
        names=names,
        scale=np.ones(len(names)),
        shortest=aligner.shortest_ms / 1000.0,
    )


def _train_acoustics(
    aligner: Aligner,
    classify: Sequence[TrainingUtterance],
    weigh: Sequence[TrainingUtterance],
    hold: Sequence[TrainingUtterance],
    groups: Sequence[str],
    base: AcousticModel,
    report: Progress,
    checkpoints: Checkpoints,
) -> tuple[AcousticModel, list[SegmentExample]]:
    """The acoustic model of the result, and examples for the weights from models that have not seen them.

    The features get their scale twice: the network that was trained end to end speaks louder.
    """
    seed, n_jobs = aligner.random_state, aligner._threads()
    classifier, boundaries = get_classifier(aligner.classifier), aligner.boundaries or BoundaryOptions()

    n_fits, done = aligner.cross_fit + 1, count()

    def fit(own: Sequence[TrainingUtterance], more: Sequence[TrainingUtterance]) -> AcousticModel:
        number = next(done)

        def tell(share: float) -> None:
            report("classifiers", (number + share) / n_fits)

        return fit_acoustics(own, more, base, classifier, boundaries, seed, n_jobs, tell, checkpoints)

    def through_alignment(
        acoustics: AcousticModel, own: Sequence[TrainingUtterance], unseen: Sequence[TrainingUtterance]
    ) -> AcousticModel:
        if not isinstance(classifier, ConvolutionalOptions) or not classifier.end_to_end_passes:
            return acoustics
        acoustics = replace(acoustics, scale=scale(acoustics, unseen))
        weights = fit_topology(acoustics, unseen[:TOPOLOGY_UTTERANCES], n_jobs, checkpoints)
        return train_end_to_end(
            acoustics, weights, own, hold, classifier, seed, partial(report, "end to end"), checkpoints
        )

    def scale(acoustics: AcousticModel, utterances: Sequence[TrainingUtterance]) -> FloatArray:
        def measure() -> FloatArray:
            plain = replace(acoustics, scale=np.ones(len(acoustics.names)))
            examples = _on_threads(plain.example, utterances[:SCALE_UTTERANCES], n_jobs)
            jitter = max(1, round(JITTER_MS / (1000.0 * acoustics.step)))
            return measure_scale(examples, jitter, seed)

        return checkpoints.once(measure)

    if not aligner.cross_fit:
        acoustics = through_alignment(fit(classify, weigh), classify, weigh)
        report("features", 0.0)
        acoustics = replace(acoustics, scale=scale(acoustics, weigh))
        return acoustics, _on_threads(acoustics.example, weigh, n_jobs)
    both = [*classify, *weigh]
    found: list[SegmentExample] = []
    for part in folds(groups, aligner.cross_fit, np.random.default_rng(seed + 1)):
        left_out, seen = [both[i] for i in part], [u for i, u in enumerate(both) if i not in set(part)]
        acoustics = through_alignment(fit(seen, left_out), seen, left_out)
        if not found:
            base = replace(base, scale=scale(acoustics, left_out))
        found += _on_threads(replace(acoustics, scale=base.scale).example, left_out, n_jobs)
        report("classifiers", len(found) / len(both) * aligner.cross_fit / n_fits)
    return replace(through_alignment(fit(both, []), both, hold), scale=base.scale), found


def _with_wrong_transcripts(
    aligner: Aligner, acoustics: AcousticModel, utterances: Sequence[TrainingUtterance]
) -> list[SegmentFeatures]:
    """The utterances with their phones in random order; those too short or too long for it are left out."""
    rng = np.random.default_rng(aligner.random_state + 2)

    def shuffle(utterance: TrainingUtterance) -> list[str]:
        labels = list(utterance.labels)
        spoken = [i for i, label in enumerate(labels) if not is_silence(label)]
        for i, j in zip(spoken, rng.permutation(spoken).tolist(), strict=True):
            labels[i] = utterance.labels[j]
        return labels

    found = _on_threads(
        lambda pair: acoustics.features(pair[0].frames, phone_lattice(pair[1]), where=pair[0].id),
        [(u, shuffle(u)) for u in utterances],
        aligner._threads(),
    )
    return [f for f in found if f.graph.min_length.sum() <= f.n_frames <= f.graph.max_length.sum()]


def _on_threads(function: Callable[[Item], Result], items: Sequence[Item], n_jobs: int) -> list[Result]:
    """``[function(item), ...]`` on threads, with BLAS on one thread each."""
    with one_blas_thread():
        return over_items(lambda i: function(items[i]), len(items), n_jobs)
