"""Factor graphs of tensors: brute force and finite differences."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="trellis.neural needs PyTorch: pip install 'trellis-learn[torch]'"
)

from objective_references import EVERY, name_of, reference_value
from trellis.core.errors import DataError, UnsupportedError
from trellis.neural import (
    Factors,
    decode,
    entropy,
    k_best,
    log_partition,
    marginals,
    sample,
    structured_loss,
)
from trellis.objectives import Direct, Objective

SIZES, SCOPES = (3, 2, 3, 2), [(0,), (0, 1), (2, 1), (3, 0), (1, 2, 3)]
GRAPH = Factors(SIZES, SCOPES)
GOLD = torch.tensor([[1, 0, 2, 1], [0, 1, 1, 0]])


def tables(seed: int = 0, holes: bool = False) -> list[Any]:
    """Two examples; the second factor is shared by them."""
    rng = np.random.default_rng(seed)
    found = []
    for f, scope in enumerate(SCOPES):
        values = rng.normal(size=([] if f == 1 else [2]) + [SIZES[v] for v in scope])
        if holes and f == 2:
            values[0, 0, 1] = -np.inf
        found.append(torch.from_numpy(values).requires_grad_())
    return found


def every_assignment(scores: list[Any], example: int) -> tuple[np.ndarray, np.ndarray]:
    states = np.array(list(product(*(range(n) for n in SIZES))))
    s = np.zeros(len(states))
    for scope, t in zip(SCOPES, scores, strict=True):
        table = t.detach().numpy()
        table = table if table.ndim == len(scope) else table[example]
        s += table[tuple(states[:, list(scope)].T)]
    return states, s


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("loss", ["hamming", "zero_one"])
def test_factors_by_enumeration(loss: str, holes: bool) -> None:
    scores = tables(1, holes)
    partial = GOLD.clone()
    partial[0, 2] = -1
    for objective in [o for o in EVERY if o.name != "slack"]:
        for gold in (GOLD, partial):
            values = structured_loss(GRAPH, scores, gold, objective=objective, loss=loss, reduction="none")
            for i in range(2):
                states, s = every_assignment(scores, i)
                wrong = ((states != gold[i].numpy()) & (gold[i].numpy() >= 0)).sum(axis=1)
                losses = (wrong if loss == "hamming" else np.minimum(wrong, 1)).astype(float)
                expected = reference_value(objective, s, losses, wrong == 0)
                assert values[i].item() == pytest.approx(expected, abs=1e-9)
            gradients = torch.autograd.grad(values.sum(), scores)
            assert all(torch.isfinite(g).all() for g in gradients)
            if isinstance(objective, Direct):
                assert all(abs(float(g.sum())) < 1e-9 for g in gradients)


@pytest.mark.parametrize("objective", [o for o in EVERY if o.name != "direct"], ids=name_of)
def test_gradcheck_of_factors(objective: Objective) -> None:
    for loss in ["zero_one"] if objective.name == "slack" else ["hamming", "zero_one"]:
        assert torch.autograd.gradcheck(
            lambda *t, loss=loss: structured_loss(
                GRAPH, t, GOLD, objective=objective, loss=loss, reduction="none"
            ),
            tables(2),
        )


def test_answers_about_factors() -> None:
    scores = tables(3, holes=True)
    best, drawn = decode(GRAPH, scores), sample(GRAPH, scores, 4000, seed=2)
    assert torch.equal(drawn, sample(GRAPH, scores, 4000, seed=2))
    ranked, tops = k_best(GRAPH, scores, 4)
    found = marginals(GRAPH, scores)
    for i in range(2):
        states, s = every_assignment(scores, i)
        p = np.exp(s) / np.exp(s).sum()
        order = np.argsort(-s)
        assert best[i].tolist() == states[order[0]].tolist()
        assert ranked[:, i].tolist() == states[order[:4]].tolist()
        np.testing.assert_allclose(tops[i], s[order[:4]])
        assert log_partition(GRAPH, scores)[i].item() == pytest.approx(float(np.log(np.exp(s).sum())))
        h = -float(p[p > 0] @ np.log(p[p > 0]))
        assert entropy(GRAPH, scores)[i].item() == pytest.approx(h)
        shares = (drawn[:, i, None, :] == torch.from_numpy(states)).all(-1).double().mean(0)
        assert np.abs(shares.numpy() - p).max() < 0.03
        for scope, table in zip(SCOPES, found, strict=True):
            expected = np.zeros([SIZES[v] for v in scope])
            np.add.at(expected, tuple(states[:, list(scope)].T), p)
            np.testing.assert_allclose(table[i].detach(), expected, atol=1e-12)
    assert k_best(GRAPH, scores, 50)[1].shape == (2, 50)
    assert torch.autograd.gradgradcheck(lambda *t: log_partition(GRAPH, t), tables(4))


def test_mistakes_about_factors_are_named() -> None:
    for call, message in (
        (lambda: Factors((2, 0), []), "at least one state"),
        (lambda: Factors((2, 2), [(0, 5)]), "factor 0 has the variables"),
        (lambda: structured_loss(GRAPH, tables()[:2], GOLD), "give 5 tensors"),
        (lambda: structured_loss(GRAPH, [t.transpose(0, -1) for t in tables()], GOLD), "scores of factor"),
        (lambda: structured_loss(GRAPH, tables(), GOLD[:, :2]), "gold states are"),
        (lambda: structured_loss(GRAPH, tables(), GOLD + 2), "variable 0 is outside"),
        (lambda: structured_loss(GRAPH, tables(), GOLD, lengths=[1, 2]), "leave them out"),
        (lambda: structured_loss(GRAPH, tables(), GOLD, objective="slack"), "on the CPU only"),
        (lambda: structured_loss(GRAPH, tables(), GOLD, backend="kernels"), "plain PyTorch"),
        (lambda: structured_loss(GRAPH, tables(), GOLD, backend="cuda"), "backend='cuda'"),
    ):
        with pytest.raises((DataError, UnsupportedError), match=message):
            call()


def test_the_seed_networks_by_hand() -> None:
    """n1 prefers B, n2 prefers B, and n12 forbids that both are the same in all but name."""
    n1, n2 = torch.tensor([[1.0, 4.0, 2.0]]), torch.tensor([[2.0, 3.0, 1.0]])
    n12 = torch.full((3, 3), 0.0) - 10 * torch.eye(3)
    pair = Factors((3, 3), [(0,), (1,), (0, 1)])
    assert decode(pair, [n1, n2, n12]).tolist() == [[1, 0]]
    n1.requires_grad_()
    structured_loss(pair, [n1, n2, n12], torch.tensor([[2, 1]]), objective="perceptron").backward()
    assert n1.grad.tolist() == [[0.0, 1.0, -1.0]]


def test_factors_of_no_variable_and_no_factors() -> None:
    constant = torch.tensor([1.0, 2.0], dtype=torch.float64)
    pair = Factors((2, 3), [(), (0,)])
    scores = [constant, torch.tensor([0.0, np.log(3.0)], dtype=torch.float64)]
    wanted = np.log(4.0) + np.log(3.0)
    assert log_partition(pair, scores).tolist() == pytest.approx([1.0 + wanted, 2.0 + wanted])
    half = -0.25 * np.log(0.25) - 0.75 * np.log(0.75)
    assert entropy(pair, scores).tolist() == pytest.approx([half + np.log(3.0)] * 2)
    free = Factors((2, 3), [])
    assert marginals(free, []) == []
    assert entropy(free, []).tolist() == pytest.approx([np.log(6.0)])


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: decode(Factors((2,), [(0,)]), [torch.zeros(2, dtype=torch.int64)]), "factor 0: scores are"),
        (
            lambda: decode(Factors((2,), [(0,)]), [torch.tensor([0.0, torch.nan])]),
            r"factor 0: scores contain nan",
        ),
        (lambda: decode(Factors((2,), [(0,)]), [[0.0, 1.0]]), "factor 0: scores are of type list"),
    ],
)
def test_what_is_no_table_is_refused(ask: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        ask()
