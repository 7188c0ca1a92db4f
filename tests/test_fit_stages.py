"""``fit_seconds_``: the stages of a fit add up to its time and are saved; without a fit there are none.

The clock of these tests counts calls of functions, so that nothing depends on what else the machine does.
"""

from __future__ import annotations

import copy
import pickle
import re
import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from stopped_fits import stopped_again_and_again
from trellis import (
    HMM,
    IOHMM,
    MEMM,
    Graph,
    GraphLabeler,
    LinearGaussian,
    SequenceLabeler,
    ShardFiles,
    SpectralHMM,
    emissions,
    load,
)
from trellis.core import stage_times
from trellis.core.stage_times import STAGES
from trellis.hmm.input_output import GaussianRegression
from trellis.speech import Aligner, synthetic_corpus
from trellis.training.fit import TrainingWarning

RNG = np.random.default_rng(0)
WORDS = [[f"w{i}" for i in RNG.integers(0, 500, 20)] for _ in range(200)]
TAGS = [[f"t{int(word[1:]) % 7}" for word in words] for words in WORDS]
GRAPHS = [Graph.tree([-1, 0, 0, 1, 1], RNG.normal(size=(5, 2))) for _ in range(40)]
LABELS = [np.where(g.nodes[:, 0] > 0, "up", "down").tolist() for g in GRAPHS]
LEVELS = [np.repeat([0.0, 6.0, 0.0], 30)[:, None] + RNG.normal(size=(90, 1)) for _ in range(10)]
SYMBOLS = [RNG.integers(0, 3, 200) for _ in range(20)]
LABELLER = ["encoding", "arranging", "training", "checking"]
CASES: dict[str, tuple[Any, tuple[Any, ...], list[str]]] = {
    "SequenceLabeler": (SequenceLabeler(), (WORDS, TAGS), LABELLER),
    "MEMM": (MEMM(), (WORDS, TAGS), LABELLER),
    "GraphLabeler": (GraphLabeler("log"), (GRAPHS, LABELS), LABELLER),
    "HMM": (HMM(2, emissions.Gaussian(), random_state=0), (LEVELS,), ["encoding", "training"]),
    "HMM, counted": (
        HMM(2, emissions.Gaussian()),
        (LEVELS, [(x[:, 0] > 3).astype(int) for x in LEVELS]),
        ["encoding", "training"],
    ),
    "IOHMM": (IOHMM(2, random_state=0), (LEVELS, LEVELS), ["encoding", "training"]),
    "LinearGaussian": (LinearGaussian(2, random_state=0), (LEVELS,), ["encoding", "training"]),
    "SpectralHMM": (SpectralHMM(1), (SYMBOLS,), ["encoding", "training"]),
    "Aligner": (
        Aligner(classifier="mlp", max_iter=2),
        (synthetic_corpus(),),
        ["reading and encoding", "classifiers", "training", "calibrating"],
    ),
}


OUTSIDE = 30  # calls of ``fit`` that may belong to no stage: its first and its last lines


