"""A model that goes on learning from corrected pieces, and the models on the way to it.

The network is continued on the pieces with small steps (``continue_training``), ``steps(n)`` of them for n
boundaries: a few boundaries ask for few steps, or the network learns them by heart. The *way* leads from the
base model to the continued one: a share s of it is the model whose network has the weights

    theta(s) = theta_base + s (theta_continued - theta_base)

and s = 0 is the base itself. Averages of networks near each other are good networks, so that one training
gives a model for each s. No phone may be forbidden by its length that the corrections show: the longest
lengths are raised to ``SLACK`` times those of the corrections.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from trellis.speech.acoustics.acoustic_training import TrainingUtterance, network_example
from trellis.speech.acoustics.convolutional.convolutional_network import ConvolutionalNetwork
from trellis.speech.acoustics.convolutional.convolutional_training import (
    ConvolutionalOptions,
    continue_training,
)
from trellis.speech.acoustics.phone_durations import SLACK, DurationModel
from trellis.speech.align.alignment_model import AlignmentModel

RATE = 3e-4
FEWEST_PASSES, MOST_PASSES = 10, 15

Report = Callable[[float], None]


def passes_for(n_boundaries: int) -> int:
    """Passes over the pieces."""
    return int(np.clip(n_boundaries // 5, FEWEST_PASSES, MOST_PASSES))


def continue_network(
    model: AlignmentModel,
    pieces: Sequence[TrainingUtterance],
    options: ConvolutionalOptions,
    seed: int,
    report: Report | None = None,
) -> ConvolutionalNetwork:
    """The network of the model, continued on the pieces."""
    acoustics = model.acoustics
    assert acoustics.network is not None
    examples = [network_example(piece, acoustics.phones) for piece in pieces]
    passes = passes_for(sum(len(piece.starts) - 1 for piece in pieces))
    return continue_training(
        acoustics.network,
        examples,
        1000.0 * acoustics.step,
        rate=RATE,
        passes=passes,
        options=options,
        seed=seed,
        report=report,
    )


def part_of_the_way(
    base: AlignmentModel, continued: ConvolutionalNetwork, share: float, pieces: Sequence[TrainingUtterance]
) -> AlignmentModel:
    """The model after a share of the way to the ``continued`` network."""
    network = base.acoustics.network
    if network is None or share == 0.0:
        return base
    theta = network.flat()
    theta += np.float32(share) * (continued.flat() - theta)
    durations = _widened(base, pieces)
    return replace(base, acoustics=replace(base.acoustics, network=network.on(theta), durations=durations))


def _widened(base: AlignmentModel, pieces: Sequence[TrainingUtterance]) -> DurationModel:
    acoustics = base.acoustics
    longest = acoustics.durations.longest.copy()
    for piece in pieces:
        seconds = np.diff(piece.starts, append=float(len(piece.frames))) * acoustics.step
        np.maximum.at(longest, acoustics.phones.encode(piece.labels, piece.id).kinds, SLACK * seconds)
    return replace(acoustics.durations, longest=longest)
