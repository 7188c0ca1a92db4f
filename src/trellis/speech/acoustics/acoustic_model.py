"""The acoustic model: frames, phones, classifiers and durations, as one map from an utterance to its
features.

The classifiers are one convolutional network for everything, or a frame classifier and a boundary classifier.
What they hear in a stretch of a recording (:meth:`AcousticModel.evidence`) is computed with as many frames on
either side as they look at, so that it is the same in pieces as in one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import Float32Array, FloatArray, IntArray
from trellis.core.errors import DataError
from trellis.core.registration import register
from trellis.speech.acoustics.alignment_features import (
    CHANGES,
    Evidence,
    segment_features,
    spectral_change,
)
from trellis.speech.acoustics.boundary_classifier import BoundaryClassifier
from trellis.speech.acoustics.convolutional.listening_heads import ListeningHeads
from trellis.speech.acoustics.convolutional.network_mixture import AnyNetwork
from trellis.speech.acoustics.frame_classifiers import FrameClassifier
from trellis.speech.acoustics.frame_evidence import FrameEvidence
from trellis.speech.acoustics.noise_scores import noise_articulation, with_noise
from trellis.speech.acoustics.phone_durations import DurationModel
from trellis.speech.audio.cepstra import FrameOptions
from trellis.speech.corpus.phone_lattice import Lattice, phone_lattice
from trellis.speech.phones.phone_set import EncodedPhones, PhoneSet
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentFeatures

if TYPE_CHECKING:
    from trellis.speech.acoustics.acoustic_training import TrainingUtterance

PIECE = 8192  # frames classified at a time


@dataclass(frozen=True)
class Limits:
    """Changes to the maximum length of segments: a factor for all, and a bound in frames for silences."""

    stretch: float = 1.0
    longest_silence: int | None = None


UNLIMITED = Limits()


@register
@dataclass(frozen=True, eq=False)
class AcousticModel:
    """``mean``, ``deviation``: (D,), of frames. ``scale``: (J,), of ``names`` (see
    :mod:`trellis.speech.acoustics.alignment_features`). ``listening``: what tells what is spoken, if
    the heads of ``network`` no longer do."""

    options: FrameOptions
    phones: PhoneSet
    mean: Float32Array
    deviation: Float32Array
    classifier: FrameClassifier | None
    boundaries: BoundaryClassifier | None
    durations: DurationModel
    names: tuple[str, ...]
    scale: FloatArray
    shortest: float
    network: AnyNetwork | None = None
    listening: ListeningHeads | None = None

    def __post_init__(self) -> None:
        width, n_classes = self.options.dimension, len(self.phones.classes)
        sizes = [self.mean.shape, self.deviation.shape, self.scale.shape, self.durations.mean.shape]
        if sizes != [(width,), (width,), (len(self.names),), (self.phones.n_kinds,)]:
            raise DataError("the parts of the acoustic model do not fit each other")
        if not ((self.deviation > 0).all() and (self.scale > 0).all() and np.isfinite(self.mean).all()):
            raise DataError("the scales of the acoustic model are not positive")
        if self.classifier is not None:
            context = self.classifier.context
            if context < 0 or self.classifier.shape != ((2 * context + 1) * width, n_classes):
                raise DataError("the frame classifier does not fit the frames and the phones of the model")
        if self.boundaries is not None:
            self.boundaries.check(width, self.phones.n_descriptors)
        if self.network is not None:
            n_descriptors = self.phones.n_descriptors
            self.network.check(width, n_classes, n_descriptors - n_classes, n_descriptors)
            if self.listening is not None:
                self.listening.check(self.network.units, n_classes, n_descriptors - n_classes)
        elif self.listening is not None:
            raise DataError("the acoustic model has listening heads and no network for them")

    @property
    def complete(self) -> bool:
        """Whether the classifiers that the features need are there."""
        if self.network is not None:
            return True
        needed = {"classifier": self.classifier, "articulation": None, "boundary": self.boundaries}
        return all(part is not None for name, part in needed.items() if name in self.names)

    @property
    def hears_classes(self) -> bool:
        """Whether it has confidences of phone classes, frame by frame."""
        return "classifier" in self.names

    @property
    def step(self) -> float:
        return self.options.step_seconds

    def standardise(self, features: NDArray[np.floating[Any]]) -> Float32Array:
        return ((features - self.mean) / self.deviation).astype(np.float32)

    def confidences(self, frames: Float32Array) -> Float32Array:
        """(T, C), computed in pieces, so that the windows of a long recording need little memory."""
        pieces = []
        for first in range(0, len(frames), PIECE):
            confidences = self.evidence(frames, first, first + PIECE).confidences
            if confidences is None:
                raise DataError("this model has no frame classifier; train with the feature 'classifier'")
            pieces.append(confidences)
        return np.concatenate(pieces)

    @property
    def log_prior(self) -> Float32Array | None:
        """What confidences have been divided by, in logarithms, (C,): with it they are probabilities. None of
        a classifier that has no probabilities."""
        heard = self.listening or self.network or self.classifier
        prior: Float32Array | None = getattr(heard, "prior", None)
        return prior

    def evidence(self, frames: Float32Array, begin: int = 0, end: int | None = None) -> FrameEvidence:
        """What the classifiers hear from frame ``begin`` to ``end``."""
        end = len(frames) if end is None else min(end, len(frames))
        reach = self._reach
        first = max(0, begin - reach)
        seen, own = frames[first : end + reach], slice(begin - first, end - first)
        if self.network is not None:
            hidden = self.network.hidden(seen)[own]
            fits = with_noise(self.network.class_scores(hidden), self.phones.noise_code)
            articulation = self.network.articulation(hidden) if "articulation" in self.names else None
            if self.listening is None:
                return FrameEvidence(fits, articulation, fits, articulation, hidden)
            scores, log_odds = self.listening.hear(hidden)
            heard = with_noise(scores, self.phones.noise_code)
            return FrameEvidence(
                heard, None if articulation is None else log_odds, fits, articulation, hidden
            )
        if self.classifier is not None:
            scores = with_noise(self.classifier.confidences(seen)[own], self.phones.noise_code)
            return FrameEvidence(scores, class_fit=scores)
        return FrameEvidence()

    @property
    def _reach(self) -> int:
        """Frames to either side that the evidence of a frame depends on."""
        if self.network is not None:
            return self.network.reach
        return 0 if self.classifier is None else self.classifier.context

    def lengths(
        self, kinds: IntArray, n_frames: int, limits: Limits = UNLIMITED
    ) -> tuple[IntArray, IntArray]:
        """Shortest and longest segments in frames."""
        low, high = self.durations.limits(kinds, self.step, n_frames, self.shortest)
        if limits.stretch != 1.0:
            high = np.minimum(np.ceil(high * limits.stretch).astype(np.int64), n_frames)
        if limits.longest_silence is not None:
            silent = self.phones.silent_kinds[kinds]
            high = np.where(silent, np.minimum(high, limits.longest_silence), high)
        return low, np.maximum(high, low)

    def features(
        self,
        frames: Float32Array,
        lattice: Lattice,
        *,
        where: str = "",
        evidence: FrameEvidence | None = None,
        gold: SegmentPath | None = None,
        limits: Limits = UNLIMITED,
    ) -> SegmentFeatures:
        """The features of one utterance. ``gold`` widens the limits of lengths so that they allow it;
        ``evidence`` of the frames is computed unless given; ``where`` names the utterance in messages."""
        encoded = self.phones.encode(lattice.labels, where)
        n_frames = len(frames)
        low, high = self.lengths(encoded.kinds, n_frames, limits)
        if gold is not None:
            low[gold.nodes] = np.minimum(low[gold.nodes], gold.lengths)
            high[gold.nodes] = np.maximum(high[gold.nodes], gold.lengths)
        mean = self.durations.mean[encoded.kinds] / self.step
        graph = SegmentGraph.of(low, high, lattice.predecessors, lattice.final, mean)
        heard = self.evidence(frames) if evidence is None else evidence
        changed = any(name in self.names for name in CHANGES)
        classes, articulation, phones = self._frame_scores(heard, lattice, encoded)
        log_odds, pairs = self._log_odds(frames, heard, lattice, encoded.descriptors)
        tables = Evidence(
            encoded.kinds,
            self.durations.tables(self.step, graph.longest, encoded.kinds),
            classes,
            articulation,
            phones,
            spectral_change(frames[:, : self.options.n_static]) if changed else None,
            log_odds,
            pairs,
        )
        return segment_features(self.names, self.scale, graph, n_frames, lattice.min_phones, tables)

    def _frame_scores(
        self, heard: FrameEvidence, lattice: Lattice, encoded: EncodedPhones
    ) -> tuple[Float32Array | None, Float32Array | None, IntArray]:
        """(R, T), the scores of frames by class and by articulation for the R distinct phones, and the row of
        each node."""
        row_of = {label: row for row, label in enumerate(dict.fromkeys(lattice.labels))}
        rows = np.array([row_of[label] for label in lattice.labels])
        nodes = np.unique(rows, return_index=True)[1]
        classes = articulation = None
        if heard.class_fit is not None:
            classes = heard.class_fit[:, encoded.codes[nodes]].T
        if heard.articulation_fit is not None:
            phi, z = encoded.descriptors[nodes, len(self.phones.classes) :], heard.articulation_fit
            articulation = phi @ z.T - np.logaddexp(np.float32(0.0), z).sum(axis=1)
            noise = encoded.codes[nodes] == self.phones.noise_code
            if noise.any() and self.phones.centroids is not None:
                articulation[noise] = noise_articulation(z, self.phones.centroids)
        return classes, articulation, rows

    def _log_odds(
        self, frames: Float32Array, heard: FrameEvidence, lattice: Lattice, descriptors: Float32Array
    ) -> tuple[Float32Array | None, IntArray | None]:
        """Log-odds of the distinct pairs of phones, and the row of each node; first nodes have row 0, all
        zeros."""
        if "boundary" not in self.names or not self.complete:
            return None, None
        left = np.array(lattice.left)
        pairs: dict[tuple[str, str], int] = {}
        rows = np.zeros(lattice.n_nodes, dtype=np.int64)
        nodes = []
        for i, before in enumerate(left.tolist()):
            if before < 0:
                continue
            key = (lattice.labels[before], lattice.labels[i])
            if key not in pairs:
                pairs[key] = len(pairs) + 1
                nodes.append(i)
            rows[i] = pairs[key]
        odds = np.zeros((len(pairs) + 1, len(frames) + 1), dtype=np.float32)
        if nodes:
            before, after = descriptors[left[nodes]], descriptors[nodes]
            if self.network is not None and heard.hidden is not None:
                odds[1:] = self.network.boundary_scores(heard.hidden, before, after)
            elif self.boundaries is not None:
                odds[1:] = self.boundaries.log_odds(frames, before, after)
        return odds, rows

    def example(self, utterance: TrainingUtterance) -> SegmentExample:
        """The features of a reference utterance and the reference itself as a path."""
        gold = SegmentPath.of_chain(utterance.gold, len(utterance.frames))
        lattice = phone_lattice(utterance.labels)
        features = self.features(utterance.frames, lattice, where=utterance.id, gold=gold)
        return SegmentExample(features, gold, utterance.starts, utterance.id)
