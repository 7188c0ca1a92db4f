"""Segmentations of tensors: brute force, finite differences, and the two backends."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip(
    "torch", reason="trellis.neural needs PyTorch: pip install 'trellis-learn[torch]'"
)

from objective_references import EVERY, name_of, reference_value
from small_segments import all_paths, random_graph
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.neural import (
    Segmentation,
    decode,
    entropy,
    k_best,
    log_partition,
    marginals,
    sample,
    structured_loss,
)
from trellis.objectives import Log, Objective, Perceptron
from trellis.structures.segments.problem.alignment_losses import TauInsensitive
from trellis.structures.segments.scores.segment_scores import SegmentPath

ALL = [o for o in EVERY if o.name != "slack"]
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
        structure = Segmentation(self.graph, boundary, duration)
        wanted = self.gold if gold is None else gold
        return structured_loss(structure, x, wanted, objective=objective, loss=LOSS, backend=backend)


@pytest.mark.parametrize("kind", ["chain", "lattice"])
def test_alignments_by_enumeration(kind: str) -> None:
    u = Utterance(kind)
    s, losses = u.scores(), u.losses()
    gold = np.array([p is u.gold for p in u.paths])
    for objective in ALL:
        gradients = []
        for backend in (None, "torch"):
            value = u.loss(objective, backend)
            assert value.item() == pytest.approx(reference_value(objective, s, losses, gold), abs=1e-9)
            gradients.append(torch.autograd.grad(value, u.tensors))
        for ours, plain in zip(*gradients, strict=True):
            torch.testing.assert_close(ours, plain, atol=1e-9, rtol=0)
    structure, x = Segmentation(u.graph, *u.tensors[1:]), u.tensors[0]
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


@pytest.mark.parametrize("objective", [o for o in ALL if o.name != "direct"], ids=name_of)
def test_gradcheck_of_alignments(objective: Objective) -> None:
    u = Utterance("chain", 2, 6)
    assert torch.autograd.gradcheck(lambda *t: u.loss(objective, tensors=t), u.tensors)


def test_second_derivatives_of_alignments() -> None:
    u = Utterance("chain", 2, 5)
    for backend in (None, "torch"):

        def total(x: Any, b: Any, d: Any, backend: Any = backend) -> Any:
            return log_partition(Segmentation(u.graph, b, d), x, backend=backend)

        assert torch.autograd.gradgradcheck(total, u.tensors)
        assert torch.autograd.gradgradcheck(lambda *t, b=backend: u.loss("log", b, t), u.tensors)
    for question in (marginals, entropy):
        assert torch.autograd.gradcheck(
            lambda x, b, d, q=question: q(Segmentation(u.graph, b, d), x), u.tensors
        )


def test_gold_starts_as_sets_and_as_numbers() -> None:
    u = Utterance("chain", 4)
    torch.testing.assert_close(u.loss("log", gold=torch.from_numpy(u.gold.starts)), u.loss("log"))
    near = np.zeros((u.graph.n_nodes, u.frames + 1), bool)
    for i, start in zip(u.gold.nodes, u.gold.starts, strict=True):
        near[i, max(start - 1, 0) : start + 2] = True
    inside = np.array([near[p.nodes, p.starts].all() for p in u.paths])
    assert inside.sum() > 1
    for backend in (None, "torch"):
        for objective in (Log(), Perceptron()):
            value = u.loss(objective, backend, gold=torch.from_numpy(near))
            assert value.item() == pytest.approx(reference_value(objective, u.scores(), np.zeros(1), inside))


def test_lists_of_alignments_and_the_rate_term() -> None:
    many = [Utterance("chain", seed) for seed in (1, 2)]
    structures = [Segmentation(u.graph, *u.tensors[1:], rate_weight=0.3) for u in many]
    xs, golds = [u.tensors[0] for u in many], [u.gold for u in many]
    each = structured_loss(structures, xs, golds, objective="log", reduction="none")
    assert each.shape == (2,)
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    u = many[0]

    def value(x: Any, r: Any) -> Any:
        return structured_loss(Segmentation(u.graph, rate_weight=r), x, u.gold)

    assert torch.autograd.gradcheck(value, (u.tensors[0], rate))
    with pytest.raises(UnsupportedError, match="rate term"):
        entropy(structures[0], xs[0])
    with pytest.raises(UnsupportedError, match="k best"):
        k_best(structures[0], xs[0], 2)
    with pytest.raises(DataError, match="one of each"):
        structured_loss(structures, xs[:1], golds)
    with pytest.raises(DataError, match="frame scores have shape"):
        structured_loss(structures[0], xs[0][0], golds[0])
    with pytest.raises(DataError, match="tau_alignment"):
        structured_loss(structures[0], xs[0], golds[0], objective="margin")
    with pytest.raises(InfeasibleError):
        structured_loss(structures[0], xs[0], SegmentPath.of_chain([0, 1], 7))


def test_boundaries_and_durations_must_be_numbers() -> None:
    rng = np.random.default_rng(0)
    graph = random_graph("chain", rng)
    scores = torch.zeros(graph.n_nodes, 6)
    boundary = torch.zeros(graph.n_nodes, 7)
    boundary[0, 1] = torch.nan
    with pytest.raises(DataError, match=r"boundary scores contain nan at \(0, 1\)"):
        decode(Segmentation(graph, boundary), scores)
    duration = torch.full((graph.n_nodes, graph.longest + 1), torch.inf)
    with pytest.raises(DataError, match="duration scores contain inf"):
        log_partition(Segmentation(graph, None, duration), scores)
