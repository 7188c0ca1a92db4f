"""The acoustic model: frames, phones, classifiers and durations, as one map from an utterance to its
features."""

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
from trellis.speech.acoustics.frame_classifiers import FrameClassifier
from trellis.speech.acoustics.phone_durations import DurationModel
from trellis.speech.audio.cepstra import FrameOptions
from trellis.speech.corpus.phone_lattice import Lattice, phone_lattice
from trellis.speech.phones.phone_set import PhoneSet
from trellis.structures.segments.problem.segment_problem import SegmentExample
from trellis.structures.segments.scores.segment_graph import SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentFeatures

if TYPE_CHECKING:
    from trellis.speech.acoustics.acoustic_training import TrainingUtterance

PIECE, CONTEXT = 8192, 128  # frames classified at a time, and those on either side that a window may reach


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
    :mod:`trellis.speech.acoustics.alignment_features`)."""

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

    @property
    def complete(self) -> bool:
        """Whether the classifiers that the features need are there."""
        needed = {"classifier": self.classifier, "boundary": self.boundaries}
        return all(part is not None for name, part in needed.items() if name in self.names)

    @property
    def step(self) -> float:
        return self.options.step_seconds

    def standardise(self, features: NDArray[np.floating[Any]]) -> Float32Array:
        return ((features - self.mean) / self.deviation).astype(np.float32)

    def confidences(self, frames: Float32Array) -> Float32Array:
        """(T, C), computed in pieces, so that the windows of a long recording need little memory."""
        if self.classifier is None:
            raise DataError("this model has no frame classifier; train with the feature 'classifier'")
        pieces = []
        for first in range(0, len(frames), PIECE):
            begin = max(0, first - CONTEXT)
            piece = self.classifier.confidences(frames[begin : first + PIECE + CONTEXT])
            pieces.append(piece[first - begin :][:PIECE])
        return np.concatenate(pieces)

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
        confidences: Float32Array | None = None,
        gold: SegmentPath | None = None,
        limits: Limits = UNLIMITED,
    ) -> SegmentFeatures:
        """The features of one utterance. ``gold`` widens the limits of lengths so that they allow it;
        ``confidences`` are computed unless given; ``where`` names the utterance in messages."""
        encoded = self.phones.encode(lattice.labels, where)
        n_frames = len(frames)
        low, high = self.lengths(encoded.kinds, n_frames, limits)
        if gold is not None:
            low[gold.nodes] = np.minimum(low[gold.nodes], gold.lengths)
            high[gold.nodes] = np.maximum(high[gold.nodes], gold.lengths)
        mean = self.durations.mean[encoded.kinds] / self.step
        graph = SegmentGraph.of(low, high, lattice.predecessors, lattice.final, mean)
        if confidences is None and self.classifier is not None:
            confidences = self.confidences(frames)
        changed = any(name in self.names for name in CHANGES)
        log_odds, pairs = self._log_odds(frames, lattice, encoded.descriptors)
        evidence = Evidence(
            encoded.codes,
            encoded.kinds,
            self.durations.tables(self.step, graph.longest, encoded.kinds),
            confidences,
            spectral_change(frames[:, : self.options.n_static]) if changed else None,
            log_odds,
            pairs,
        )
        return segment_features(self.names, self.scale, graph, n_frames, lattice.min_phones, evidence)

    def _log_odds(
        self, frames: Float32Array, lattice: Lattice, descriptors: Float32Array
    ) -> tuple[Float32Array | None, IntArray | None]:
        """Log-odds of the distinct pairs of phones, and the row of each node; first nodes have row 0, all
        zeros."""
        if self.boundaries is None:
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
            odds[1:] = self.boundaries.log_odds(frames, descriptors[left[nodes]], descriptors[nodes])
        return odds, rows

    def example(self, utterance: TrainingUtterance) -> SegmentExample:
        """The features of a reference utterance and the reference itself as a path."""
        gold = SegmentPath.of_chain(utterance.gold, len(utterance.frames))
        lattice = phone_lattice(utterance.labels)
        features = self.features(utterance.frames, lattice, where=utterance.id, gold=gold)
        return SegmentExample(features, gold, utterance.starts, utterance.id)
