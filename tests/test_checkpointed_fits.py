"""Every long fit, stopped again and again: the model at the end is that of a fit that was never stopped."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import small_emissions
from stopped_fits import learned, stopped_again_and_again, storing
from trellis import HMM, IOHMM, MEMM, BayesianNetwork, Graph, GraphLabeler, LinearGaussian, SequenceLabeler
from trellis.objectives import Direct
from trellis.solvers import LBFGS, CuttingPlane, FrankWolfe
from trellis.training import checkpoints

pytestmark = pytest.mark.filterwarnings("ignore::trellis.training.TrainingWarning")


def _words(n: int = 24) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(1)
    tags = [[f"{'OBI'[k]}" for k in rng.integers(0, 3, rng.integers(1, 7))] for _ in range(n)]
    noisy = [[f"w{'OBI'.index(t) if rng.random() < 0.8 else rng.integers(3)}" for t in one] for one in tags]
    return noisy, tags


WORDS, TAGS = _words()
HIDDEN = [[None if i == 1 else tag for i, tag in enumerate(one)] for one in TAGS]


def _grids() -> tuple[list[Graph], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    images = [np.triu(np.ones((3, 3), dtype=int)), np.eye(3, dtype=int), np.tri(3, dtype=int)] * 3
    return [Graph.grid((image + 0.8 * rng.normal(size=(3, 3)))[..., None]) for image in images], images


GRIDS, IMAGES = _grids()
MASKED: list[Any] = [[None if i == 4 else int(k) for i, k in enumerate(image.ravel())] for image in IMAGES]


@dataclass(frozen=True)
class Fit:
    """``fit(**options, checkpoint=...)``; ``every``: iterations between two stops."""

    fit: Callable[..., Any]
    options: dict[str, Any] = field(default_factory=dict)
    every: int = 2

    def __call__(self, folder: Path | None = None) -> Any:
        return self.fit(**self.options, checkpoint=folder)


def _chain(objective: Any, solver: Any = "auto", *, every: int = 2, y: Any = TAGS, **options: Any) -> Fit:
    given = {"max_iter": 7, "random_state": 3, "verbose": False, "solver": solver, **options}
    return Fit(lambda **more: SequenceLabeler(objective, **more).fit(WORDS, y), given, every)


def _graph(objective: Any, solver: Any = "auto", *, every: int = 2, y: Any = IMAGES, **options: Any) -> Fit:
    given = {"max_iter": 7, "random_state": 3, "verbose": False, "solver": solver, **options}
    return Fit(lambda **more: GraphLabeler(objective, **more).fit(GRIDS, y), given, every)


CHAINS = {
    "lbfgs": _chain("log"),
    "lbfgs, start passes": _chain("log", LBFGS(start_passes=2, tol=1e-9)),
    "lbfgs, sample weights": _chain("softmax_margin", class_weight="balanced"),
    "lbfgs, stopped early": _chain("log", holdout=0.25),
    "lbfgs, pairs": _chain("log", transitions="observed"),
    "lbfgs, hidden labels": _chain("log", y=HIDDEN),
    "owlqn": _chain("log", l1=0.3, max_iter=14),
    "sag": _chain("log", "sag"),
    "sag, pairs": _chain("log", "sag", transitions="observed"),
    "cutting planes": _chain("margin", "cutting_plane"),
    "n-slack": _chain("margin", CuttingPlane("n_slack", tol=1e-9), max_iter=15),
    "Frank-Wolfe": _chain("margin", FrankWolfe(tol=0.0, cache=2)),
    "Frank-Wolfe, average": _chain("slack", FrankWolfe(tol=0.0, average=True)),
    "Frank-Wolfe, pairs": _chain("margin", FrankWolfe(tol=0.0), transitions="observed"),
    "CCCP": _chain("margin", "cccp", latent_states=2, tol=0.0),
    "subgradient": _chain("margin", "subgradient"),
    "sgd": _chain("log", "sgd"),
    "adagrad": _chain("log", "adagrad"),
    "adam": _chain("squared_margin", "adam"),
    "adam, pairs": _chain("log", "adam", transitions="observed"),
    "perceptron": _chain("perceptron"),
    "perceptron, separable": _chain("perceptron", y=[[w.upper() for w in one] for one in WORDS], every=1),
    "passive-aggressive": _chain("margin", "passive_aggressive"),
    "minibatch, candidates": _chain("risk", loss="span_f1", max_iter=4),
    "latent states": _chain("log", latent_states=2),
    "latent states, direct": _chain(Direct(1.0), latent_states=2),
    "ramp after a warm start": _chain("ramp", max_iter=5),
    "direct, whole recipe": _chain("direct", max_iter=4, every=9),
    "direct, one hold-out": _chain("direct", holdout=0.3, max_iter=4, every=5),
    "direct, epsilon searched": _chain(Direct("holdout", candidates=(0.5, 2.0)), holdout=0.3, max_iter=4),
    "direct, falling epsilon": _chain(Direct("decay"), max_iter=4),
}
GRAPHS = {
    "cutting planes": _graph("margin", "cutting_plane"),
    "Frank-Wolfe": _graph("margin", FrankWolfe(tol=0.0)),
    "lbfgs": _graph("log"),
    "pseudo-likelihood": _graph("pseudo_likelihood", l1=0.1),
    "sag": _graph("pseudo_likelihood", "sag"),
    "perceptron": _graph("perceptron"),
    "CCCP": _graph("margin", "cccp", y=MASKED, tol=0.0),
    "minibatch": _graph("ramp", max_iter=4, every=3),
    "direct, whole recipe": _graph("direct", max_iter=3, every=9),
}


def _hmm(emission: Any, values: Any, **options: Any) -> Fit:
    given = {"n_init": 2, "max_iter": 5, "tol": 0.0, "random_state": 0, "verbose": False, **options}

    def fit(**more: Any) -> HMM:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return HMM(3, emission, **more).fit(values, lengths=[len(values) - 40, 40])

    return Fit(fit, given)


def _emission(name: str) -> Fit:
    emission, values = small_emissions.example(name, n=120)
    return _hmm(emission, values)


def _io(emission: str, **options: Any) -> Fit:
    rng = np.random.default_rng(2)
    inputs = rng.normal(size=(60, 2))
    X = rng.integers(0, 3, 60) if emission == "categorical" else rng.normal(size=(60, 2))
    given = {"n_init": 2, "max_iter": 4, "tol": 0.0, "random_state": 0, "verbose": False, **options}
    return Fit(lambda **more: IOHMM(2, emission, **more).fit(X, inputs), given)


def _discriminative(checkpoint: Any) -> HMM:
    rng = np.random.default_rng(3)
    states = [rng.integers(0, 2, 6) for _ in range(9)]
    X = [z[:, None] + rng.normal(size=(6, 1)) for z in states]
    some = [np.where(np.arange(6) == 2, -1, z) for z in states]
    model = HMM(2, small_emissions.Gaussian("diag"), max_iter=4, tol=0.0, random_state=0, verbose=False)
    return model.set_params(checkpoint=checkpoint).fit_discriminative(X, some, max_iter=5)


def _network(**options: Any) -> BayesianNetwork:
    rng = np.random.default_rng(0)
    states = {name: ["no", "yes"] for name in "ABCD"}
    net = BayesianNetwork(states, {"B": ["A"], "C": ["A"], "D": ["B", "C"]}, "uniform")
    rows = rng.integers(0, 2, (60, 4)).astype(object)
    rows[:, 3] = rows[:, 1] | rows[:, 2]
    rows[rng.random((60, 4)) < 0.3] = None
    names = {0: "no", 1: "yes", None: None}
    frame = {name: [names[x] for x in rows[:, i]] for i, name in enumerate("ABCD")}
    return net.fit(frame, max_iter=6, tol=0.0, **options)


def _series() -> np.ndarray:
    X = np.cumsum(np.random.default_rng(4).normal(size=(50, 2)), axis=0)
    X[7, 1] = np.nan
    return X


OTHERS = {
    "MEMM": Fit(lambda **more: MEMM(max_iter=7, verbose=False, **more).fit(WORDS, TAGS)),
    "MEMM, shards": Fit(
        lambda **more: MEMM(max_iter=7, verbose=False, backend="threads", **more).fit(WORDS, TAGS)
    ),
    "MEMM, l1": Fit(lambda **more: MEMM(l1=0.2, max_iter=7, verbose=False, **more).fit(WORDS, TAGS)),
    "IO-HMM, Gaussian": _io("gaussian"),
    "IO-HMM, categorical": _io("categorical"),
    "HMM, discriminative": Fit(_discriminative),
    "Kalman": Fit(
        lambda **more: LinearGaussian(2, max_iter=7, tol=0.0, random_state=1, **more).fit(_series())
    ),
    "network, own start": Fit(lambda **more: _network(start="random", random_state=5, **more)),
    "network, starts": Fit(lambda **more: _network(start="random", n_init=3, random_state=5, **more)),
}
CELLS = {
    **{f"chain: {name}": fit for name, fit in CHAINS.items()},
    **{f"graph: {name}": fit for name, fit in GRAPHS.items()},
    **{f"HMM: {name}": _emission(name) for name in small_emissions.NAMES},
    **OTHERS,
}


@pytest.mark.parametrize("name", CELLS)
def test_a_stopped_fit_ends_in_the_same_model(name: str, tmp_path: Path) -> None:
    cell = CELLS[name]
    whole = cell()
    resumed, times = stopped_again_and_again(cell, tmp_path / "run", cell.every)
    assert times >= 1
    assert learned(resumed) == learned(whole)
    with storing(0.0):  # the end is kept: it answers at once
        again, times = stopped_again_and_again(cell, tmp_path / "run", 0)
    assert times == 0
    assert learned(again) == learned(whole)


class _Killing:
    """Ends the process by ``kill -9`` at the n-th file, while it is written."""

    def __init__(self, at: int) -> None:
        self.at, self.written, self.fsync = at, 0, os.fsync

    def __call__(self, descriptor: int) -> None:
        self.written += 1
        if self.written >= self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.fsync(descriptor)


FAMILIES = ("chain: lbfgs", "chain: direct, whole recipe", "chain: perceptron", "graph: CCCP", "HMM: full",
            "IO-HMM, Gaussian", "Kalman", "network, starts", "MEMM")  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.parametrize("name", FAMILIES)
def test_a_killed_process_loses_nothing(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is killed while it writes a file, once it has written some; the next goes on."""
    cell, folder = CELLS[name], tmp_path / "run"
    whole = cell()
    monkeypatch.setattr(checkpoints, "SHARE", np.inf)
    for at in (1, 4, 7, 5):
        child = os.fork()
        if child == 0:
            os.fsync = _Killing(at)
            try:
                cell(folder)
            finally:
                os._exit(0)
        _, ended = os.waitpid(child, 0)
        assert os.WIFEXITED(ended) or os.WTERMSIG(ended) == signal.SIGKILL
        assert len([p for p in folder.iterdir() if not p.name.endswith(".partial")]) <= 2
    assert os.listdir(folder)
    assert learned(cell(folder)) == learned(whole)
    assert [p.name for p in folder.iterdir() if p.name.endswith(".partial")] == []
