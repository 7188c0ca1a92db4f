"""How far to move for corrections, decided by those that are left out.

Pieces are dealt into ``FOLDS`` parts at most; for each part a network is continued on the others
(``continued_model``) and aligns it at each place s of the way. With e_k(s) the error of boundary k and
d_k(s) = c(e_k(0)) - c(e_k(s)), c(e) = min(|e|, CAP) / CAP, what it cost before and costs no longer,

    gain(s) = sum_k d_k(s) + PRIOR prior(s) - DOUBT sqrt(sum_k d_k(s)^2)

The place with the largest gain wins, and that of the base is 0. The root is about the standard error of the
sum: a gain that could well be chance is none. prior(s) is about the mean of d to be
expected at s after one word and after ten words of a language that the aligner has never heard, along the
logarithm of the number of boundaries, up to that of ``MOST_WORDS`` words; it counts as much as ``PRIOR``
boundaries. With a single piece, which cannot be left out, it decides alone. Its numbers are those that
``benchmarks/adapt.py --prior`` measures on the held-out languages of each fold.

The way is followed beyond its first leg, up to ``LEGS``, only while the end of the last one wins and is
better than half a leg before by ``CLEAR`` standard errors. Many pieces (more than ``PLENTY``) need no
rotation: a single part is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.speech.acoustics.acoustic_training import TrainingUtterance
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.learning.continued_model import Way
from trellis.speech.align.learning.corpus_preparation import Progress
from trellis.speech.align.utterance_alignment import Request, align_frames
from trellis.speech.corpus.phone_lattice import phone_lattice
from trellis.training.checkpoints import Checkpoints

FIRST_LEG = (0.0, 0.3, 0.5, 1.0)  # places
ONE_WORD, TEN_WORDS = (0.0, 0.003, 0.003, -0.001), (0.0, 0.016, 0.022, 0.026)  # prior; beyond as at the last
WORD, MOST_WORDS = 5.5, 20.0  # boundaries of a word; words up to which the prior changes
PRIOR = 50.0  # boundaries
DOUBT = 0.5
LEGS, CLEAR = 3, 2.0
FOLDS = 3
PLENTY = 60  # pieces
CAP = 0.05  # seconds
_ROWS = ONE_WORD, TEN_WORDS


@dataclass(frozen=True, eq=False)
class LeftOut:
    """``errors``: (places, boundaries) in seconds, of boundaries that the continued networks never saw;
    ``n_boundaries``: of all corrections."""

    places: tuple[float, ...]
    errors: FloatArray
    n_boundaries: int

    @property
    def gains(self) -> FloatArray:
        """gain(s) of each place."""
        saved = self._cost[:1] - self._cost
        return np.asarray(saved.sum(axis=1) + PRIOR * self.prior - DOUBT * _root(saved))

    @property
    def prior(self) -> FloatArray:
        """prior(s) of each place."""
        one, ten = (np.array([row[min(i, len(row) - 1)] for i in range(len(self.places))]) for row in _ROWS)
        share = np.clip(np.log10(max(self.n_boundaries, 1) / WORD), 0.0, np.log10(MOST_WORDS))
        return np.asarray((1.0 - share) * one + share * ten)

    @property
    def best(self) -> int:
        """The number of the winning place; of equal ones the nearest."""
        return int(np.argmax(self.gains))

    @property
    def still_rising(self) -> bool:
        """Whether the last place wins, and is clearly better than half a leg or more before."""
        earlier = int(np.searchsorted(self.places, self.places[-1] - 0.5, side="right")) - 1
        saved = self._cost[earlier] - self._cost[-1]
        return self.best == len(self.places) - 1 and bool(saved.sum() > CLEAR * _root(saved))

    def within(self, seconds: float) -> FloatArray:
        """The share of the boundaries, of each place."""
        if not self.errors.shape[1]:
            return np.full(len(self.places), np.nan)
        return np.asarray(np.mean(np.abs(self.errors) <= seconds + 1e-9, axis=1))

    @property
    def _cost(self) -> FloatArray:
        return np.minimum(np.abs(self.errors), CAP) / CAP


def leave_out(
    base: AlignmentModel,
    pieces: Sequence[TrainingUtterance],
    options: ConvolutionalOptions,
    seed: int,
    request: Request,
    report: Progress,
    checkpoints: Checkpoints,
) -> LeftOut:
    """The errors of pieces that are left out in turn, at each place of the way."""
    order = np.random.default_rng(seed).permutation(len(pieces))
    parts = np.array_split(order, min(FOLDS, len(pieces)))[: 1 if len(pieces) > PLENTY else None]
    n_boundaries = sum(len(piece.starts) - 1 for piece in pieces)
    if len(pieces) < 2:
        return LeftOut(FIRST_LEG, np.zeros((len(FIRST_LEG), 0)), n_boundaries)
    outs = [[pieces[i] for i in part] for part in parts]
    kept = [[pieces[i] for i in order if i not in set(part.tolist())] for part in parts]
    ways = [Way(base, rest, options, seed, checkpoints) for rest in kept]
    found = LeftOut((), np.zeros((0, sum(len(p.starts) - 1 for out in outs for p in out))), n_boundaries)
    for leg in range(1, LEGS + 1):
        places = FIRST_LEG if leg == 1 else (float(leg),)
        for number, way in enumerate(ways):
            way.walk(leg, lambda share, done=number: report("leaving out", (done + share) / len(ways)))  # type: ignore[misc]
        errors = [
            np.concatenate(
                [
                    checkpoints.once(partial(boundary_errors, way.model(s), out, request))
                    for way, out in zip(ways, outs, strict=True)
                ]
            )
            for s in places
        ]
        found = LeftOut((*found.places, *places), np.concatenate([found.errors, errors]), n_boundaries)
        if not found.still_rising:
            break
    return found


def boundary_errors(
    model: AlignmentModel, pieces: Sequence[TrainingUtterance], request: Request
) -> FloatArray:
    """Seconds by which the model places boundaries later than the corrections do."""
    errors = [np.zeros(0)]
    for piece in pieces:
        starts = align_frames(model, piece.frames, phone_lattice(piece.labels), request).starts
        errors.append((starts - piece.starts)[1:] * model.acoustics.step)
    return np.concatenate(errors)


def _root(saved: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.sum(saved**2, axis=-1)))
