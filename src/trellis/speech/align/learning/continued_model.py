"""A model that goes on learning from corrected pieces, and the models on the way.

The likelihood of the pieces' alignments is raised in the network (``end_to_end``), without augmentation,
which would hide what is special about them: a *leg* of ``PASSES`` passes with a rate that falls from ``RATE``
to 0, then perhaps another. With theta_0 the weights of the base and theta_l those after l legs, the model at
*place* s = l + r, 0 <= r < 1, has the network

    theta(s) = theta_l + r (theta_{l+1} - theta_l)

(in a mixture, each of the networks; the same pieces in the same order).
Means of networks near each other are good networks, often better than the two, so that one training gives a
model for each s. Place 0 is the base itself. Elsewhere no length that the corrections show is forbidden: the
longest lengths are raised to ``SLACK`` times theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.speech.acoustics.acoustic_model import AcousticModel
from trellis.speech.acoustics.acoustic_training import TrainingUtterance, network_example
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.convolutional_training import ConvolutionalOptions, Schedule
from trellis.speech.acoustics.convolutional.network_mixture import members, mixed
from trellis.speech.acoustics.phone_durations import SLACK, DurationModel
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.learning.end_to_end import continue_end_to_end
from trellis.training.checkpoints import Checkpoints
from trellis.training.passes import Report

RATE, PASSES = 8e-4, 8


class Way:
    """From the network of ``base`` on, in legs that are walked when they are asked for. ``checkpoints``: of
    the adaptation whose stages they are."""

    def __init__(
        self,
        base: AlignmentModel,
        pieces: Sequence[TrainingUtterance],
        options: ConvolutionalOptions,
        seed: int,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        if base.acoustics.network is None:
            raise TypeError("the model has no network to continue")
        self._base, self._options, self._seed = base, replace(options, augment=False), seed
        self._checkpoints = checkpoints
        self._examples = [network_example(piece, base.acoustics.phones) for piece in pieces]
        self._durations = _widened(base.acoustics, pieces)
        self._networks = [members(base.acoustics.network)]

    def walk(self, legs: int, report: Report | None = None) -> None:
        """Go on until ``legs`` legs are behind; the networks of a mixture each on its own."""
        while len(self._networks) <= legs:
            now = self._networks[-1]
            self._networks.append(
                tuple(self._next(one, _part(report, i, len(now))) for i, one in enumerate(now))
            )

    def model(self, place: float) -> AlignmentModel:
        """The model at a place that has been walked to."""
        if place == 0.0:
            return self._base
        leg = min(int(place), len(self._networks) - 2)
        pairs = zip(self._networks[leg], self._networks[leg + 1], strict=True)
        network = mixed([_between(start, end, place - leg) for start, end in pairs])
        acoustics = replace(self._base.acoustics, network=network, durations=self._durations)
        return replace(self._base, acoustics=acoustics)

    def _next(self, network: ConvolutionalNetwork, report: Report | None) -> ConvolutionalNetwork:
        return continue_end_to_end(
            self._base.acoustics,
            network,
            self._base.topology,
            self._examples,
            Schedule(RATE, PASSES, 0.0, 0.0),
            self._options,
            self._seed + len(self._networks) - 1,
            report,
            self._checkpoints,
        )


def _between(start: ConvolutionalNetwork, end: ConvolutionalNetwork, share: float) -> ConvolutionalNetwork:
    theta = start.flat()
    theta += np.float32(share) * (end.flat() - theta)
    return start.on(theta)


def _part(report: Report | None, number: int, of: int) -> Report | None:
    return None if report is None else lambda share: report((number + share) / of)


def _widened(acoustics: AcousticModel, pieces: Sequence[TrainingUtterance]) -> DurationModel:
    longest = acoustics.durations.longest.copy()
    for piece in pieces:
        seconds = np.diff(piece.starts, append=float(len(piece.frames))) * acoustics.step
        np.maximum.at(longest, acoustics.phones.encode(piece.labels, piece.id).kinds, SLACK * seconds)
    return replace(acoustics.durations, longest=longest)
