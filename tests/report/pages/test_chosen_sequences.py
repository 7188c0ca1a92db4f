"""Some sequences of data of every form: a labeller says of them what it says of them among all."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from trellis import SequenceLabeler
from trellis.data import read_attributes, read_columns
from trellis.report.pages.sections.chosen_sequences import chosen_sequences
from trellis.structures.chain.labeler.chain_predictor import ChainPredictor

WORDS = [["the", "cat", "sat"], ["a"], ["a", "dog"], ["cats", "sat", "a", "dog"]]
TAGS = [["D", "N", "V"], ["D"], ["D", "N"], ["N", "V", "D", "N"]]
CHOSEN = [3, 1]


def _columns() -> Any:
    rows = ["\n".join(f"{w} {k}" for w, k in zip(*one, strict=True)) for one in zip(WORDS, TAGS, strict=True)]
    return read_columns(io.StringIO("\n\n".join(rows) + "\n\n")).without(-1)


def _attributes(value: str) -> Any:
    rows = [
        "\n".join(f"{k}\tw={w}{value}\tbias" for w, k in zip(*one, strict=True))
        for one in zip(WORDS, TAGS, strict=True)
    ]
    return read_attributes(io.StringIO("\n\n".join(rows) + "\n\n"))


def _arrays() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(len(one), 2)) for one in WORDS]


FORMS = {
    "lists": WORDS,
    "tuples": tuple(WORDS),
    "columns": _columns(),
    "attributes": _attributes(""),
    "attributes with values": _attributes(":0.5"),
    "arrays": _arrays(),
}


@pytest.mark.parametrize("form", FORMS)
def test_chosen_sequences_have_the_answers_they_have_among_all(form: str) -> None:
    X = FORMS[form]
    model = SequenceLabeler(max_iter=10).fit(X, TAGS)
    few, every = model.predict_marginals(chosen_sequences(X, CHOSEN)), model.predict_marginals(X)
    assert len(few) == len(CHOSEN)
    for one, i in zip(few, CHOSEN, strict=True):
        np.testing.assert_allclose(one, every[i], rtol=1e-12)


def test_the_best_labellings_are_computed_of_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SequenceLabeler(max_iter=2).fit(WORDS, TAGS)
    asked: list[int] = []
    real = ChainPredictor.predict_k_best

    def counting(self: Any, X: Any, k: int, **options: Any) -> Any:
        asked.append(len(X))
        return real(self, X, k, **options)

    monkeypatch.setattr(ChainPredictor, "predict_k_best", counting)
    X = WORDS * 10
    wrong = [["V", "D", "N"], ["D"], ["D", "N"], ["N", "V", "D", "N"]]
    model.report(X, wrong + model.predict(X[4:]))
    assert asked == [1]
