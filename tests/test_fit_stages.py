"""``fit_seconds_``: the stages of a fit add up to its time and are saved; without a fit there are none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
from trellis.core.estimator import Model
from trellis.core.stage_times import STAGES
from trellis.hmm.input_output import GaussianRegression
from trellis.speech import Aligner, synthetic_corpus

RNG = np.random.default_rng(0)
WORDS = [[f"w{i}" for i in RNG.integers(0, 500, 20)] for _ in range(200)]
TAGS = [[f"t{int(word[1:]) % 7}" for word in words] for words in WORDS]
GRAPHS = [Graph.tree([-1, 0, 0, 1, 1], RNG.normal(size=(5, 2))) for _ in range(40)]
LABELS = [np.where(g.nodes[:, 0] > 0, "up", "down").tolist() for g in GRAPHS]
LEVELS = [np.repeat([0.0, 6.0, 0.0], 30)[:, None] + RNG.normal(size=(90, 1)) for _ in range(10)]
SYMBOLS = [RNG.integers(0, 3, 200) for _ in range(20)]
LABELLER = ["encoding", "arranging", "training", "checking"]
CASES: dict[str, tuple[Model, tuple[Any, ...], list[str]]] = {
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


def check_stages(model: Any, wall: float, names: list[str]) -> None:
    """All but the first and the last lines of ``fit`` belong to a stage, so the bound is far from tight."""
    assert list(model.fit_seconds_) == names
    assert set(names) <= set(STAGES)
    assert all(spent >= 0 for spent in model.fit_seconds_.values())
    assert 0.8 * wall <= sum(model.fit_seconds_.values()) <= wall


@pytest.mark.parametrize("name", CASES)
def test_stages_add_up_and_are_saved(name: str, tmp_path: Path) -> None:
    model, data, names = CASES[name]
    began = time.perf_counter()
    model.fit(*data)  # type: ignore[attr-defined]
    check_stages(model, time.perf_counter() - began, names)
    model.save(tmp_path / "model")
    found = load(tmp_path / "model").fit_seconds_
    assert list(found.items()) == list((model.fit_seconds_ or {}).items())
    assert "fit_seconds_" in str(type(model).__doc__)


def test_stages_of_a_network(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from trellis.neural import NeuralSequenceLabeler

    model = NeuralSequenceLabeler(max_epochs=2, hidden=8, random_state=0)
    began = time.perf_counter()
    model.fit(WORDS, TAGS)
    check_stages(model, time.perf_counter() - began, ["encoding", "training", "checking"])
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").fit_seconds_ == model.fit_seconds_


def test_files_are_read_and_encoded_at_once(tmp_path: Path) -> None:
    lines = "\n\n".join(
        "\n".join(f"{w} {t}" for w, t in zip(words, tags, strict=True))
        for words, tags in zip(WORDS, TAGS, strict=True)
    )
    (tmp_path / "words.txt").write_text(lines + "\n")
    names = ["reading and encoding", *LABELLER[1:]]
    for given in (str(tmp_path / "words.txt"), ShardFiles(tmp_path / "words.txt")):
        for labeller in (SequenceLabeler(max_iter=3), MEMM(max_iter=3)):
            began = time.perf_counter()
            labeller.fit(given)
            check_stages(labeller, time.perf_counter() - began, names)
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


def test_discriminative_training_has_its_stages() -> None:
    states = [(x[:, 0] > 3).astype(int) for x in LEVELS]
    model = HMM(2, emissions.Gaussian("diag"))
    began = time.perf_counter()
    model.fit_discriminative(LEVELS, states, max_iter=5)
    check_stages(model, time.perf_counter() - began, ["encoding", "training"])


def test_a_resumed_fit_counts_from_where_it_resumed(tmp_path: Path) -> None:
    spent = list[float]()

    def fit(folder: Path) -> SequenceLabeler:
        began = time.perf_counter()
        model = SequenceLabeler(checkpoint=folder, max_iter=20, random_state=0).fit(WORDS, TAGS)
        spent.append(time.perf_counter() - began)
        return model

    model, times = stopped_again_and_again(fit, tmp_path / "checkpoints", every=6)
    assert times > 0
    check_stages(model, spent[-1], LABELLER)  # of the last call alone


OLD = ["SequenceLabeler", "MEMM", "GraphLabeler", "HMM", "LinearGaussian", "SpectralHMM"]


@pytest.mark.parametrize("kind", OLD)
def test_files_of_earlier_versions_have_none(kind: str) -> None:
    assert load(Path(__file__).parent / "model_files" / "0.1" / f"{kind}.trellis").fit_seconds_ is None
