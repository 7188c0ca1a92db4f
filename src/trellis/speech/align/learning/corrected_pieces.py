"""Corrected recordings as a network learns from them: pieces of at most ``LONGEST`` seconds.

The work and the memory of training grow with the square of a recording's length (every pair of neighbouring
phones is scored at every frame), and a long recording is as much to learn from as many short ones: so it is
cut, in silences where it has any, else between two phones, and its pieces can be held out one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trellis.core.arrays import BoolArray, IntArray
from trellis.core.errors import DataError
from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.align.learning.corpus_preparation import Progress
from trellis.speech.audio.front_end import frame_recording
from trellis.speech.corpus.utterance import Utterance
from trellis.speech.phones.silence import is_silence

LONGEST = 10.0  # seconds
SPOKEN_CUT = 3.0  # a cut between two phones is as good as one in a silence that is so many times further off


def read_corrections(
    acoustics: AcousticModel, corrected: Sequence[Utterance], report: Progress
) -> list[TrainingUtterance]:
    """The pieces of utterances with references; phones that the model does not know are an error."""
    if not corrected:
        raise DataError("there is no corrected recording to learn from; give utterances with a reference")
    ids = [u.id for u in corrected]
    if len(set(ids)) < len(ids):
        raise DataError("two utterances of the corpus have the same id; give each its own")
    for u in corrected:
        acoustics.phones.encode(u.reference.labels if u.reference else (), u.id)  # before any work
    pieces: list[TrainingUtterance] = []
    for number, u in enumerate(corrected):
        frames = acoustics.standardise(frame_recording(u.audio, acoustics.options, u.channel).features)
        pieces += cut(TrainingUtterance.of(u, frames, acoustics.step), round(LONGEST / acoustics.step))
        report("reading", (number + 1) / len(corrected))
    if all(len(piece.starts) < 2 for piece in pieces):
        raise DataError(
            f"{ids[0]}: the corrected recordings have no boundary between two phones to learn from"
        )
    return pieces


def cut(utterance: TrainingUtterance, longest: int) -> list[TrainingUtterance]:
    """Pieces of about ``longest`` frames. A silence is cut in its middle: both pieces keep a part of it."""
    n_frames, gold = len(utterance.frames), utterance.gold
    if n_frames <= longest:
        return [utterance]
    silent = np.array([is_silence(label) for label in utterance.labels])
    places = np.where(silent, (gold + np.append(gold[1:], n_frames)) // 2, gold)
    phones = _phones_to_cut_at(places, silent, n_frames / -(-n_frames // longest))
    frames = [0, *places[phones].tolist(), n_frames]
    pieces = []
    for number, (first, last) in enumerate(zip([0, *phones], [*phones, len(gold)], strict=True)):
        begin, end = frames[number], frames[number + 1]
        last += int(last < len(gold) and gold[last] < end)  # the first half of a silence
        starts = np.clip(utterance.starts[first:last] - begin, 0.0, end - begin - 1.0)
        labels, name = utterance.labels[first:last], f"{utterance.id}, from frame {begin}"
        pieces.append(TrainingUtterance(name, utterance.frames[begin:end], labels, starts))
    return pieces


def _phones_to_cut_at(places: IntArray, silent: BoolArray, distance: float) -> list[int]:
    """The phones whose places are near the multiples of ``distance``, in order, neither first nor last."""
    chosen: list[int] = []
    inner = np.arange(1, len(places) - 1)
    for wanted in np.arange(distance, places[-1], distance):
        after = inner[inner > (chosen[-1] if chosen else 0)]
        if len(after):
            cost = np.abs(places[after] - wanted) * np.where(silent[after], 1.0, SPOKEN_CUT)
            chosen.append(int(after[np.argmin(cost)]))
    return chosen
