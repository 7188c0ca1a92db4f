"""Learning from corrected recordings, one or more: a new aligner, and a sentence about how far it moved.

The network is continued on the corrections (``continued_model``), as far as those that are left out gain by
it (``left_out``), or not at all. Weights, durations (but for the longest) and calibration stay: they are a
few numbers about all phones, and a handful of words says little about them.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable, Sequence
from math import ceil
from typing import TYPE_CHECKING

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.estimator import check_fitted
from trellis.core.status import Status
from trellis.core.storage import PathLike
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.acoustics.classifier_names import get_classifier
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.learning.continued_model import PASSES, Way
from trellis.speech.align.learning.corpus_preparation import Progress
from trellis.speech.align.learning.corrected_pieces import read_corrections
from trellis.speech.align.learning.left_out import CAP, LeftOut, boundary_errors, leave_out
from trellis.speech.align.utterance_alignment import Request
from trellis.speech.corpus.corpus_contents import corpus_contents
from trellis.speech.corpus.utterance import Utterance
from trellis.training.checkpoints import Checkpoints, keep_checkpoints

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner

SAME = 0.001  # seconds: a boundary that is nearer to the model's own answer was not corrected
STRANGE = 0.5  # share of boundaries further than CAP from the model's answer


def adapt(
    aligner: Aligner,
    corpus: Iterable[Utterance],
    progress: Progress | None = None,
    checkpoint: PathLike | None = None,
) -> Aligner:
    """A new aligner that has learned from the corrections; the old one stays as it is."""
    check_fitted(aligner)
    report = progress or (lambda stage, share: None)
    base, options = aligner.model_, get_classifier(aligner.classifier)
    if base.acoustics.network is None or not isinstance(options, ConvolutionalOptions):
        raise UnsupportedError(
            "only an aligner with a convolutional network learns from corrections; train one with "
            "classifier='convolutional', the default"
        )
    corrected = [u for u in corpus if u.reference is not None]
    request = aligner._request("", confidence=False)
    began = time.perf_counter()
    known = {"the base model": base, **corpus_contents(corrected)} if checkpoint is not None else {}
    parameters = aligner.get_params(deep=False)
    checkpoints = keep_checkpoints(checkpoint, "Aligner.adapt", parameters, known, began=began)
    pieces = read_corrections(base.acoustics, corrected, report)
    with checkpoints.kept_when_stopped():
        return _learn(aligner, len(corrected), pieces, options, request, report, checkpoints)


def _learn(
    aligner: Aligner,
    n_recordings: int,
    pieces: Sequence[TrainingUtterance],
    options: ConvolutionalOptions,
    request: Request,
    report: Progress,
    checkpoints: Checkpoints,
) -> Aligner:
    base = aligner.model_
    own = checkpoints.once(lambda: boundary_errors(base, pieces, request))
    if np.abs(own).max() <= SAME:
        reason = "the corrections agree with the model already; there is nothing to learn from them"
        return _with(aligner, base, Status(True, reason), {})
    seed = aligner.random_state
    left_out = leave_out(base, pieces, options, seed, request, report, checkpoints)
    place = left_out.places[left_out.best]
    way = Way(base, pieces, options, seed, checkpoints)
    way.walk(ceil(place), lambda share: report("learning", share))
    report("done", 1.0)
    history = {
        "place": list(left_out.places),
        "gain": left_out.gains.tolist(),
        "within_10_ms": left_out.within(0.01).tolist(),
        "within_20_ms": left_out.within(0.02).tolist(),
    }
    reason = _sentence(n_recordings, len(pieces), left_out) + _doubt(own)
    status = Status(False, reason, PASSES * ceil(place))
    return _with(aligner, way.model(place), status, history)


def _sentence(n_recordings: int, n_pieces: int, left_out: LeftOut) -> str:
    """How far it moved, and why."""
    place = left_out.places[left_out.best]
    many = f"{n_recordings} corrected recordings" if n_recordings > 1 else "one corrected recording"
    many += f" in {n_pieces} pieces" * (n_pieces > n_recordings)
    moved = f"the network moved {100 * place:.0f} % of the way to {many}"
    if not left_out.errors.shape[1]:
        return f"{moved}, as far as was best after one word of other languages; it cannot be left out itself"
    within = 100 * left_out.within(0.02)
    if place:
        return f"{moved}; within 20 ms: {within[0]:.0f} -> {within[left_out.best]:.0f} % on those left out"
    tried = int(np.argmax(left_out.gains[1:])) + 1
    return (
        f"the network did not move: {many} do not help enough to align each other (within 20 ms: "
        f"{within[0]:.0f} -> {within[tried]:.0f} % on those left out)"
    )


def _doubt(errors: FloatArray) -> str:
    """What to say of corrections that are far from what the model had; ``errors``: its own, in seconds."""
    if np.mean(np.abs(errors) > CAP) <= STRANGE:
        return ""
    return (
        f"; but more than half of the corrected boundaries lie over {1000 * CAP:.0f} ms from where the model "
        "had them; check that the labels belong to these recordings"
    )


def _with(
    aligner: Aligner, model: AlignmentModel, status: Status, history: dict[str, list[float]]
) -> Aligner:
    adapted = copy.copy(aligner)
    adapted.model_, adapted.status_, adapted.history_ = model, status, history
    adapted.fit_seconds_ = None
    return adapted
