"""Training data with one label: every labeller says that there was nothing to learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from trellis import MEMM, Graph, GraphLabeler, SequenceLabeler
from trellis.training.fit import TrainingWarning

MODELS = {"SequenceLabeler": SequenceLabeler, "MEMM": MEMM, "GraphLabeler": GraphLabeler}


def _neural() -> Any:
    return pytest.importorskip("trellis.neural").NeuralSequenceLabeler("embedding", max_epochs=1)


@pytest.mark.parametrize("name", [*MODELS, "NeuralSequenceLabeler"])
@pytest.mark.parametrize("other", ["a", "b"])
def test_one_label_in_the_data_is_said(name: str, other: str) -> None:
    model = MODELS[name]() if name in MODELS else _neural()
    graph = name == "GraphLabeler"
    rows = np.array([[0.0], [1.0]])
    X: list[Any] = [Graph(rows, edges=[(0, 1)]) if graph else rows] * 4
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, [["a", other]] * 4)
    said = [one for one in caught if "all known labels" in str(one.message)]
    assert len(said) == (other == "a")
    assert all(issubclass(one.category, TrainingWarning) for one in said)
