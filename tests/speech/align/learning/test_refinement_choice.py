"""References on the grid of frames want whole frames, those between frames do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from small_acoustics import NAMES, acoustic_model, utterance
from trellis.core.errors import DataError
from trellis.speech.align.aligner import Aligner
from trellis.speech.align.alignment_model import AlignmentModel
from trellis.speech.align.doubt.boundary_confidence import refine_starts
from trellis.speech.align.learning.refinement_choice import choose_refinement
from trellis.structures.segments.oracle.segment_oracle import Segmentation


@pytest.mark.parametrize("tolerances", [(), (0.001, 0.002)])
def test_the_references_decide(tolerances: tuple[float, ...]) -> None:
    acoustics = acoustic_model()
    model = AlignmentModel(acoustics, np.ones(len(NAMES)), np.zeros(len(NAMES) + 1), beta=100.0)
    examples = [acoustics.example(utterance(i)) for i in range(8)]
    on_grid, between = [], []
    for example in examples:
        scores = example.features.scores(model.weights)
        path = Segmentation().best(scores)  # beta is so large that no other path has any probability
        on_grid.append(replace(example, reference=path.starts.astype(float)))
        between.append(replace(example, reference=refine_starts(scores, path)))
    assert not choose_refinement(model, on_grid, tolerances).refine or not tolerances
    assert choose_refinement(model, between, tolerances).refine
    assert choose_refinement(model, [], tolerances).refine


def test_bad_tolerances_are_an_error() -> None:
    for bad in ((), (0.0,), (-1.0, 5.0)):
        with pytest.raises(DataError, match="tolerances_ms"):
            Aligner(tolerances_ms=bad)._check()
    with pytest.raises(DataError, match="decoding"):
        Aligner(decoding="viterbi")._check()
