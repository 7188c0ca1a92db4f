"""Alignments and factor graphs of tensors: brute force, finite differences, and the two backends."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="trellis.neural needs PyTorch: pip install 'trellis-learn[torch]'"
)

from small_segments import all_paths, random_graph
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.neural import (
    Alignment,
    Factors,
    decode,
    entropy,
    k_best,
    log_partition,
    marginals,
    sample,
    structured_loss,
)
from trellis.objectives import Direct
from trellis.structures.segments.problem.alignment_losses import TauInsensitive
from trellis.structures.segments.scores.segment_scores import SegmentPath

SMOOTH: list[Any] = ["perceptron", "margin", "log", "softmax_margin", "ramp", "risk"]
LOSS = TauInsensitive(0.5)


def tensor(rng: np.random.Generator, *shape: int) -> Any:
    return torch.from_numpy(rng.normal(size=shape)).requires_grad_()


class Utterance:
    def __init__(self, kind: str, seed: int = 0, frames: int = 7) -> None:
        rng = np.random.default_rng(seed)
        self.graph = random_graph(kind, rng, 3)
        p, longest = self.graph.n_nodes, self.graph.longest
        self.tensors = tensor(rng, p, frames), tensor(rng, p, frames + 1), tensor(rng, p, longest + 1)
        self.paths = all_paths(self.graph, frames)
        self.gold = self.paths[len(self.paths) // 2]
        self.frames = frames

    def scores(self) -> np.ndarray:
        frames, boundary, duration = (t.detach().numpy() for t in self.tensors)
        return np.array([
            sum(
                frames[i, s : s + n].sum() + boundary[i, s] + duration[i, n]
                for i, s, n in zip(path.nodes, path.starts, path.lengths, strict=True)
            )
            for path in self.paths
        ])  # fmt: skip

    def losses(self) -> np.ndarray:
        starts = np.full(self.graph.n_nodes, np.nan)
        starts[self.gold.nodes] = self.gold.starts
        return np.array([LOSS.of_path(starts, path) for path in self.paths])

    def loss(self, objective: Any, backend: Any = None, tensors: Any = None, gold: Any = None) -> Any:
        x, boundary, duration = self.tensors if tensors is None else tensors
        structure = Alignment(self.graph, boundary, duration)
        wanted = self.gold if gold is None else gold
        return structured_loss(structure, x, wanted, objective=objective, loss=LOSS, backend=backend)


def expected_value(objective: Any, s: np.ndarray, losses: np.ndarray, gold: np.ndarray) -> float:
    """The formulas, over all outputs; ``gold`` marks those that agree with what is known."""

    def lse(x: np.ndarray) -> float:
        return float(np.log(np.exp(x - x.max()).sum()) + x.max())

    best = s.max()
    if isinstance(objective, Direct):
        return float(losses[s.argmax()])
    if objective == "risk":
        return float(np.exp(s - lse(s)) @ losses)
    if objective == "ramp":
        return float((s + losses).max() - best)
    if objective in ("log", "softmax_margin"):
        return lse(s + losses * (objective != "log")) - lse(s[gold])
    return float((s + losses * (objective != "perceptron")).max() - s[gold].max())


@pytest.mark.parametrize("kind", ["chain", "lattice"])
def test_alignments_by_enumeration(kind: str) -> None:
    u = Utterance(kind)
    s, losses = u.scores(), u.losses()
    gold = np.array([p is u.gold for p in u.paths])
    for objective in [*SMOOTH, Direct(0.5), Direct(0.5, sign="worse")]:
        gradients = []
        for backend in (None, "torch"):
            value = u.loss(objective, backend)
            assert value.item() == pytest.approx(expected_value(objective, s, losses, gold), abs=1e-9)
            gradients.append(torch.autograd.grad(value, u.tensors))
        for ours, plain in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-9, rtol=0)
    structure, x = Alignment(u.graph, *u.tensors[1:]), u.tensors[0]
    p = np.exp(s - s.max()) / np.exp(s - s.max()).sum()
    starts = np.zeros((u.graph.n_nodes, u.frames + 1))
    for weight, path in zip(p, u.paths, strict=True):
        starts[path.nodes, path.starts] += weight
    for backend in (None, "torch"):
        path: Any = decode(structure, x, backend=backend)
        best = u.paths[s.argmax()]
        assert (path.nodes.tolist(), path.starts.tolist()) == (best.nodes.tolist(), best.starts.tolist())
        found = marginals(structure, x, backend=backend)
        np.testing.assert_allclose(found.detach(), starts, atol=1e-9)
        with torch.no_grad():
            np.testing.assert_allclose(marginals(structure, x, backend=backend), starts, atol=1e-9)
        assert entropy(structure, x, backend=backend).item() == pytest.approx(float(-(p @ np.log(p))))
    drawn = sample(structure, x, 600, seed=1)
    shares = np.zeros_like(starts)
    for path in drawn:
        shares[path.nodes, path.starts] += 1 / 600
    assert np.abs(shares - starts).max() < 0.08
    again = sample(structure, x, 20, seed=1)
    assert [q.starts.tolist() for q in drawn[:20]] == [q.starts.tolist() for q in again]


@pytest.mark.parametrize("objective", SMOOTH)
def test_gradcheck_of_alignments(objective: str) -> None:
    u = Utterance("chain", 2, 6)
    assert torch.autograd.gradcheck(lambda *t: u.loss(objective, tensors=t), u.tensors)


def test_second_derivatives_of_alignments() -> None:
    u = Utterance("chain", 2, 5)
    for backend in (None, "torch"):

        def total(x: Any, b: Any, d: Any, backend: Any = backend) -> Any:
            return log_partition(Alignment(u.graph, b, d), x, backend=backend)

        assert torch.autograd.gradgradcheck(total, u.tensors)
    for question in (marginals, entropy):
        assert torch.autograd.gradcheck(lambda x, b, d, q=question: q(Alignment(u.graph, b, d), x), u.tensors)


def test_gold_starts_as_sets_and_as_numbers() -> None:
    u = Utterance("chain", 4)
    torch.testing.assert_close(u.loss("log", gold=torch.from_numpy(u.gold.starts)), u.loss("log"))
    near = np.zeros((u.graph.n_nodes, u.frames + 1), bool)
    for i, start in zip(u.gold.nodes, u.gold.starts, strict=True):
        near[i, max(start - 1, 0) : start + 2] = True
    inside = np.array([near[p.nodes, p.starts].all() for p in u.paths])
    assert inside.sum() > 1
    for backend in (None, "torch"):
        for objective in ("log", "perceptron"):
            value = u.loss(objective, backend, gold=torch.from_numpy(near))
            assert value.item() == pytest.approx(expected_value(objective, u.scores(), np.zeros(1), inside))


def test_lists_of_alignments_and_the_rate_term() -> None:
    many = [Utterance("chain", seed) for seed in (1, 2)]
    structures = [Alignment(u.graph, *u.tensors[1:], rate_weight=0.3) for u in many]
    xs, golds = [u.tensors[0] for u in many], [u.gold for u in many]
    each = structured_loss(structures, xs, golds, objective="log", reduction="none")
    assert each.shape == (2,)
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    u = many[0]

    def value(x: Any, r: Any) -> Any:
        return structured_loss(Alignment(u.graph, rate_weight=r), x, u.gold)

    assert torch.autograd.gradcheck(value, (u.tensors[0], rate))
    with pytest.raises(UnsupportedError, match="rate term"):
        entropy(structures[0], xs[0])
    with pytest.raises(UnsupportedError, match="k best"):
        k_best(structures[0], xs[0], 2)
    with pytest.raises(DataError, match="one of each"):
        structured_loss(structures, xs[:1], golds)
    with pytest.raises(DataError, match="frame scores have shape"):
        structured_loss(structures[0], xs[0][0], golds[0])
    with pytest.raises(UnsupportedError, match="tau_alignment"):
        structured_loss(structures[0], xs[0], golds[0], objective="margin")
    with pytest.raises(InfeasibleError):
        structured_loss(structures[0], xs[0], SegmentPath.of_chain([0, 1], 7))


# -- factor graphs ----------------------------------------------------------------------------------------

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
    for objective in [*SMOOTH, Direct(0.5), Direct(0.5, sign="worse")]:
        for gold in (GOLD, partial):
            values = structured_loss(GRAPH, scores, gold, objective=objective, loss=loss, reduction="none")
            for i in range(2):
                states, s = every_assignment(scores, i)
                wrong = ((states != gold[i].numpy()) & (gold[i].numpy() >= 0)).sum(axis=1)
                losses = (wrong if loss == "hamming" else np.minimum(wrong, 1)).astype(float)
                expected = expected_value(objective, s, losses, wrong == 0)
                assert values[i].item() == pytest.approx(expected, abs=1e-9)
            gradients = torch.autograd.grad(values.sum(), scores)
            assert all(torch.isfinite(g).all() for g in gradients)
            if isinstance(objective, Direct):
                assert all(abs(float(g.sum())) < 1e-9 for g in gradients)


@pytest.mark.parametrize("objective", [*SMOOTH, "slack"])
def test_gradcheck_of_factors(objective: str) -> None:
    for loss in ["zero_one"] if objective == "slack" else ["hamming", "zero_one"]:
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


def test_boundaries_and_durations_must_be_numbers() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph("chain", rng)
    scores = torch.zeros(graph.n_nodes, 6)
    boundary = torch.zeros(graph.n_nodes, 7)
    boundary[0, 1] = torch.nan
    with pytest.raises(DataError, match=r"boundary scores contain nan at \(0, 1\)"):
        decode(Alignment(graph, boundary), scores)
    duration = torch.full((graph.n_nodes, graph.longest + 1), torch.inf)
    with pytest.raises(DataError, match="duration scores contain inf"):
        log_partition(Alignment(graph, None, duration), scores)
