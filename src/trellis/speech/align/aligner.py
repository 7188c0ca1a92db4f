"""A forced aligner that learns from hand-corrected boundaries.

    aligner = Aligner(objective="direct", loss="tau_alignment", tau_ms=10).fit(Corpus.textgrids("corrected/"))
    aligner.align("new.wav", phones=["sil", "h", "ax", "l", "ow", "sil"]).to_textgrid("new.TextGrid")

Training follows McAllester, Hazan and Keshet (2010), section 6. The corpus is split into three disjoint
parts. On the first, a classifier of frames and one of boundaries are trained; on the second, the weights of
a handful of features (:mod:`trellis.speech.acoustics.alignment_features`), for the loss that is asked for
(``weight_training``); the third says when to stop. With ``cross_fit`` = n the first two parts are
one: classifiers of n folds give the features on which the weights are learnt, each on the utterances that it
has not seen, and the classifiers of the result are trained on all of them.

Alignment is exact: the best of all segmentations (``segment_oracle``), up to recordings of
``LONG`` seconds. Longer ones are cut at anchors first (:mod:`trellis.speech.align.long_recordings`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sklearn.base import BaseEstimator

from trellis.core.arguments import check_int, check_nonnegative
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, TrellisError
from trellis.core.shards import n_threads
from trellis.core.status import Status
from trellis.core.storage import PathLike
from trellis.objectives.records import Direct, Objective, get_objective
from trellis.speech.acoustics.alignment_features import feature_names
from trellis.speech.acoustics.boundary_classifier import BoundaryOptions
from trellis.speech.acoustics.frame_classifiers import ClassifierOptions, get_classifier
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.calibration import calibrate
from trellis.speech.align.corpus_preparation import PreparedCorpus, Progress, prepare_corpus
from trellis.speech.align.utterance_alignment import Request, align_utterance
from trellis.speech.align.weight_training import choose_solver, train_weights
from trellis.speech.audio.cepstra import FrameOptions, mfcc
from trellis.speech.audio.front_end import FramedRecording, framed_recording
from trellis.speech.audio.recordings import Recording, sound_flags
from trellis.speech.corpus.corpus_split import Split
from trellis.speech.corpus.phone_lattice import Lattice, phone_lattice, word_lattice
from trellis.speech.formats.alignment import Alignment
from trellis.speech.phones.phone_set import Fold
from trellis.structures.segments.problem.alignment_losses import AlignmentLoss, get_alignment_loss

if TYPE_CHECKING:
    from trellis.speech.corpus.dictionary import Dictionary
    from trellis.speech.corpus.utterance import Utterance
    from trellis.speech.evaluate.boundary_evaluation import AlignmentEvaluation

Silence = Literal["auto", "none"]


class Aligner(BaseEstimator):  # type: ignore[misc]
    """``fit`` on utterances with reference alignments, then ``align`` recordings to phones or words.

    * ``objective``: "direct", "margin", "log", "perceptron", ...; ``loss``: "tau_alignment" (the share of
      boundaries off by more than ``tau_ms``) or "tau_insensitive" (the mean excess over it).
    * ``classifier``: "mlp", "linear", "passive_aggressive", "torch", or a record of options; ``boundaries``:
      options of the boundary classifier.
    * ``features``: "standard", "paper" (the seven), "all", or names (``alignment_features``).
    * ``fold``: classes of phones by name (:mod:`trellis.speech.phones.phone_labels`), or a dict.
    * ``step_ms``, ``frames``: other frames than those that suit the classifier.
    * ``shortest_ms``: of a phone. ``refine``: times between frames.
    * ``solver``, ``epsilon`` (of the direct objective: a number, "holdout" or "decay"), ``passes`` (at most
      so many over the utterances), ``l2``, ``average``, ``start`` ("log" or "zero"): how weights are learnt
      (:mod:`trellis.speech.align.weight_training`).
    * ``split``: fractions or lists of ids for classifiers, weights and hold-out; ``cross_fit``: see above.

    After ``fit``: ``weights_`` and ``feature_names_``, ``status_``, ``history_`` (hold-out loss after each
    pass), ``epsilon_``, ``epsilon_losses_``, ``model_``.
    """

    def __init__(
        self,
        objective: str | Objective = "direct",
        loss: str | AlignmentLoss = "tau_alignment",
        tau_ms: float = 10.0,
        *,
        classifier: str | ClassifierOptions = "mlp",
        boundaries: BoundaryOptions | None = None,
        features: str | Sequence[str] = "standard",
        fold: Fold = "none",
        step_ms: float = 10.0,
        frames: FrameOptions | None = None,
        shortest_ms: float = 10.0,
        solver: str = "auto",
        epsilon: float | str = "holdout",
        passes: int = 10,
        l2: float = 1e-3,
        average: bool = True,
        start: str = "log",
        split: Split = (0.7, 0.2, 0.1),
        cross_fit: int = 0,
        refine: bool = True,
        n_jobs: int = 1,
        random_state: int = 0,
    ) -> None:
        self.objective = objective
        self.loss = loss
        self.tau_ms = tau_ms
        self.classifier = classifier
        self.boundaries = boundaries
        self.features = features
        self.fold = fold
        self.step_ms = step_ms
        self.frames = frames
        self.shortest_ms = shortest_ms
        self.solver = solver
        self.epsilon = epsilon
        self.passes = passes
        self.l2 = l2
        self.average = average
        self.start = start
        self.split = split
        self.cross_fit = cross_fit
        self.refine = refine
        self.n_jobs = n_jobs
        self.random_state = random_state

    model_: AlignmentModel
    status_: Status
    history_: dict[str, list[float]]
    epsilon_: float | None
    epsilon_losses_: dict[float, float] | None
    extra_: dict[str, Any]

    def fit(self, corpus: Iterable[Utterance] | PreparedCorpus, progress: Progress | None = None) -> Aligner:
        """Train on the utterances of a corpus that have a reference; ``progress(stage, share)`` is called
        along the way."""
        tell = progress or (lambda stage, share: None)
        prepared = corpus if isinstance(corpus, PreparedCorpus) else self.prepare(corpus, tell)
        self._check()
        tell("weights", 0.0)
        acoustics = prepared.acoustics
        solution, self.epsilon_, self.epsilon_losses_ = train_weights(
            self,
            prepared.train,
            prepared.holdout,
            get_alignment_loss(self.loss, self.tau_ms / (1000.0 * acoustics.step)),
            lambda iteration, measured, weights: tell("weights", min(1.0, iteration / self.passes)),
        )
        self.status_, self.history_ = solution.status, solution.history
        tell("confidence", 0.0)
        self.model_ = calibrate(AlignmentModel(acoustics, solution.weights, prepared.topology), prepared)
        tell("done", 1.0)
        return self

    def prepare(self, corpus: Iterable[Utterance], progress: Progress | None = None) -> PreparedCorpus:
        """Train the classifiers only. ``fit`` takes the result in place of a corpus, so that several
        objectives can be compared on the same classifiers."""
        self._check()
        return prepare_corpus(self, corpus, progress or (lambda stage, share: None))

    @property
    def weights_(self) -> FloatArray:
        return self._fitted().weights

    @property
    def feature_names_(self) -> tuple[str, ...]:
        return self._fitted().acoustics.names

    def align(
        self,
        audio: PathLike | Recording,
        phones: Sequence[str] | None = None,
        *,
        words: Sequence[str] | None = None,
        dictionary: Dictionary | Mapping[str, Sequence[Sequence[str]]] | None = None,
        silence: Silence = "auto",
        channel: int | None = None,
        confidence: bool = True,
        margins: bool = False,
    ) -> Alignment:
        """Start and end of each phone (and word) in a recording.

        Give ``phones``, or ``words`` and a ``dictionary``: the best of their pronunciations is chosen.
        ``silence="auto"`` allows silence at the ends where the transcript has none, and between words; "none"
        takes the transcript as it is. ``confidence=False`` saves about half of the time. ``margins=True``
        also computes how much worse, in nats, the best path with each boundary elsewhere is.
        """
        model = self._fitted()
        lattice = self._lattice(phones, words, dictionary, silence)
        source = "" if isinstance(audio, Recording) else str(audio)
        request = Request(source, self.refine, confidence, margins)
        return align_utterance(model, self._frames(audio, channel), lattice, request)

    def evaluate(self, corpus: Iterable[Utterance]) -> AlignmentEvaluation:
        """Align every utterance to the phones of its reference, and measure how far boundaries lie from
        it."""
        from trellis.speech.evaluate.boundary_evaluation import evaluate_alignments

        chosen = [u for u in corpus if u.reference is not None]
        if not chosen:
            raise DataError("the corpus has no utterance with a reference to compare with")
        references = {u.id: u.reference for u in chosen if u.reference is not None}
        return evaluate_alignments(references, {u.id: self.align_reference(u) for u in chosen})

    def align_reference(self, utterance: Utterance, confidence: bool = False) -> Alignment:
        """Align an utterance to exactly the phones of its reference, silences included."""
        if utterance.reference is None:
            raise DataError(f"{utterance.id}: the utterance has no reference to take phones from")
        labels = utterance.reference.labels
        return self.align(
            utterance.audio, labels, silence="none", channel=utterance.channel, confidence=confidence
        )

    def save(self, path: PathLike, extra: dict[str, Any] | None = None) -> None:
        """Write the model to one file; :func:`trellis.load` reads it back."""
        from trellis.core.persistence import save

        self._fitted()
        save(self, path, extra)

    def to_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        from trellis.speech.align.aligner_state import aligner_to_state

        return aligner_to_state(self)

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: dict[str, Any]) -> Aligner:
        from trellis.speech.align.aligner_state import aligner_from_state

        return aligner_from_state(meta, arrays)

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
        """``objective`` with ``epsilon``, unless it came as a record."""
        if self.objective == "direct":
            return Direct(epsilon=self.epsilon)  # type: ignore[arg-type]
        return get_objective(self.objective)

    def _check(self) -> None:
        """Raise an error for parameters that cannot be used, before any work is done."""
        choose_solver(self.objective_record(), self.solver)
        get_classifier(self.classifier)
        feature_names(self.features)
        self.frame_options()
        if self.start not in ("log", "zero"):
            raise DataError(f"start={self.start!r}; give 'log' or 'zero'")
        if self.cross_fit == 1:
            raise DataError("cross_fit=1: give 0 for none, or at least 2 folds")
        if not check_nonnegative("shortest_ms", self.shortest_ms) > 0:
            raise DataError(f"shortest_ms is {self.shortest_ms!r}; give a positive number")
        get_alignment_loss(self.loss, check_nonnegative("tau_ms", self.tau_ms))
        check_nonnegative("l2", self.l2)
        for name, minimum in (("passes", 1), ("cross_fit", 0), ("random_state", 0)):
            check_int(name, getattr(self, name), minimum)
        n_threads(self.n_jobs)

    def _fitted(self) -> AlignmentModel:
        if not hasattr(self, "model_"):
            raise TrellisError("this aligner is not fitted yet; call fit or load a model")
        return self.model_

    def _lattice(
        self,
        phones: Sequence[str] | None,
        words: Sequence[str] | None,
        dictionary: Any,
        silence: str,
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
            raise DataError("aligning words needs a pronunciation dictionary; give dictionary=")
        if isinstance(words, str):
            raise DataError("words must be a list of words, not one string; split the text first")
        return word_lattice(_labels(words or (), "words"), dictionary, optional)

    def _frames(self, audio: PathLike | Recording, channel: int | None) -> FramedRecording:
        options = self.model_.acoustics.options
        if not isinstance(audio, Recording):
            return framed_recording(audio, options, channel)
        flags = dict.fromkeys((*audio.flags, *sound_flags(audio.samples)))
        return FramedRecording(mfcc(audio.samples, audio.rate, options), audio.duration, tuple(flags))


def _labels(given: Iterable[str], what: str) -> tuple[str, ...]:
    labels = tuple(given)
    for place, label in enumerate(labels):
        if not isinstance(label, str):
            raise DataError(f"{what}[{place}] is {label!r}; give text, such as '{label}'")
    return tuple(map(str, labels))  # plain ones: those of NumPy are shown in another way
