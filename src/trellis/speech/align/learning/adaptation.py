"""Learning from a handful of corrected recordings: how far to move, and what is said about it.

A network is continued on the corrected pieces (``continued_model``); how much of the way is gone is decided by
pieces that were left out. They are dealt into ``FOLDS`` parts at most, by whole pieces; for each part, a
network continued on the others aligns it after each share s of the way. With e_k the error of boundary k,

    gain(s) = sum_k [c(e_k(0)) - c(e_k(s))] + PRIOR prior(s),     c(e) = min(|e|, CAP) / CAP,

the largest gain wins, and s = 0, no move at all, has the gain 0. prior(s) is what boundaries of languages
that the model had not heard gained on average when it moved by s for a single corrected word; it counts as
much as ``PRIOR`` boundaries. With a single piece, which cannot be left out, it decides alone. Many pieces
(more than ``PLENTY``) need no rotation: one part is left out.

The prior's numbers come from ``benchmarks/adapt.py --prior``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.core.estimator import check_fitted
from trellis.core.status import Status
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.acoustics.classifier_names import get_classifier
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.learning.continued_model import continue_network, part_of_the_way, passes_for
from trellis.speech.align.learning.corpus_preparation import Progress
from trellis.speech.align.learning.corrected_pieces import read_corrections
from trellis.speech.align.utterance_alignment import Request, align_frames
from trellis.speech.corpus.phone_lattice import phone_lattice
from trellis.speech.corpus.utterance import Utterance

if TYPE_CHECKING:
    from trellis.speech.align.aligner import Aligner

SHARES = (0.0, 0.5, 1.0)
PRIOR_GAIN = (0.0, 0.004, 0.004)  # mean c(e(0)) - c(e(s))
PRIOR = 100.0  # boundaries
FOLDS = 4
PLENTY = 60  # pieces
CAP = 0.05  # seconds
SAME = 0.001  # seconds: nearer to the model's own answer a boundary was not corrected


@dataclass(frozen=True, eq=False)
class LeftOut:
    """``errors``: (shares, boundaries) in seconds, of boundaries that the continued networks never saw."""

    errors: FloatArray

    @property
    def gains(self) -> FloatArray:
        """Of each share, the prior's included."""
        cost = np.minimum(np.abs(self.errors), CAP) / CAP
        return np.asarray((cost[:1] - cost).sum(axis=1) + PRIOR * np.array(PRIOR_GAIN))

    def within(self, seconds: float) -> FloatArray:
        """The share of the boundaries, (shares,)."""
        if not self.errors.size:
            return np.full(len(SHARES), np.nan)
        return np.asarray(np.mean(np.abs(self.errors) <= seconds + 1e-9, axis=1))


def adapt(aligner: Aligner, corpus: Iterable[Utterance], progress: Progress | None = None) -> Aligner:
    """A new aligner that has learned from the corrections; the old one stays as it is."""
    check_fitted(aligner)
    report = progress or (lambda stage, share: None)
    base, options = aligner.model_, get_classifier(aligner.classifier)
    if base.acoustics.network is None or not isinstance(options, ConvolutionalOptions):
        raise UnsupportedError(
            "only an aligner with a convolutional network learns from corrections; train one with "
            "classifier='convolutional', the default"
        )
    pieces = read_corrections(aligner, corpus, report)
    own = boundary_errors(base, pieces, aligner.refine)
    if np.abs(own).max(initial=0.0) <= SAME:
        reason = (
            "the corrections are what the model says already: there is nothing to learn, nothing was moved"
        )
        return _with(aligner, base, Status(True, reason), {})
    left_out = leave_out(base, pieces, options, aligner, report)
    chosen = int(np.argmax(left_out.gains))
    model = base
    if chosen:
        network = continue_network(
            base, pieces, options, aligner.random_state, lambda share: report("learning", share)
        )
        model = part_of_the_way(base, network, SHARES[chosen], pieces)
    report("done", 1.0)
    history = {
        "share": list(SHARES),
        "gain": left_out.gains.tolist(),
        "within_10_ms": left_out.within(0.01).tolist(),
        "within_20_ms": left_out.within(0.02).tolist(),
    }
    n_passes = passes_for(sum(len(piece.starts) - 1 for piece in pieces)) if chosen else 0
    return _with(aligner, model, Status(False, _sentence(pieces, left_out, chosen), n_passes), history)


def leave_out(
    base: AlignmentModel,
    pieces: Sequence[TrainingUtterance],
    options: ConvolutionalOptions,
    aligner: Aligner,
    report: Progress,
) -> LeftOut:
    """The errors of pieces that were left out, after each share of the way."""
    n_folds = min(FOLDS, len(pieces))
    if n_folds < 2:
        return LeftOut(np.zeros((len(SHARES), 0)))
    order = np.random.default_rng(aligner.random_state).permutation(len(pieces))
    parts = np.array_split(order, n_folds)[: 1 if len(pieces) > PLENTY else None]
    found = []
    for number, part in enumerate(parts):
        out, rest = [pieces[i] for i in part], [pieces[i] for i in order if i not in set(part.tolist())]

        def tell(share: float, number: int = number) -> None:
            report("leaving out", (number + share) / len(parts))

        network = continue_network(base, rest, options, aligner.random_state, tell)
        models = [part_of_the_way(base, network, share, rest) for share in SHARES]
        found.append(np.stack([boundary_errors(model, out, aligner.refine) for model in models]))
    return LeftOut(np.concatenate(found, axis=1))


def boundary_errors(model: AlignmentModel, pieces: Sequence[TrainingUtterance], refine: bool) -> FloatArray:
    """Seconds by which the model places boundaries later than the corrections do."""
    errors = [np.zeros(0)]
    for piece in pieces:
        request = Request(piece.id, refine, confidence=False)
        starts = align_frames(model, piece.frames, phone_lattice(piece.labels), request).starts
        errors.append((starts - piece.starts)[1:] * model.acoustics.step)
    return np.concatenate(errors)


def _sentence(pieces: Sequence[TrainingUtterance], left_out: LeftOut, chosen: int) -> str:
    """How far it moved, and why."""
    n = len(pieces)
    many = f"{n} corrected recordings" if n > 1 else "one corrected recording"
    way = {0.0: "nothing was moved", 1.0: "the network moved all the way"}.get(
        SHARES[chosen], f"the network moved {100 * SHARES[chosen]:.0f} % of the way"
    )
    if not left_out.errors.size:
        return f"{way} after {many}, too few to leave any out: how far was decided on other languages"
    before, after = 100 * left_out.within(0.02)[[0, chosen or len(SHARES) - 1]]
    figures = f"within 20 ms: {before:.0f} -> {after:.0f} % on those left out"
    if chosen:
        return f"{way} after {many}; {figures}"
    return f"{way}: {many} did not help to align each other ({figures})"


def _with(
    aligner: Aligner, model: AlignmentModel, status: Status, history: dict[str, list[float]]
) -> Aligner:
    adapted = copy.copy(aligner)
    adapted.model_, adapted.status_, adapted.history_ = model, status, history
    return adapted