class Clock:
    """Its time is the number of calls of functions, while it measures."""

    def __init__(self) -> None:
        self.calls = 0.0

    def perf_counter(self) -> float:
        return self.calls

    def measure(self, work: Callable[[], object]) -> float:
        before, began = sys.getprofile(), self.calls
        sys.setprofile(self._called)
        try:
            work()
        finally:
            sys.setprofile(before)
        return self.calls - began

    def _called(self, frame: object, event: str, argument: object) -> None:
        self.calls += event in ("call", "c_call")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The one by which stages are measured."""
    found = Clock()
    monkeypatch.setattr(stage_times, "time", found)
    return found


def check_stages(model: Any, spent: float, names: list[str]) -> None:
    """``spent``: what ``fit`` took."""
    assert list(model.fit_seconds_) == names
    assert set(names) <= set(STAGES)
    assert all(seconds > 0 for seconds in model.fit_seconds_.values())
    assert spent - OUTSIDE <= sum(model.fit_seconds_.values()) <= spent


@pytest.mark.parametrize("name", CASES)
def test_stages_add_up_and_are_saved(name: str, clock: Clock, tmp_path: Path) -> None:
    model, data, names = CASES[name]
    spent = clock.measure(lambda: model.fit(*data))
    check_stages(model, spent, names)
    model.save(tmp_path / "model")
    found = load(tmp_path / "model").fit_seconds_
    assert list(found.items()) == list((model.fit_seconds_ or {}).items())
    assert "fit_seconds_" in str(type(model).__doc__)
    meta, arrays = model.to_state()
    del meta["fitted"]["fit_seconds_"]  # as of a file of an earlier version
    assert type(model).from_state(meta, arrays).fit_seconds_ is None


def test_stages_of_a_network(clock: Clock, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from trellis.neural import NeuralSequenceLabeler

    model = NeuralSequenceLabeler(max_epochs=2, hidden=8, random_state=0)
    spent = clock.measure(lambda: model.fit(WORDS, TAGS))
    check_stages(model, spent, ["encoding", "training", "checking"])
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").fit_seconds_ == model.fit_seconds_


def test_files_are_read_and_encoded_at_once(clock: Clock, tmp_path: Path) -> None:
    lines = "\n\n".join(
        "\n".join(f"{w} {t}" for w, t in zip(words, tags, strict=True))
        for words, tags in zip(WORDS, TAGS, strict=True)
    )
    (tmp_path / "words.txt").write_text(lines + "\n")
    names = ["reading and encoding", *LABELLER[1:]]
    for given in (str(tmp_path / "words.txt"), ShardFiles(tmp_path / "words.txt")):
        for labeller in (SequenceLabeler(max_iter=3), MEMM(max_iter=3)):
            spent = clock.measure(partial(labeller.fit, given))
            check_stages(labeller, spent, names)
    np.savez(tmp_path / "levels.npz", X=np.concatenate(LEVELS), lengths=[90] * 10)
    for model in (HMM(2, emissions.Gaussian(), max_iter=3), LinearGaussian(2, max_iter=3)):
        model.fit(tmp_path / "levels.npz")
        assert list(model.fit_seconds_ or ()) == ["reading and encoding", "training"]
        model.fit(LEVELS)
        assert list(model.fit_seconds_ or ()) == ["encoding", "training"]


def test_data_in_memory_on_a_backend_are_only_encoded() -> None:
    model = HMM(2, emissions.Gaussian(), max_iter=3, random_state=0, backend="threads").fit(LEVELS)
    assert list(model.fit_seconds_ or ()) == ["encoding", "training"]


def test_what_is_no_fit_has_no_stages() -> None:
    labeller = SequenceLabeler(max_iter=3).fit(WORDS, TAGS)
    assert labeller.partial_fit(WORDS, TAGS).fit_seconds_ is None
    hidden = HMM(2, emissions.Gaussian(), max_iter=3, random_state=0).fit(LEVELS)
    assert hidden.partial_fit(LEVELS).fit_seconds_ is None
    regression = GaussianRegression(weights=np.zeros((1, 1, 2)), covariances=np.ones((1, 1)))
    assert IOHMM.from_parameters(np.zeros((1, 2)), np.zeros((1, 1, 2)), regression).fit_seconds_ is None
    assert SpectralHMM(1).fit(SYMBOLS).fit_moments(np.ones((2, 2, 2))).fit_seconds_ is None
    assert not hasattr(SequenceLabeler(), "fit_seconds_")


def test_discriminative_training_has_its_stages(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it imports on first use belongs to them, too."""
    monkeypatch.delitem(sys.modules, "trellis.hmm.learning.discriminative", raising=False)
    states = [(x[:, 0] > 3).astype(int) for x in LEVELS]
    model = HMM(2, emissions.Gaussian("diag"))
    spent = clock.measure(lambda: model.fit_discriminative(LEVELS, states, max_iter=5))
    check_stages(model, spent, ["encoding", "training"])


def test_a_warning_that_is_an_error_leaves_the_stages_of_the_new_weights() -> None:
    model = SequenceLabeler(max_iter=3).fit(WORDS, TAGS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TrainingWarning, match="the label 'a'"):
            model.fit([["same", "same"]] * 30, [["a", "a"]] * 29 + [["b", "b"]])
    assert list(model.classes_) == ["a", "b"]
    assert list(model.fit_seconds_ or ()) == LABELLER[:-1]


def test_copies_keep_the_stages_and_clones_do_not() -> None:
    model = SequenceLabeler(max_iter=3).fit(WORDS, TAGS)
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert list(other.fit_seconds_.items()) == list((model.fit_seconds_ or {}).items())
    assert not hasattr(clone(model), "fit_seconds_")


def test_a_resumed_fit_counts_from_where_it_resumed(clock: Clock, tmp_path: Path) -> None:
    spent = list[float]()

    def fit(folder: Path) -> SequenceLabeler:
        model = SequenceLabeler(checkpoint=folder, max_iter=20, random_state=0)
        spent.append(clock.measure(lambda: model.fit(WORDS, TAGS)))
        return model

    model, times = stopped_again_and_again(fit, tmp_path / "checkpoints", every=6)
    assert times > 0
    check_stages(model, spent[-1], LABELLER)  # of the last call alone


OLD = ["SequenceLabeler", "MEMM", "GraphLabeler", "HMM", "LinearGaussian", "SpectralHMM"]


@pytest.mark.parametrize("kind", OLD)
def test_files_of_earlier_versions_have_none(kind: str) -> None:
    assert load(Path(__file__).parent / "model_files" / "0.1" / f"{kind}.trellis").fit_seconds_ is None


def test_the_page_of_reports_has_every_stage() -> None:
    page = (Path(__file__).parents[1] / "docs" / "reports.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| ([a-z ]+?) \|", page.partition("| stage of `fit`")[2], re.MULTILINE) == list(
        STAGES
    )
