"""Feature dictionaries give the model that they give in CRFsuite: the same weights, the same objective."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pycrfsuite
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recorded_crfsuite import RecordedTrainer
from trellis import SequenceLabeler

text = st.text(alphabet="ab", max_size=2)
# CRFsuite leaves out pairs whose values sum to less than 0, which is nobody's wish: none are drawn
numbers = st.one_of(st.booleans(), st.integers(0, 2), st.sampled_from([0.0, 0.5, 1.5]))
scalars = st.one_of(text, numbers, numbers)
# a key has one kind of value: CRFsuite writes {"k": "a"}, {"k": ["a"]} and {"k": {"a": True}} alike, k:a
step = st.fixed_dictionaries(
    {},
    optional={
        "b": st.booleans(),
        "k": scalars,
        "l": st.lists(text, max_size=2, unique=True),
        "s": st.sets(text, max_size=2),
        "d": st.dictionaries(st.sampled_from("uv"), scalars, max_size=2),
        "n": st.dictionaries(st.just("m"), st.dictionaries(st.sampled_from("uv"), numbers), max_size=1),
    },
)
sequence = st.lists(st.tuples(step, st.sampled_from("XYZ")), min_size=1, max_size=4)


def crfsuite(X: Any, y: Any, path: Path, **options: float) -> tuple[dict[Any, float], list[float]]:
    """The weights of attributes with labels, and the objective of each iteration."""
    trainer = RecordedTrainer()
    for items, labels in zip(X, y, strict=True):
        trainer.append(items, labels)
    trainer.select("lbfgs")
    trainer.set_params(
        {"c1": 0.0, "c2": 0.5, "delta": 0.0, "epsilon": 1e-7, "max_iterations": 2000, **options}
    )
    trainer.train(str(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    return tagger.info().state_features, trainer.losses


def ours(X: Any, y: Any, **options: Any) -> tuple[dict[Any, float], SequenceLabeler]:
    model = SequenceLabeler(boundaries=False, **{"l2": 1.0, "tol": 1e-9, **options}).fit(X, y)
    table = model.layout_.feature_weights(model.weights_)
    names = [name.replace("=", ":") for name in model.encoder_.feature_names()]
    weights = {(names[i], model.classes_[k]): table[i, k] for i, k in np.argwhere(table != 0.0)}
    return weights, model


# random labels: all of them may get the most frequent one
@pytest.mark.filterwarnings("ignore:the model gives each:trellis.training.fit.TrainingWarning")
@settings(max_examples=40)
@given(st.lists(sequence, min_size=1, max_size=4))
def test_random_dictionaries_give_crfsuites_model(data: Any) -> None:
    X, y = ([[pair[i] for pair in s] for s in data] for i in (0, 1))
    if all(not spelled for s in X for spelled in s):
        return  # CRFsuite has nothing to train
    with TemporaryDirectory() as folder:
        theirs, losses = crfsuite(X, y, Path(folder) / "m")
    found, model = ours(X, y)
    for pair in found.keys() | theirs.keys():
        assert found.get(pair, 0.0) == pytest.approx(theirs.get(pair, 0.0), abs=1e-4), pair
    if losses:
        assert model.history_["objective"][-1] == pytest.approx(losses[-1], rel=1e-5, abs=1e-5)
