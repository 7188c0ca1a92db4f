"""Every kind of model file: small models to begin from, and what to do with what is loaded."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from fuzz_mutations import Arrays, mutate_model, read_model, write_model

from trellis.core.errors import TrellisError
from trellis.core.persistence import load

WORDS = [["the", "cat", "sees", "a", "dog"], ["a", "dog", "sleeps"], ["the", "dog"]] * 3
TAGS = [["D", "N", "V", "D", "N"], ["D", "N", "V"], ["D", "N"]] * 3
PAIRS = [("D", "N"), ("N", "V"), ("V", "D"), ("N", "D")]
RNG = np.random.default_rng(0)
SIGNALS = [RNG.normal(size=(20, 2)) for _ in range(4)]
SYMBOLS = [RNG.integers(4, size=20) for _ in range(4)]

Finds = Callable[[dict[str, Any], Arrays], None]


@dataclass(frozen=True)
class Model:
    """``make_models`` gives fitted models; ``work`` does all that a loaded one can do.

    Loading may raise a ``TrellisError``; what has loaded works, or says so by a ``TrellisError``.
    """

    make_models: Callable[[], list[Any]]
    work: Callable[[Any], None]
    finds: tuple[Finds, ...] = ()

    def use(self, path: Path) -> None:
        model = load(path)
        if hasattr(model, "n_jobs"):
            model.n_jobs = 1
        self.work(model)
        model.save(path.with_name("again.trellis"))
        load(path.with_name("again.trellis"))

    def make(self, rng: random.Random, path: Path) -> tuple[Path, str]:
        head, arrays = rng.choice(_saved(self.make_models))
        path = path.with_suffix(".trellis")
        head, arrays, said = mutate_model(rng, head, arrays)
        write_model(path, head, arrays)
        if rng.random() < 0.05:
            content = bytearray(path.read_bytes())
            for _ in range(rng.choice([1, 3, 10])):
                content[rng.randrange(len(content))] = rng.randrange(256)
            path.write_bytes(content[: rng.randrange(len(content))] if rng.random() < 0.3 else content)
            said = "bytes"
        return path, said

    def known(self, path: Path) -> list[tuple[Path, str]]:
        made = []
        saved = _saved(self.make_models)
        for i, (head, arrays) in enumerate(saved):
            file = path.with_name(f"known{i}.trellis")
            write_model(file, head, arrays)
            made.append((file, "as saved"))
        for i, find in enumerate(self.finds):
            file = path.with_name(f"find{i}.trellis")
            made.append((file, f"find {i}"))
            for head, arrays in saved:
                changed = _copy(head), dict(arrays)
                try:
                    find(*changed)
                except (KeyError, TypeError, StopIteration):
                    continue  # not about this one
                write_model(file, *changed)
                break
        return made


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


@cache
def _saved(make: Callable[[], list[Any]]) -> list[tuple[dict[str, Any], Arrays]]:
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for model in make():
            model.save(Path(folder, "m"))
            found.append(read_model(Path(folder, "m")))
    return found


def _allowed(*calls: Callable[[], object]) -> None:
    for call in calls:
        with suppress(TrellisError):
            call()


# -- chains ------------------------------------------------------------------------------------------------


def _sequence_labelers() -> list[Any]:
    from trellis import SequenceLabeler
    from trellis.features import Template

    dicts = [[{"word": w, "n": 1.5} for w in s] for s in WORDS]
    rows = [[(w, "X") for w in s] for s in WORDS]
    arrays = [RNG.normal(size=(len(y), 3)) for y in TAGS]
    template = Template.parse("U0:%x[0,0]\nU1:%x[-1,1]/%x[0,0]\nB1:%x[0,1]\n")
    return [
        SequenceLabeler("log", constraints=PAIRS, l2=0.1, max_iter=20).fit(dicts, TAGS),
        SequenceLabeler("margin", latent_states=2, max_iter=5, random_state=0).fit(WORDS, TAGS),
        SequenceLabeler("log", max_iter=5, transition_features=[0]).fit(arrays, TAGS),
        SequenceLabeler("log", max_iter=5, template=template).fit(rows, TAGS),
    ]


def _chain_inputs(model: Any) -> Any:
    from trellis.data.columns import ColumnData

    kind = type(model.encoder_).__name__
    if kind == "TemplateEncoder":
        return ColumnData.from_sequences([[(w, "X") for w in s] for s in WORDS])
    if kind == "ArrayEncoder":
        return [np.ones((len(s), 3)) for s in WORDS]
    return [[{"word": w, "n": 1.5} for w in s] for s in WORDS]


def _use_labeler(model: Any) -> None:
    X = _chain_inputs(model)
    _allowed(
        lambda: model.predict(X),
        lambda: model.predict_marginals(X),
        lambda: model.predict_k_best(X, k=2),
        lambda: model.score(X, TAGS),
        lambda: model.strongest_weights(2),
        model.transition_table,
        lambda: model.encoder_.feature_names(),
    )


def _memms() -> list[Any]:
    from trellis import MEMM

    return [MEMM(max_iter=10).fit(WORDS, TAGS)]


def _neural_labelers() -> list[Any]:
    from trellis.neural import NeuralSequenceLabeler

    options: dict[str, Any] = {"hidden": 4, "embedding_dim": 4, "max_epochs": 1, "random_state": 0}
    return [
        NeuralSequenceLabeler("bilstm", **options).fit(WORDS, TAGS),
        NeuralSequenceLabeler("char_cnn_bilstm", constraints=PAIRS, **options).fit(WORDS, TAGS),
    ]


def _use_neural(model: Any) -> None:
    _allowed(
        lambda: model.predict(WORDS),
        lambda: model.predict_marginals(WORDS),
        lambda: model.predict_k_best(WORDS, k=2),
    )


# -- hidden states -----------------------------------------------------------------------------------------


def _hmms() -> list[Any]:
    from trellis import HMM
    from trellis.hmm.emissions import Categorical, Gaussian, GaussianMixture, Multinomial, Poisson, Product

    options: dict[str, Any] = {"random_state": 0, "max_iter": 3}
    mixed = [np.column_stack([s[:, :1], c[:20]]) for s, c in zip(SIGNALS, SYMBOLS, strict=True)]
    return [
        HMM(3, Gaussian("diag"), **options).fit(SIGNALS),
        HMM(3, Gaussian("full"), **options).fit(SIGNALS),
        HMM(2, GaussianMixture(2), **options).fit(SIGNALS),
        HMM(2, GaussianMixture(2, "state"), **options, learn=("emission",)).fit(SIGNALS),
        HMM(2, Gaussian("diag", prior_mean=[0.5, 0.0], prior_mean_weight=2.0), **options).fit(SIGNALS),
        HMM(2, Categorical(4), **options).fit(SYMBOLS),
        HMM(2, Multinomial(4), **options).partial_fit([np.eye(4)[s] for s in SYMBOLS]),
        HMM(2, Poisson(), **options).partial_fit(SYMBOLS),
        HMM(2, Product([([0], Gaussian("diag")), (1, Categorical(4))]), **options).fit(mixed),
    ]


def _use_hmm(model: Any) -> None:
    kind = type(getattr(model, "emission_", model.emission)).__name__
    counts = [np.eye(4)[SYMBOLS[0]]]
    X = {"Categorical": [SYMBOLS[0]], "Poisson": [SYMBOLS[0]], "Multinomial": counts}.get(kind, [SIGNALS[0]])
    _allowed(
        lambda: model.decode(X),
        lambda: model.smooth(X),
        lambda: model.filter(X),
        lambda: model.log_likelihood(X),
        lambda: model.predict_next(X, 3),
        lambda: model.sample([5], random_state=0),
        lambda: model.decode_k_best(X, 2),
        lambda: model.sample_paths(X, 2, random_state=0),
        model.stationary,
        lambda: model.permute(range(model.n_states)) if model.n_states < 100 else None,
    )


def _io_hmms() -> list[Any]:
    from trellis import IOHMM

    return [IOHMM(2, max_iter=2, random_state=0).fit(SIGNALS, SIGNALS)]


def _use_io_hmm(model: Any) -> None:
    X = SIGNALS[:1]
    _allowed(
        lambda: model.decode(X, X),
        lambda: model.smooth(X, X),
        lambda: model.filter(X, X),
        lambda: model.log_likelihood(X, X),
        lambda: model.sample(X, random_state=0),
    )


def _spectral() -> list[Any]:
    from trellis import SpectralHMM

    rng = np.random.default_rng(1)
    return [SpectralHMM(2).fit([rng.integers(4, size=100) for _ in range(20)])]


def _use_spectral(model: Any) -> None:
    X = SYMBOLS[:1]
    _allowed(
        lambda: model.log_likelihood(X),
        lambda: model.predict_next(X, 2),
        lambda: model.conditional_probabilities(X),
        model.recover,
    )


def _state_spaces() -> list[Any]:
    from trellis import LinearGaussian

    return [
        LinearGaussian(2, max_iter=2, random_state=0).fit(SIGNALS),
        LinearGaussian(2, max_iter=2, random_state=0).fit(SIGNALS, controls=SIGNALS),
    ]


def _use_state_space(model: Any) -> None:
    X = SIGNALS[:1]
    controls = X if getattr(model, "parameters_", None) is not None and model.parameters_.n_controls else None
    _allowed(
        lambda: model.filter(X, controls=controls),
        lambda: model.smooth(X, controls=controls),
        lambda: model.forecast(X, 2),
        lambda: model.log_likelihood(X, controls=controls),
        lambda: model.sample(4, random_state=0),
    )


# -- graphs, networks, speech ------------------------------------------------------------------------------


def _graph_labelers() -> list[Any]:
    from trellis import Graph, GraphLabeler

    shapes = [np.kron(RNG.integers(2, size=(2, 2)), np.ones((2, 2), int)) for _ in range(4)]
    graphs = [Graph.grid(y + RNG.normal(0, 0.6, y.shape)) for y in shapes]
    return [GraphLabeler("margin", "hamming", random_state=0, max_iter=3).fit(graphs, shapes)]


def _use_graph_labeler(model: Any) -> None:
    from trellis import Graph

    graphs = [Graph.grid(np.arange(16.0).reshape(4, 4) / 8)]
    _allowed(
        lambda: model.predict(graphs), lambda: model.predict_relaxed(graphs), lambda: model.marginals(graphs)
    )


def _networks() -> list[Any]:
    from trellis.bayesnet import markov_chain

    return [markov_chain(["yes", "no"], 3, 1, transitions=[[0.9, 0.1], [0.2, 0.8]], initial=[0.5, 0.5])]


def _factor_graphs() -> list[Any]:
    return [_networks()[0].to_factor_graph()]


def _use_network(model: Any) -> None:
    _allowed(
        lambda: model.query(None, {}),
        lambda: model.query(None, {}, method="loopy"),
        lambda: model.mpe({}),
        lambda: model.sample(5, random_state=0) if hasattr(model, "sample") else None,
    )


@cache
def _utterances() -> Any:
    from tone_speech import corpus

    return corpus(Path(tempfile.mkdtemp()), 6)


def _aligners() -> list[Any]:
    from trellis.speech import Aligner

    options: dict[str, Any] = {"step_ms": 10.0, "max_iter": 2, "cross_fit": 0, "random_state": 0}
    return [Aligner("log", classifier="linear", **options).fit(_utterances())]


def _use_aligner(model: Any) -> None:
    one = _utterances()[0]
    _allowed(lambda: model.align(one.audio, phones=[p.label for p in one.reference.phones]))


# -- what once went wrong ----------------------------------------------------------------------------------


def _latent(n: int) -> Finds:
    def change(head: dict[str, Any], arrays: Arrays) -> None:
        latent = head["meta"]["fitted"]["latent_"]
        place = next(
            key for key, value in latent.items() if isinstance(value, dict | list) and "counts" in key
        )
        latent[place] = {"@": "tuple", "items": [n] * 3}

    return change


def _kind(value: Any) -> Finds:
    def change(head: dict[str, Any], arrays: Arrays) -> None:
        head["kind"] = value

    return change


def _deep(head: dict[str, Any], arrays: Arrays) -> None:
    nested: Any = []
    for _ in range(400):
        nested = [nested]
    head["meta"]["fitted"]["history_"] = nested


def _as(dtype: str) -> Finds:
    """Every array in another type."""

    def change(head: dict[str, Any], arrays: Arrays) -> None:
        for name in arrays:
            with np.errstate(all="ignore"):
                arrays[name] = arrays[name].astype(dtype)

    return change


def _without(part: str) -> Finds:
    def change(head: dict[str, Any], arrays: Arrays) -> None:
        del head[part]

    return change


ANY = (
    _kind(["HMM"]), _kind({}), _kind(None), _deep, _without("kind"), _without("meta"),
    *(_as(dtype) for dtype in ("<f4", "<i8", "<u4", "|u1", "|b1")),
)  # fmt: skip

MODELS: dict[str, Model] = {
    "SequenceLabeler": Model(
        _sequence_labelers, _use_labeler, (*ANY, *map(_latent, (10**9, 10**12, 2**63, -1)))
    ),
    "MEMM": Model(_memms, _use_labeler, ANY),
    "NeuralSequenceLabeler": Model(_neural_labelers, _use_neural, ANY),
    "HMM": Model(_hmms, _use_hmm, ANY),
    "IOHMM": Model(_io_hmms, _use_io_hmm, ANY),
    "SpectralHMM": Model(_spectral, _use_spectral, ANY),
    "LinearGaussian": Model(_state_spaces, _use_state_space, ANY),
    "GraphLabeler": Model(_graph_labelers, _use_graph_labeler, ANY),
    "BayesianNetwork": Model(_networks, _use_network, ANY),
    "FactorGraph": Model(_factor_graphs, _use_network, ANY),
    "Aligner": Model(_aligners, _use_aligner, ANY),
}
