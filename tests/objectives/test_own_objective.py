"""Objectives written outside the package: another choice of the record's fields, or a formula of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import Graph, GraphLabeler, SequenceLabeler, load, objectives
from trellis.core.errors import DataError, UnsupportedError
from trellis.core.oracle import Oracle


class HalfSquare(objectives.Objective):
    """(1/2) [max_y (s + L / 2) - s(y*)]_+^2."""

    name = "half_square"
    loss_scale = 0.5
    link = "square"


class Huber(objectives.Objective):
    """z^2 / 2 up to z = 1, then z - 1/2, with z = max_y (s + L) - s(y*)."""

    name = "huber"
    special = "own"

    def value_and_gradient(self, oracle: Oracle, epsilon: float = 1.0) -> tuple[float, Any]:
        best, gold = oracle.best(1.0), oracle.gold_best()
        z = best.value - gold.value
        return (z**2 / 2 if z < 1 else z - 0.5), min(z, 1.0) * (best.parts - gold.parts)


@dataclass(frozen=True)
class ScaledMargin(objectives.Objective):
    """max_y (s + c L) - s(y*), with c as an option."""

    loss_scale: float = 2.0  # type: ignore[misc]
    name = "scaled_margin"


@pytest.fixture(autouse=True)
def _registered() -> None:
    for record in (HalfSquare, Huber, ScaledMargin):
        objectives.register(record)


def sentences(n: int = 30) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(0)
    X = [[f"w{k}" for k in rng.integers(6, size=rng.integers(1, 6))] for _ in range(n)]
    return X, [["AB"[int(word[1:]) % 2] for word in row] for row in X]


def images(n: int = 12) -> tuple[list[Graph], list[np.ndarray]]:
    rng = np.random.default_rng(1)
    graphs = [Graph(rng.normal(size=(4, 1)), [[0, 1], [1, 2], [2, 3]]) for _ in range(n)]
    return graphs, [(graph.nodes[:, 0] > 0).astype(int) for graph in graphs]


@pytest.mark.parametrize(
    ("objective", "solver"),
    [
        ("half_square", "auto"),
        ("half_square", "adagrad"),
        (ScaledMargin(3.0), "frank_wolfe"),
        (Huber(), "auto"),
        (Huber(), "sgd"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_chain_trains_saves_and_loads(objective: Any, solver: str, tmp_path: Path) -> None:
    X, y = sentences()
    model = SequenceLabeler(objective, solver=solver, l2=0.1, max_iter=20, random_state=0).fit(X, y)
    history = model.history_.get("objective", model.history_.get("pass_objective"))
    assert history[-1] < 0.6 * history[0]
    assert model.score(X, y) > 0.95
    model.save(tmp_path / "own.trellis")
    again = load(tmp_path / "own.trellis")
    assert again.objective == objective
    assert again.predict(X) == model.predict(X)
    assert again.fit(X, y).predict(X) == model.predict(X)


@pytest.mark.parametrize("objective", [HalfSquare(), Huber()], ids=lambda o: o.name)
def test_graphs_train_save_and_load(objective: Any, tmp_path: Path) -> None:
    graphs, labels = images()
    model = GraphLabeler(objective, l2=0.1, max_iter=40, random_state=0).fit(graphs, labels)
    assert model.score(graphs, labels) > 0.9
    model.save(tmp_path / "own.trellis")
    again = load(tmp_path / "own.trellis")
    assert again.objective == objective
    assert all(
        np.array_equal(a, b) for a, b in zip(again.predict(graphs), model.predict(graphs), strict=True)
    )


def test_candidates_read_the_record() -> None:
    def any_wrong(gold: list[str], found: list[str]) -> float:
        return float(gold != found)

    X, y = sentences()
    model = SequenceLabeler("half_square", loss=any_wrong, max_iter=5, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.95
    with pytest.raises(UnsupportedError, match=r"'huber' has its own formula.*list of candidates"):
        SequenceLabeler("huber", loss=any_wrong).fit(X, y)


@pytest.mark.parametrize("backend", ["kernels", "torch"])
def test_tensors_train(backend: Any) -> None:
    torch = pytest.importorskip("torch")
    from trellis.neural import Chain, structured_loss

    scores = torch.zeros(2, 3, 2, requires_grad=True)
    gold = torch.tensor([[0, 1, 0], [1, 1, 0]])
    optimiser = torch.optim.SGD([scores], lr=0.5)
    found = []
    for _ in range(20):
        optimiser.zero_grad()
        value = structured_loss(
            Chain(torch.zeros(2, 2)), scores, gold, objective="half_square", loss="hamming", backend=backend
        )
        value.backward()
        optimiser.step()
        found.append(value.item())
    assert found[0] == pytest.approx(0.5 * 1.5**2)
    assert found[-1] < 0.1
    with pytest.raises(UnsupportedError, match="has its own formula"):
        structured_loss(Chain(torch.zeros(2, 2)), scores, gold, objective="huber", backend=backend)


def test_what_no_reader_knows_is_refused_in_a_sentence() -> None:
    class Forgotten(objectives.Objective):
        name = "forgotten"
        special = "own"

    class Hidden(objectives.Objective):
        name = "hidden"

        def value_and_gradient(self, oracle: Oracle, epsilon: float = 1.0) -> tuple[float, Any]:
            return Huber().value_and_gradient(oracle, epsilon)

    for record in (Forgotten, Hidden):
        with pytest.raises(DataError, match=r"needs both special='own' and its own value_and_gradient"):
            record()


def test_an_option_without_a_default_is_refused() -> None:
    @dataclass(frozen=True)
    class Bare(objectives.Objective):
        power: float
        name = "bare"

    with pytest.raises(DataError, match="the option 'power' of Bare needs a default"):
        objectives.register(Bare)


def test_a_record_that_is_not_registered_cannot_be_saved(tmp_path: Path) -> None:
    class Passing(objectives.Objective):
        name = "passing"

    X, y = sentences()
    model = SequenceLabeler(Passing(), max_iter=2).fit(X, y)
    with pytest.raises((DataError, UnsupportedError), match=r"Passing|passing"):
        model.save(tmp_path / "own.trellis")
