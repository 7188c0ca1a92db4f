"""The start of training with latent states: the states of a label must differ, or they never will.

At equal weights the states of a label get equal gradients, so every objective stays on the saddle where the
label has one state in many copies. Small random weights break the symmetry; they come from the seed of the
estimator, and a few seeds are worth trying, because what is learned is a local optimum.

Objectives that are differences of two labellings then start from the latent perceptron
(:func:`trellis.training.fit.latent_start`).
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import UnsupportedError
from trellis.data.latent_labels import LatentLabels
from trellis.losses.labelings import Loss
from trellis.objectives.records import Objective
from trellis.structures.chain.scores.linear_chain import LinearLayout

SPREAD = 0.1  # standard deviation of the random weights


def split_states(start: FloatArray, layout: LinearLayout, latent: LatentLabels, seed: int) -> FloatArray:
    noise = np.random.default_rng([seed, len(latent.label_of)]).normal(0.0, SPREAD, layout.dimension)
    return start + (noise * layout.mask if len(layout.mask) else noise)


def refuse_candidates(latent: LatentLabels, objective: Objective, loss: Loss) -> None:
    """A loss that re-ranks candidates needs one gold labelling."""
    if objective.uses_loss and loss.kind == "candidates" and not latent.plain:
        raise UnsupportedError(
            f"latent_states need a loss that is a sum over steps, or 0-1, not {loss.name!r}; use "
            "loss='hamming', or latent_states=1"
        )
