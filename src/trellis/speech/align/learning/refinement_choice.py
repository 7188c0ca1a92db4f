"""Whether boundaries belong between frames: held-out references decide.

References that were drawn by hand lie anywhere, and times between frames are closer to them. Many corpora
were aligned automatically first and then corrected; what nobody corrected lies on the grid of the first
aligner, and whole frames hit it exactly. Which of the two a corpus is, its own held-out boundaries tell: the
share of them within the tolerances is measured both ways, and times between frames are taken unless whole
frames do better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.doubt.boundary_confidence import refine_starts, sharpen
from trellis.speech.align.search.tolerance_decoding import TOLERANCES_MS, decode_starts
from trellis.structures.segments.oracle.segment_oracle import Segmentation
from trellis.structures.segments.problem.segment_problem import SegmentExample


def choose_refinement(
    model: AlignmentModel, holdout: Sequence[SegmentExample], tolerances: Sequence[float]
) -> AlignmentModel:
    """The model with its ``refine``; ``tolerances`` in seconds, none for the best path."""
    step, oracle = model.acoustics.step, Segmentation()
    whole, between = list[FloatArray](), list[FloatArray]()
    for example in holdout:
        scores = example.features.scores(model.weights)
        path = oracle.best(scores)
        if tolerances:
            posterior = oracle.marginals(sharpen(scores, model.beta * len(path.nodes))).parts.starts
            widths = [t / step for t in tolerances]
            path = replace(path, starts=decode_starts(posterior, scores.graph.min_length, widths))
        reference = np.asarray(example.reference)
        whole.append((path.starts - reference)[1:])
        between.append((refine_starts(scores, path) - reference)[1:])
    measured = tolerances or [ms / 1000.0 for ms in TOLERANCES_MS]

    def share(errors: list[FloatArray]) -> float:
        together = step * np.abs(np.concatenate([np.zeros(0), *errors]))
        return sum(np.count_nonzero(together <= t + 1e-9) for t in measured)

    return replace(model, refine=share(between) >= share(whole))
