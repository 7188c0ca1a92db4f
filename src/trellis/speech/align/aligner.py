"""A forced aligner that learns from hand-corrected boundaries.

    aligner = Aligner(objective="direct", loss="tau_alignment", tau_ms=10).fit(Corpus.textgrids("corrected/"))
    aligner.align("new.wav", phones=["sil", "h", "ax", "l", "ow", "sil"]).to_textgrid("new.TextGrid")

Training follows McAllester, Hazan and Keshet (2010), section 6. The corpus is split into three disjoint
parts. On the first, a network that hears classes, articulation and boundaries is trained; on the second, the
weights of a handful of features (:mod:`trellis.speech.acoustics.alignment_features`), for the chosen
objective and loss (``weight_training``); the third decides when to stop. With ``cross_fit`` = n the first two
parts are one: the weights are trained on features from classifiers of n folds, each on the utterances that
its classifiers have not seen, and the classifiers of the result are trained on all of them.

Alignment is exact: the best of all segmentations (``segment_oracle``), for recordings of up to
``LONG_SECONDS`` seconds. Longer ones are aligned in chunks (``search.long_recordings``).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.backends.backend import Told
from trellis.core.backends.item_map import answers_in_order
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.estimator import Model, check_fitted
from trellis.core.parameters import fitted, parameter
from trellis.core.stage_times import StageTimes
from trellis.core.status import Status
from trellis.core.storage import PathLike
from trellis.objectives.records import Objective, get_objective
from trellis.objectives.special_cases import Direct
from trellis.speech.acoustics.alignment_features import feature_names
from trellis.speech.acoustics.boundary_classifier import BoundaryOptions
from trellis.speech.acoustics.classifier_names import AnyClassifierOptions, get_classifier
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align import aligner_parameters as declared
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.doubt.calibration import calibrate_doubt, calibrate_scores
from trellis.speech.align.learning.corpus_preparation import PreparedCorpus, Progress, prepare_corpus
from trellis.speech.align.learning.refinement_choice import choose_refinement
from trellis.speech.align.learning.weight_training import choose_solver, train_weights
from trellis.speech.align.utterance_alignment import Request, align_utterance
from trellis.speech.audio.cepstra import FrameOptions, mfcc
from trellis.speech.audio.front_end import FramedRecording, frame_recording
from trellis.speech.audio.recordings import Recording, load_recording, sound_flags
from trellis.speech.corpus.corpus_contents import corpus_contents
from trellis.speech.corpus.corpus_split import Split
from trellis.speech.corpus.dictionary import Dictionary
from trellis.speech.corpus.phone_lattice import Lattice, phone_lattice, word_lattice
from trellis.speech.corpus.unknown_words import UnknownWords, keep_known, unknown_flags
from trellis.speech.formats.alignment import Alignment
from trellis.speech.phones.alphabets import check_alphabet, guess_alphabet
from trellis.speech.phones.phone_set import Fold
from trellis.structures.segments.problem.alignment_losses import AlignmentLoss, get_alignment_loss
from trellis.training.checkpoints import Checkpoints, keep_checkpoints
from trellis.training.declarations import CHECKPOINT, N_JOBS

if TYPE_CHECKING:
    from trellis.speech.corpus.utterance import Utterance
    from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation

Silence = Literal["auto", "none"]


class Aligner(Model):
    """``fit`` on utterances with reference alignments, then ``align`` recordings to phones or words.

    Examples
    --------
    >>> from trellis.speech import builtin_aligner, synthetic_corpus
    >>> utterance = synthetic_corpus()[0]
    >>> aligner = builtin_aligner()
    >>> alignment = aligner.align(utterance.audio, utterance.phones)
    >>> alignment.labels == utterance.phones
    True
    """

    objective: str | Objective = parameter(default=declared.OBJECTIVE, kw_only=False)
    loss: str | AlignmentLoss = parameter(default=declared.LOSS, kw_only=False)
    tau_ms: float = parameter(default=declared.TAU_MS, kw_only=False)
    classifier: str | AnyClassifierOptions = parameter(default=declared.CLASSIFIER)
    boundaries: BoundaryOptions | None = parameter(default=declared.BOUNDARIES)
    features: str | Sequence[str] = parameter(default=declared.FEATURES)
    fold: Fold = parameter(default=declared.FOLD)
    alphabet: str = parameter(default=declared.ALPHABET)
    unknown_phones: str = parameter(default=declared.UNKNOWN_PHONES)
    step_ms: float = parameter(default=declared.STEP_MS)
    frames: FrameOptions | None = parameter(default=declared.FRAMES)
    shortest_ms: float = parameter(default=declared.SHORTEST_MS)
    solver: str = parameter(default=declared.SOLVER)
    epsilon: float | str = parameter(default=declared.EPSILON)
    max_iter: int = parameter(default=declared.MAX_ITER)
    l2: float = parameter(default=declared.L2)
    average: bool = parameter(default=declared.AVERAGE)
    start: str = parameter(default=declared.START)
    split: Split = parameter(default=declared.SPLIT)
    cross_fit: int = parameter(default=declared.CROSS_FIT)
    refine: str | bool = parameter(default=declared.REFINE)
    decoding: str = parameter(default=declared.DECODING)
    tolerances_ms: Sequence[float] = parameter(default=declared.TOLERANCES_MS)
    n_jobs: int | None = parameter(default=N_JOBS)
    random_state: int = parameter(default=declared.RANDOM_STATE)
    checkpoint: Any = parameter(default=CHECKPOINT)

    model_: AlignmentModel = fitted("Acoustic model, weights and calibration.")
    status_: Status = fitted("Why training stopped, in a sentence.")
    history_: dict[str, list[float]] = fitted("What was measured after each pass, such as ``holdout_loss``.")
    epsilon_: float | None = fitted(
        'The epsilon of the direct objective; under "auto" that which was measured.'
    )
    epsilon_losses_: dict[float, float] | None = fitted("The hold-out loss of each epsilon, if searched.")

    def fit(self, corpus: Iterable[Utterance] | PreparedCorpus, progress: Progress | None = None) -> Aligner:
        """Train on the utterances of a corpus that have a reference; ``progress(stage, share)`` is called
        along the way. With a ``checkpoint``, Ctrl-C leaves what was learned there, and no model."""
        stages = StageTimes()
        report = progress or (lambda stage, share: None)
        self._check()
        if isinstance(corpus, PreparedCorpus):
            return self._fit(corpus, report, Checkpoints(None), stages)
        utterances = list(corpus)
        checkpoints = self._checkpoints(utterances, "Aligner")
        with checkpoints.kept_when_stopped():
            prepared = prepare_corpus(self, utterances, report, checkpoints, stages)
            return self._fit(prepared, report, checkpoints, stages)

    def _fit(
        self, prepared: PreparedCorpus, report: Progress, checkpoints: Checkpoints, stages: StageTimes
    ) -> Aligner:
        report("weights", 0.0)
        acoustics = prepared.acoustics
        training = train_weights(
            self,
            prepared.train,
            prepared.holdout,
            get_alignment_loss(self.loss, self.tau_ms / (1000.0 * acoustics.step)),
            lambda iteration, measured, weights: report("weights", min(1.0, iteration / self.max_iter)),
            checkpoints,
        )
        solution = training.solution
        self.status_, self.history_ = solution.status, solution.history
        self.epsilon_, self.epsilon_losses_ = training.epsilon, training.epsilon_losses
        stages.done("training")
        report("confidence", 0.0)
        model = AlignmentModel(acoustics, solution.weights, prepared.topology)
        self.model_ = replace(model, **checkpoints.once(lambda: self._calibrated(model, prepared)))
        stages.done("calibrating")
        self.fit_seconds_ = stages.seconds
        report("done", 1.0)
        return self._finished(solution.interrupted)

    def _calibrated(self, model: AlignmentModel, prepared: PreparedCorpus) -> dict[str, Any]:
        """What follows from the weights, by the names of the model's fields."""
        model = calibrate_scores(model, prepared)
        model = choose_refinement(model, prepared.holdout, self._tolerances())
        model = calibrate_doubt(model, prepared.unheard, self._tolerances(), self._refines(model))
        given = ("acoustics", "weights", "topology")
        return {f.name: getattr(model, f.name) for f in fields(model) if f.name not in given}

    def prepare(self, corpus: Iterable[Utterance], progress: Progress | None = None) -> PreparedCorpus:
        """Train the classifiers only. ``fit`` takes the result in place of a corpus, so that several
        objectives can be compared on the same classifiers. With a ``checkpoint`` their training is stored;
        that of the weights on the result, which is short, is not."""
        self._check()
        utterances = list(corpus)
        checkpoints = self._checkpoints(utterances, "Aligner.prepare")
        with checkpoints.kept_when_stopped():
            report = progress or (lambda stage, share: None)
            return prepare_corpus(self, utterances, report, checkpoints, StageTimes())

    def _checkpoints(self, utterances: Sequence[Utterance], kind: str) -> Checkpoints:
        if self.checkpoint is None:
            return Checkpoints(None)
        began = time.perf_counter()
        known = corpus_contents(u for u in utterances if u.reference is not None)
        return keep_checkpoints(self.checkpoint, kind, self.get_params(deep=False), known, began=began)

    def adapt(
        self,
        corpus: Iterable[Utterance],
        progress: Progress | None = None,
        *,
        checkpoint: PathLike | None = None,
    ) -> Aligner:
        """A new aligner that has learned from corrected utterances, one or more; this one stays as it is.

        Utterances that are left out decide how far it moves (``learning.adaptation``); its ``status_`` says
        how far, and why. ``progress(stage, share)`` is called along the way. ``checkpoint``: a folder of its
        own, from which the same call goes on if anything stops it.
        """
        from trellis.speech.align.learning.adaptation import adapt

        check_fitted(self)
        given = list(corpus)
        labels = [label for u in given if u.reference is not None for label in u.reference.labels]
        base = copy(self)
        base.model_ = self.model_.reading(self._alphabet(labels, None, "auto"))
        return adapt(base, given, progress, checkpoint)

    @property
    def weights_(self) -> FloatArray:
        return self.model_.weights

    @property
    def feature_names_(self) -> tuple[str, ...]:
        return self.model_.acoustics.names

    def align(
        self,
        audio: PathLike | Recording | FramedRecording,
        phones: Sequence[str] | None = None,
        *,
        words: Sequence[str] | None = None,
        dictionary: Dictionary | Mapping[str, Sequence[Sequence[str]]] | None = None,
        silence: Silence = "auto",
        unknown: UnknownWords = "noise",
        alphabet: str = "auto",
        channel: int | None = None,
        confidence: bool = True,
        margins: bool = False,
    ) -> Alignment:
        """Start and end of each phone (and word) in a recording.

        Give ``phones``, or ``words`` and a ``dictionary``: the best of their pronunciations is chosen.
        ``silence="auto"`` allows silence at the ends where the transcript has none, and between words; "none"
        takes the transcript as it is. A word that is not in the dictionary is aligned as noise and flagged
        (``unknown``: "noise", "skip" or "error"). ``alphabet`` is that of the phones or of the dictionary,
        guessed by all of them if "auto"; a model folded by articulation reads them all, and results keep
        the labels as they are given. ``confidence=False`` saves time where ``decoding="best_path"``.
        ``margins=True`` also computes how much worse than the best path, in nats, the best one with each of
        its boundaries elsewhere is.
        """
        check_fitted(self)
        if dictionary is not None and not isinstance(dictionary, Dictionary):
            dictionary = Dictionary(dictionary)
        lattice = self._lattice(phones, words, dictionary, silence, unknown)
        source = "" if isinstance(audio, Recording | FramedRecording) else str(audio)
        model = self.model_.reading(self._alphabet(lattice.labels, dictionary, alphabet))
        request = self._request(source, confidence, margins)
        aligned = align_utterance(model, self.framed(audio, channel), lattice, request)
        if words is None or dictionary is None:
            return aligned
        flags = unknown_flags(words, aligned.words, dictionary, unknown)
        return replace(aligned, flags=(*aligned.flags, *flags)) if flags else aligned

    def align_corpus(
        self,
        corpus: Iterable[Utterance],
        *,
        confidence: bool = False,
        backend: Any = None,
        progress: Told | None = None,
    ) -> dict[str, Alignment]:
        """Every utterance aligned to exactly the phones of its reference, by its id.

        ``backend``: where (:func:`trellis.core.backends.as_backend`): a Dask client, "processes:4", ...; the
        aligner travels there once, and recordings are read there. ``progress(done, all)`` is called as
        alignments arrive. They are the same, to the last bit, on any number of workers.
        """
        check_fitted(self)
        given = list(corpus)
        make = partial(partial, self.align_reference, confidence=confidence)
        found = answers_in_order(make, given, backend=backend, told=progress)
        return {u.id: alignment for u, alignment in zip(given, found, strict=True)}

    def evaluate(
        self, corpus: Iterable[Utterance], *, backend: Any = None, progress: Told | None = None
    ) -> AlignmentEvaluation:
        """Align every utterance to the phones of its reference, and measure how far boundaries lie from it;
        ``backend`` and ``progress`` are those of :meth:`align_corpus`."""
        from trellis.speech.evaluate.boundary_evaluation import evaluate_alignments

        chosen = [u for u in corpus if u.reference is not None]
        if not chosen:
            raise DataError("the corpus has no utterance with a reference to compare with")
        references = {u.id: u.reference for u in chosen if u.reference is not None}
        found = self.align_corpus(chosen, backend=backend, progress=progress)
        return evaluate_alignments(references, found)

    def align_reference(self, utterance: Utterance, confidence: bool = False) -> Alignment:
        """Align an utterance to exactly the phones of its reference, silences included."""
        if utterance.reference is None:
            raise DataError(f"{utterance.id}: the utterance has no reference to take phones from")
        labels = utterance.reference.labels
        return self.align(
            utterance.audio, labels, silence="none", channel=utterance.channel, confidence=confidence
        )

    def frame_options(self) -> FrameOptions:
        """``frames`` if given, or those that suit the classifier; with ``step_ms``."""
        if self.frames is not None and self.frames.step_ms != self.step_ms:
            raise DataError(
                f"frames has step_ms={self.frames.step_ms:g} and the aligner step_ms={self.step_ms:g}; give "
                "the same to both"
            )
        suited = self.frames or get_classifier(self.classifier).frames()
        return replace(suited, step_ms=self.step_ms)

    def objective_record(self) -> Objective:
        """``objective`` with ``epsilon``, unless it came as a record: central differences where epsilon is
        "auto", those toward better alignments, as in the paper, where it is not."""
        if self.objective == "direct":
            sign: Literal["central", "better"] = "central" if self.epsilon == "auto" else "better"
            return Direct(epsilon=self.epsilon, sign=sign)  # type: ignore[arg-type]
        return get_objective(self.objective)

    def _check(self) -> None:
        """Raise an error for parameters that cannot be used, before any work is done."""
        self._check_parameters()
        if self.cross_fit == 1:
            raise DataError("cross_fit is 1; give 0 for none, or at least 2 folds")
        objective = self.objective_record()
        choose_solver(objective, self.solver)
        if objective.fine_tuned and self.start == "zero":
            raise UnsupportedError(
                "epsilon='auto' is measured by the scores of trained weights, and start='zero' has none; "
                "give epsilon a number, or leave start='log'"
            )
        convolutional = isinstance(get_classifier(self.classifier), ConvolutionalOptions)
        feature_names(self.features, convolutional)
        if convolutional and self.boundaries is not None:
            raise UnsupportedError(
                "boundaries has the options of a boundary classifier, and the convolutional network scores "
                "boundaries itself; leave boundaries out, or give classifier='mlp'"
            )
        self.frame_options()
        self._tolerances()

    def _request(self, source: str, confidence: bool, margins: bool = False) -> Request:
        """What to compute for a recording, by the parameters and what was learned of them."""
        return Request(source, self._refines(self.model_), confidence, margins, self._tolerances())

    def _refines(self, model: AlignmentModel) -> bool:
        """Whether boundaries are placed between frames."""
        ways = {"auto": model.refine, "always": True, "never": False}
        return bool(ways.get(str(self.refine), self.refine))

    def _tolerances(self) -> tuple[float, ...]:
        """Seconds, for the decoding; none for the best path."""
        given = tuple(np.atleast_1d(self.tolerances_ms).tolist())
        if not given or not all(declared.TOLERANCE.accepts(ms) for ms in given):
            raise DataError(
                f"tolerances_ms is {self.tolerances_ms!r}; give numbers above 0, such as (10, 20)"
            )
        return tuple(ms / 1000.0 for ms in given) if self.decoding == "tolerance" else ()

    def _lattice(
        self,
        phones: Sequence[str] | None,
        words: Sequence[str] | None,
        dictionary: Any,
        silence: str,
        unknown: UnknownWords = "noise",
    ) -> Lattice:
        if silence not in ("auto", "none"):
            raise DataError(f"silence={silence!r}; give 'auto' or 'none'")
        if (phones is None) == (words is None):
            raise DataError("give either phones or words to align to")
        optional = silence == "auto" and self.model_.acoustics.phones.has_silence
        if phones is not None:
            if isinstance(phones, str):
                raise DataError("phones must be a list of labels, not one string; split it first")
            return phone_lattice(_labels(phones, "phones"), optional)
        if dictionary is None:
            raise DataError("aligning words needs a pronunciation dictionary; give dictionary=...")
        if isinstance(words, str):
            raise DataError("words must be a list of words, not one string; split the text first")
        kept = keep_known(_labels(words or (), "words"), dictionary, unknown)
        return word_lattice(kept, dictionary, optional, unknown)

    def _alphabet(self, labels: Sequence[str], dictionary: Dictionary | None, alphabet: str) -> str:
        """The alphabet of a transcript: given, or guessed by its phones or by all of the dictionary."""
        if alphabet != "auto":
            return check_alphabet(alphabet)
        inventory = labels if dictionary is None else (*labels, *dictionary.phones)
        return guess_alphabet(inventory, self.model_.acoustics.phones.alphabet)

    def framed(
        self,
        audio: PathLike | Recording | FramedRecording,
        channel: int | None = None,
        start: float = 0.0,
        end: float | None = None,
    ) -> FramedRecording:
        """The frames of a recording (of a file also from ``start`` to ``end``), as ``align`` makes and takes
        them."""
        if isinstance(audio, FramedRecording):
            return audio
        options = self.model_.acoustics.options
        if not isinstance(audio, Recording):
            if start == 0.0 and end is None:
                return frame_recording(audio, options, channel)
            audio = load_recording(audio, options.rate, channel, start, end)
        flags = dict.fromkeys((*audio.flags, *sound_flags(audio.samples)))
        return FramedRecording(mfcc(audio.samples, audio.rate, options), audio.duration, tuple(flags))


def _labels(given: Iterable[str], what: str) -> tuple[str, ...]:
    labels = tuple(given)
    for place, label in enumerate(labels):
        if not isinstance(label, str):
            raise DataError(f"{what}[{place}] is {label!r}; give text, such as '{label}'")
    return tuple(map(str, labels))  # plain strings, not NumPy's
