"""One Ctrl-C ends whatever is going on: every ``fit`` raises, and models keep what they had learned."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score

from tagging import noisy_words
from trellis import (
    HMM,
    IOHMM,
    MEMM,
    Graph,
    GraphLabeler,
    LinearGaussian,
    SequenceLabeler,
    emissions,
    objectives,
)
from trellis.bayesnet import NetworkBuilder
from trellis.hmm import fit_mixture
from trellis.training import driver

WORDS, LABELS = noisy_words(30)
RNG = np.random.default_rng(0)
SIGNALS = [RNG.normal(size=(n, 2)) for n in (30, 20, 10)]
INPUTS = [RNG.normal(size=(len(x), 1)) for x in SIGNALS]
GRAPHS = [Graph.grid(RNG.normal(size=(3, 3, 2))) for _ in range(10)]
NODES = [(graph.nodes[:, 0] > 0).astype(int) for graph in GRAPHS]

MODELS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "log": (SequenceLabeler(tol=1e-9), (WORDS, LABELS)),
    "margin": (SequenceLabeler("margin", tol=1e-9), (WORDS, LABELS)),
    "ramp, warm start": (SequenceLabeler("ramp", random_state=0), (WORDS, LABELS)),
    "direct, search": (
        SequenceLabeler(objectives.Direct(epsilon="holdout"), holdout=0.2, random_state=0, patience=50),
        (WORDS, LABELS),
    ),
    "latent": (SequenceLabeler("margin", latent_states=2, random_state=0), (WORDS, LABELS)),
    "memm": (MEMM(tol=1e-9), (WORDS, LABELS)),
    "graphs": (GraphLabeler(random_state=0, tol=1e-9), (GRAPHS, NODES)),
    "hmm": (HMM(2, emissions.Gaussian(), random_state=0, n_init=3, tol=1e-12), (SIGNALS,)),
    "io_hmm": (IOHMM(2, random_state=0, n_init=2, tol=1e-12), (SIGNALS, INPUTS)),
    "linear_gaussian": (LinearGaussian(2, random_state=0, tol=1e-12), (SIGNALS,)),
}


class Interrupter:
    """A clock for the driver that sends SIGINT to the process when it is read for the ``at``-th time."""

    def __init__(self, at: int) -> None:
        self.at, self.reads = at, 0

    def perf_counter(self) -> float:
        self.reads += 1
        if self.reads == self.at:
            signal.raise_signal(signal.SIGINT)
        return time.perf_counter()


@pytest.fixture
def interrupt(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Interrupter]:
    """Ctrl-C at a given reading of the driver's clock: 1 is its start, 2 the end of the first iteration."""
    monkeypatch.setattr(
        signal, "getsignal", signal.getsignal
    )  # pytest's own handler raises KeyboardInterrupt

    def start(at: int) -> Interrupter:
        clock = Interrupter(at)
        monkeypatch.setattr(driver, "time", clock)
        return clock

    return start


@pytest.mark.parametrize("at", [2, 4])
@pytest.mark.parametrize("name", MODELS)
def test_fit_raises_and_the_model_is_kept(
    name: str, at: int, interrupt: Callable[[int], Interrupter]
) -> None:
    model, data = MODELS[name]
    model = clone(model)
    clock = interrupt(at)
    with pytest.raises(KeyboardInterrupt, match="keeps what it had learned"):
        model.fit(*data)
    assert clock.reads == at  # no other start, warm start or epsilon was begun
    assert "interrupted" in str(model.status_)
    assert np.isfinite(model.score(*data))


def test_functions_without_a_model_raise(interrupt: Callable[[int], Interrupter]) -> None:
    rows = np.concatenate(SIGNALS)
    shares = RNG.dirichlet([1.0, 1.0], len(rows))
    net = (
        NetworkBuilder()
        .variable("a", ["x", "y"])
        .variable("b", ["x", "y"], given="a")
        .build(missing="uniform")
    )
    frame = {"a": [None, "x", "y", None], "b": ["x", "y", None, "x"]}
    for work in (
        lambda: fit_mixture(rows, emissions.Gaussian(), shares, tol=1e-12),
        lambda: net.fit(frame, tol=1e-12),
    ):
        interrupt(3)
        with pytest.raises(KeyboardInterrupt):
            work()


@pytest.mark.parametrize("name", ["log", "graphs", "hmm"])
def test_one_ends_a_search(name: str, interrupt: Callable[[int], Interrupter]) -> None:
    model, data = MODELS[name]
    grid = {"max_iter": [5, 6, 7]}
    for search in (
        lambda: GridSearchCV(model, grid, cv=2).fit(*data),
        lambda: cross_val_score(model, *data, cv=2),
        lambda: cross_val_predict(model, *data, cv=2),
    ):
        clock = interrupt(3)
        with pytest.raises(KeyboardInterrupt):
            search()
        assert clock.reads == 3
