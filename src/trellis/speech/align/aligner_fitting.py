"""From a corpus to an :class:`AlignmentModel`: frames, three parts, classifiers, weights, and how to judge
confidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.core.shards import n_threads
from trellis.objectives.records import Objective
from trellis.speech.acoustics.acoustic_model import AcousticModel, TrainingUtterance, fit_acoustics
from trellis.speech.acoustics.alignment_features import JITTER_MS, scale_of
from trellis.speech.acoustics.boundary_classifier import BoundaryOptions
from trellis.speech.acoustics.frame_classifiers import ClassifierOptions
from trellis.speech.acoustics.phone_durations import DurationModel
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.calibration import judged
from trellis.speech.align.topology import fit_topology
from trellis.speech.align.weight_training import WeightOptions, learn_weights
from trellis.speech.audio.cepstra import FrameOptions
from trellis.speech.audio.front_end import FramedRecording
from trellis.speech.corpus.corpus_split import Split, folds, split_corpus
from trellis.speech.corpus.phone_lattice import phone_lattice
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.phones.phone_set import Fold, PhoneSet
from trellis.speech.phones.silence import is_silence
from trellis.structures.segments.problem.alignment_losses import AlignmentLoss, get_alignment_loss
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_scores import SegmentFeatures

SCALE_UTTERANCES = 200  # as many are enough for the scale of the features
TOPOLOGY_UTTERANCES = 60
WRONG_UTTERANCES = 60

Progress = Callable[[str, float], None]
Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class FitOptions:
    """The parameters of an aligner, checked."""

    frames: FrameOptions
    objective: Objective
    loss: str | AlignmentLoss
    tau_ms: float
    classifier: ClassifierOptions
    boundaries: BoundaryOptions
    names: tuple[str, ...]
    fold: Fold
    shortest: float
    solver: str
    passes: int
    l2: float
    average: bool
    start: str
    split: Split
    cross_fit: int
    n_jobs: int
    seed: int


@dataclass(frozen=True)
class Fitted:
    model: AlignmentModel
    history: dict[str, list[float]]


@dataclass(frozen=True, eq=False)
class Prepared:
    """What is there before weights are learnt: features of utterances that the classifiers have not seen.
    ``wrong``: features of some of them with wrong transcripts (:mod:`trellis.speech.align.calibration`)."""

    acoustics: AcousticModel
    train: list[SegmentExample]
    holdout: list[SegmentExample]
    topology: FloatArray
    wrong: list[SegmentFeatures]


def prepare(
    utterances: Sequence[Utterance],
    framed: Callable[[Utterance], FramedRecording],
    options: FitOptions,
    progress: Progress | None = None,
) -> Prepared:
    """Train the classifiers. This takes most of the time, and serves any objective and loss."""
    tell = progress or (lambda stage, share: None)
    rng = np.random.default_rng(options.seed)
    ids = [u.id for u in utterances]
    if len(set(ids)) < len(ids):
        raise DataError("two utterances of the corpus have the same id; give each its own")
    parts = split_corpus(ids, [u.group for u in utterances], options.split, rng)
    used = [utterances[i] for i in sorted({*parts.classifier, *parts.weights, *parts.holdout})]
    raw = _mapped(lambda u: framed(u).features.astype(np.float32), used, options.n_jobs, tell, "reading")
    frames = dict(zip((u.id for u in used), raw, strict=True))
    base = _base(used, [frames[ids[i]] for i in (*parts.classifier, *parts.weights)], options)

    def prepared(index: Sequence[int]) -> list[TrainingUtterance]:
        chosen = [utterances[i] for i in index]
        return [_training(u, base.standardised(frames[u.id]), base.step) for u in chosen]

    classify, weigh, hold = (prepared(p) for p in (parts.classifier, parts.weights, parts.holdout))
    tell("classifiers", 0.0)
    groups = [utterances[i].group for i in (*parts.classifier, *parts.weights)]
    acoustics, train = _examples(classify, weigh, groups, base, options, tell)
    holdout = _mapped(lambda u: _example(acoustics, u), hold, options.n_jobs)
    tell("topology", 0.0)
    unseen = hold if options.cross_fit else [*weigh, *hold]
    topology = fit_topology(acoustics, unseen[:TOPOLOGY_UTTERANCES], options.n_jobs)
    wrong = _with_wrong_transcripts(acoustics, [*hold, *weigh][:WRONG_UTTERANCES], options)
    return Prepared(acoustics, train, holdout, topology, wrong)


def learn(prepared: Prepared, options: FitOptions, progress: Progress | None = None) -> Fitted:
    """Learn the weights for the objective and the loss of ``options``."""
    tell = progress or (lambda stage, share: None)
    tell("weights", 0.0)
    acoustics, train, holdout = prepared.acoustics, prepared.train, prepared.holdout
    loss = get_alignment_loss(options.loss, options.tau_ms / (1000.0 * acoustics.step))
    learnt = learn_weights(
        train,
        holdout,
        WeightOptions(
            options.objective,
            loss,
            options.solver,
            options.passes,
            options.l2,
            options.average,
            options.start,
            options.n_jobs,
            options.seed,
        ),
        _on_pass(tell, options.passes),
    )
    tell("confidence", 0.0)
    model = AlignmentModel(
        acoustics,
        learnt.solution.weights,
        prepared.topology,
        learnt.solution.status,
        epsilon=learnt.epsilon,
        epsilon_losses=learnt.epsilon_losses,
    )
    model = judged(model, train, holdout, prepared.wrong)
    tell("done", 1.0)
    return Fitted(model, learnt.solution.history)


def _base(used: Sequence[Utterance], frames: Sequence[Any], options: FitOptions) -> AcousticModel:
    """The acoustics before anything is trained: phones, and mean and deviation of each column of the
    frames."""
    labels = [label for u in used for label in (u.reference.labels if u.reference else ())]
    phones = PhoneSet.of(labels, options.fold)
    together = np.concatenate(frames)
    centre, spread = together.mean(axis=0, dtype=np.float64), together.std(axis=0, dtype=np.float64)
    nothing = np.ones(phones.n_kinds)
    return AcousticModel(
        options=options.frames,
        phones=phones,
        centre=centre.astype(np.float32),
        spread=np.where(spread > 1e-6, spread, 1.0).astype(np.float32),
        classifier=None,
        boundaries=None,
        durations=DurationModel(nothing, nothing, nothing, nothing, nothing),
        names=options.names,
        scale=np.ones(len(options.names)),
        shortest=options.shortest,
    )


def _training(utterance: Utterance, frames: Any, step: float) -> TrainingUtterance:
    if utterance.reference is None:
        raise DataError(f"{utterance.id}: the utterance has no reference")
    return TrainingUtterance.of(utterance.id, frames, utterance.reference, step)


def _examples(
    classify: Sequence[TrainingUtterance],
    weigh: Sequence[TrainingUtterance],
    groups: Sequence[str],
    base: AcousticModel,
    options: FitOptions,
    tell: Progress,
) -> tuple[AcousticModel, list[SegmentExample]]:
    """The acoustics of the result, and examples for the weights from acoustics that have not seen them."""

    def fitted(
        own: Sequence[TrainingUtterance], more: Sequence[TrainingUtterance], seed: int
    ) -> AcousticModel:
        return fit_acoustics(own, more, base, options.classifier, options.boundaries, seed, options.n_jobs)

    def examples(acoustics: AcousticModel, chosen: Sequence[TrainingUtterance]) -> list[SegmentExample]:
        return _mapped(lambda u: _example(acoustics, u), chosen, options.n_jobs)

    if not options.cross_fit:
        acoustics = fitted(classify, weigh, options.seed)
        tell("features", 0.0)
        acoustics = replace(acoustics, scale=_scale(acoustics, weigh, options))
        return acoustics, examples(acoustics, weigh)
    both = [*classify, *weigh]
    rng = np.random.default_rng(options.seed + 1)
    parts = folds(groups, options.cross_fit, rng)
    found: list[SegmentExample] = []
    scale = base.scale
    for number, part in enumerate(parts):
        left_out, seen = [both[i] for i in part], [u for i, u in enumerate(both) if i not in set(part)]
        own = fitted(seen, left_out, options.seed)
        if number == 0:
            scale = _scale(own, left_out, options)
        found += examples(replace(own, scale=scale), left_out)
        tell("classifiers", (number + 1.0) / (options.cross_fit + 1.0))
    return replace(fitted(both, [], options.seed), scale=scale), found


def _example(acoustics: AcousticModel, utterance: TrainingUtterance) -> SegmentExample:
    features, gold = acoustics.example(utterance)
    return SegmentExample(features, gold, utterance.starts, utterance.id)


def _with_wrong_transcripts(
    acoustics: AcousticModel, utterances: Sequence[TrainingUtterance], options: FitOptions
) -> list[SegmentFeatures]:
    """The utterances with their phones in random order; those that have no room for it are left out."""
    rng = np.random.default_rng(options.seed + 2)

    def shuffled(utterance: TrainingUtterance) -> tuple[str, ...]:
        labels = list(utterance.labels)
        spoken = [i for i, label in enumerate(labels) if not is_silence(label)]
        for i, j in zip(spoken, rng.permutation(spoken).tolist(), strict=True):
            labels[i] = utterance.labels[j]
        return tuple(labels)

    transcripts = [(u, shuffled(u)) for u in utterances]
    found = _mapped(
        lambda one: acoustics.features(one[0].frames, phone_lattice(one[1]), where=one[0].id),
        transcripts,
        options.n_jobs,
    )
    return [f for f in found if f.graph.min_length.sum() <= f.n_frames <= f.graph.max_length.sum()]


def _scale(
    acoustics: AcousticModel, utterances: Sequence[TrainingUtterance], options: FitOptions
) -> FloatArray:
    some = _mapped(acoustics.example, utterances[:SCALE_UTTERANCES], options.n_jobs)
    jitter = max(1, round(JITTER_MS / (1000.0 * acoustics.step)))
    return scale_of([f for f, _ in some], [gold for _, gold in some], jitter, options.seed)


def _on_pass(tell: Progress, passes: int) -> Callable[[int, Mapping[str, float], Any], None]:
    return lambda iteration, measured, weights: tell("weights", min(1.0, iteration / passes))


def _mapped(
    function: Callable[[Item], Result],
    items: Sequence[Item],
    n_jobs: int,
    tell: Progress | None = None,
    stage: str = "",
) -> list[Result]:
    """``[function(item), ...]`` on threads, with BLAS on one thread each, in order."""
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(n_threads(n_jobs)) as pool:
        results = []
        for number, result in enumerate(pool.map(function, items)):
            results.append(result)
            if tell is not None:
                tell(stage, (number + 1.0) / len(items))
        return results
