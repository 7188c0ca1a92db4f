"""Whether a direct objective still learns: of how many examples the gradient is not 0, and of how many y-,
the output with less loss that the update moves toward, is the gold output itself.

Scores that grow beyond epsilon leave no update at all; an epsilon beyond all gaps between scores makes every
y- the gold output, and the update that of the perceptron or of a hinge, whatever the loss says of other
outputs. Both are measured on about ``SAMPLE`` examples, spread over the data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from trellis.core.arrays import FloatArray

SAMPLE = 100


class UpdateShares(NamedTuple):
    update_share: float
    gold_share: float


def update_shares(problem: Any, weights: FloatArray, run: int = SAMPLE) -> UpdateShares:
    """The two shares among the examples of some runs of ``run`` examples."""
    starts = np.arange(0, problem.n_examples, run)
    some = np.unique(np.linspace(0, len(starts) - 1, -(-SAMPLE // run)).astype(np.int64))
    ends = [(int(starts[i]), min(int(starts[i]) + run, problem.n_examples)) for i in some]
    found = [problem.updates(weights, first, last) for first, last in ends]
    moved, gold = (np.concatenate(part) for part in zip(*found, strict=True))
    return UpdateShares(float(moved.mean()), float(gold.mean()))
