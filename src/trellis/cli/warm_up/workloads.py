"""A little of the everyday work of each area, whose only purpose is what gets compiled on the way.

The data have the types that users' data have after encoding, so the signatures are those of real calls. What
no workload touches is compiled when it is first used. Sizes are those of the blocks in docs/tour.md: some
kernels take over where data are no longer tiny.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

Tokens = list[list[dict[str, Any]]]


def _sentences() -> tuple[Tokens, list[list[str]]]:
    words = [["Ada", "met", "Charles"], ["They", "left", "New", "York"], ["Charles", "left"]] * 2
    labels = [["B-PER", "O", "B-PER"], ["O", "O", "B-LOC", "I-LOC"], ["B-PER", "O"]] * 2
    return [[{"word": w, "title": w.istitle()} for w in sentence] for sentence in words], labels


def labeler() -> None:
    """The labeller of sequences under its default objective: learn, label, marginals, k best, save, load."""
    from trellis import SequenceLabeler, load
    from trellis.solvers import LBFGS

    X, y = _sentences()
    with tempfile.TemporaryDirectory() as folder:
        for constraints in ("bio", None):
            model = SequenceLabeler(objective="log", constraints=constraints, l2=0.1).fit(X, y)
            model.predict(X)
            model.predict_marginals(X)
            model.predict_k_best(X, k=3)
            model.score(X, y)
            path = Path(folder) / "model.trellis"
            model.save(path)
            load(path)
    strings = [[list(token)[:1] for token in x] for x in X]
    SequenceLabeler(max_iter=2).fit(strings, y).predict(strings)
    SequenceLabeler(l2=0.1, solver=LBFGS(start_passes=1), max_iter=2).fit(X, y)  # as large data start
    arrays = [np.ones((len(x), 2)) for x in X]
    SequenceLabeler(max_iter=2).fit(arrays, y).predict(arrays)
    many = [[str(i) for i in range(40)]]  # more labels than the kernel for few of them takes
    SequenceLabeler(max_iter=1).fit([np.eye(40)], many).predict([np.eye(40)])


def objectives() -> None:
    """The other objectives, each with the solver that is chosen for it."""
    from trellis import SequenceLabeler
    from trellis.objectives import OBJECTIVES

    X, y = _sentences()
    for name in OBJECTIVES:
        if name != "log":
            SequenceLabeler(objective=name, max_iter=2, random_state=0).fit(X, y).predict(X)


def files() -> None:
    """The commands on a column file."""
    from trellis.cli.app import app

    X, y = _sentences()
    rows = [
        "\n".join(f"{t['word']} {label}" for t, label in zip(*one, strict=True))
        for one in zip(X, y, strict=True)
    ]
    with tempfile.TemporaryDirectory() as folder:
        data, model = os.path.join(folder, "data.txt"), os.path.join(folder, "model.trellis")
        Path(data).write_text("\n\n".join(rows) + "\n", encoding="utf-8")
        for command in (
            ["train", data, "-o", model, "--quiet"],
            ["tag", model, data],
            ["evaluate", model, data],
        ):
            app(command, standalone_mode=False)


def hmm() -> None:
    """Hidden Markov models: Gaussian and categorical, with and without missing values."""
    from trellis import HMM, emissions

    rng = np.random.default_rng(0)
    signals = [np.repeat([0.0, 3.0, -3.0], 40)[:, None] + rng.normal(size=(120, 2)) for _ in range(5)]
    holes = [signal.copy() for signal in signals]
    holes[0][3, 1] = np.nan
    symbols = [rng.integers(3, size=30) for _ in range(3)]
    kinds: list[tuple[Any, Any]] = [
        (emissions.Gaussian("diag"), holes),
        (emissions.Gaussian("diag"), signals),
        (emissions.Gaussian("full"), signals),
        (emissions.Categorical(3), symbols),
    ]
    for emission, data in kinds:
        model = HMM(n_states=3, emission=emission, n_init=5, random_state=0).fit(data)
        model.decode(data)
        model.smooth(data)
        model.predict_next(data, steps=2)


def kalman() -> None:
    """Linear Gaussian models: EM, filter and smoother, with and without missing values."""
    from trellis import LinearGaussian

    rng = np.random.default_rng(0)
    walks = [np.cumsum(rng.normal(size=(40, 2)), 0) for _ in range(2)]
    holes = [walk.copy() for walk in walks]
    holes[0][3, 1] = np.nan
    for data in (walks, holes):
        model = LinearGaussian(n_states=2, max_iter=3, random_state=0).fit(data)
        model.smooth(data)
        model.filter(data)


def network() -> None:
    """Bayesian networks: questions, the best explanation, reasons for separation."""
    from trellis.bayesnet import NetworkBuilder

    net = (
        NetworkBuilder()
        .variable("Rain", ["yes", "no"], [0.2, 0.8])
        .variable("Sprinkler", ["yes", "no"], {"yes": [0.01, 0.99], "no": [0.4, 0.6]}, given="Rain")
        .variable("Wet", ["yes", "no"], {"yes": [0.9, 0.1], "no": [0.1, 0.9]}, given="Sprinkler")
        .build()
    )
    net.query("Rain", evidence={"Wet": "yes"})
    net.query(["Rain", "Sprinkler"])
    net.mpe(evidence={"Wet": "yes"})
    net.explain_separation("Rain", "Wet", given=["Sprinkler"])


def graph() -> None:
    """Labelled graphs: the default objectives on grids, and relaxed answers."""
    from trellis import Graph, GraphLabeler

    rng = np.random.default_rng(0)
    shapes = [np.kron(rng.integers(2, size=(3, 3)), np.ones((4, 4), int)) for _ in range(12)]
    graphs = [Graph.grid(shape + rng.normal(0.0, 0.6, shape.shape)) for shape in shapes]
    model = GraphLabeler(objective="margin", loss="hamming", random_state=0).fit(graphs, shapes)
    model.score(graphs, shapes)
    list(model.predict_relaxed(graphs))


def neural() -> None:
    """The structured layers of PyTorch networks."""
    import torch

    from trellis.neural import Chain, decode, structured_loss

    gold, lengths = torch.randint(5, (4, 6)), torch.tensor([6, 4, 3, 1])
    for objective in ("log", "margin"):
        scores = torch.randn(4, 6, 5, requires_grad=True)
        chain = Chain(torch.zeros(5, 5, requires_grad=True))
        loss = structured_loss(chain, scores, gold, lengths=lengths, objective=objective, loss="hamming")
        loss.backward()  # type: ignore[no-untyped-call]
        decode(chain, scores, lengths=lengths)


# the longest first, so that the last process to end is a short one
AREAS: dict[str, Callable[[], None]] = {
    work.__name__: work for work in (objectives, labeler, neural, kalman, hmm, graph, files, network)
}
_NEEDS = {"neural": "torch"}


def available_areas() -> tuple[list[str], dict[str, str]]:
    """The areas that can be compiled here, and what the others lack."""
    missing = {area: module for area, module in _NEEDS.items() if find_spec(module) is None}
    return [area for area in AREAS if area not in missing], missing


def print_loaded(area: str) -> None:
    """Do the work of one area, and print the names of the kernels that were loaded for it on stderr.

    Where all are compiled, these are the ones that Python calls; what only kernels call is part of them.
    """
    import gc
    import sys

    from trellis.core.kernel_cache import KernelCache

    warnings.simplefilter("ignore")
    AREAS[area]()
    caches = [one for one in gc.get_objects() if isinstance(one, KernelCache)]
    print("\n".join(cache._impl.filename_base for cache in caches if cache.loaded), file=sys.stderr)


def run(area: str) -> None:
    """Do the work of one area, in a process of its own; its warnings are about toy data."""
    warnings.simplefilter("ignore")
    AREAS[area]()
