"""The direct objective on tensors of every structure, against all outputs written out: f_eps lies between two
losses, automatic differentiation gives the difference of two outputs, and gaps are those of the scores."""

# ruff: noqa: E402 (PyTorch may be missing: its import comes before those that need it)
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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
    Chain,
    EpsilonSchedule,
    Factors,
    Segmentation,
    relative_gaps,
    structured_loss,
    typical_gap,
)
from trellis.objectives import Direct
from trellis.structures.segments.problem.alignment_losses import TauAlignment, TauInsensitive

SIGNS = {"better": -1.0, "worse": 1.0}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Many small operations: threads of PyTorch would only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@dataclass
class Case:
    """``ask(function, **options)``: structured_loss or relative_gaps with everything but the objective.
    ``examples``: of each example all scores, as a tensor of ``tensors``, all losses, and the number of the
    gold output."""

    ask: Callable[..., Any]
    tensors: list[Any]
    examples: list[tuple[Any, Any, int]]


def drawn(rng: np.random.Generator, *shape: int, scale: float, holes: float = 0.0, kept: Any = None) -> Any:
    """Normal scores, some of them -inf, but none at ``kept``."""
    values = scale * rng.normal(size=shape)
    if holes:
        lost = rng.random(shape) < holes
        if kept is not None:
            lost[kept] = False
        values[lost] = -np.inf
    return torch.from_numpy(values).requires_grad_()


def sums(tensors: list[Any], parts: list[list[tuple[int, ...]]]) -> Any:
    """The scores of outputs, each a list of parts: the number of a tensor, and an index into it."""
    begins = np.cumsum([0, *(t.numel() for t in tensors)])
    flat = torch.cat([*(t.flatten() for t in tensors), torch.zeros(1).double()])
    rows = [
        [int(begins[t] + np.ravel_multi_index(index, tensors[t].shape)) for t, *index in one] for one in parts
    ]
    longest = max(map(len, rows))
    return flat[torch.tensor([row + [len(flat) - 1] * (longest - len(row)) for row in rows])].sum(1)


def chains(seed: int, loss: str, form: str, backend: str, holes: bool, scale: float = 1.0) -> Case:
    """Lengths 3, 1 and 4: padding; sequences of one step; holes away from the gold labels."""
    rng = np.random.default_rng(seed)
    lengths, k = [3, 1, 4], 3
    gold = rng.integers(0, k, (3, 4))
    where = (*np.indices((3, 4)), gold)
    unary = drawn(rng, 3, 4, k, holes=0.2 * holes, kept=where, scale=scale)
    pairs, start, end = drawn(rng, k, k, scale=scale), drawn(rng, k, scale=scale), drawn(rng, k, scale=scale)
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        unary[~mask] = torch.nan  # padding is not read
    costs = torch.from_numpy(rng.uniform(0.0, 2.0, (3, 4, k)))
    costs.scatter_(2, torch.from_numpy(gold)[..., None], 0.0)
    examples = []
    for i, n in enumerate(lengths):
        labellings = list(product(range(k), repeat=n))
        parts, losses = [], []
        for y in labellings:
            units = [(0, i, t, y[t]) for t in range(n)]
            parts.append([(2, y[0]), (3, y[-1]), *units, *((1, y[t - 1], y[t]) for t in range(1, n))])
            wrong = sum(a != b for a, b in zip(y, gold[i], strict=False))
            by_cost = sum(float(costs[i, t, y[t]]) for t in range(n))
            losses.append({"hamming": float(wrong), "zero_one": float(wrong > 0), "costs": by_cost}[loss])
        scores = sums([unary, pairs, start, end], parts)
        examples.append(
            (scores, torch.tensor(losses, dtype=torch.float64), labellings.index(tuple(gold[i, :n])))
        )
    chain, given = Chain(pairs, start, end), costs if loss == "costs" else loss
    x, y, options = unary, torch.from_numpy(gold), {"lengths": torch.tensor(lengths)}
    if form == "mask":
        options = {"mask": mask}
    if form == "packed":
        x, y, options = unary[mask], y[mask], {"offsets": torch.tensor([0, 3, 4, 8])}
        given = given[mask] if loss == "costs" else given

    def ask(function: Any, **more: Any) -> Any:
        return function(chain, x, y, loss=given, backend=backend, **options, **more)

    return Case(ask, [unary, pairs, start, end], examples)


def segmentations(
    seed: int, kind: str, loss: Any, backend: str | None, holes: bool, scale: float = 1.0
) -> Case:
    """A list of two utterances."""
    rng = np.random.default_rng(seed)
    structures, inputs, golds, tensors, examples = [], [], [], [], []
    for frames in (6, 7):
        graph = random_graph(kind, rng, 3)
        while not (paths := all_paths(graph, frames)):
            graph = random_graph(kind, rng, 3)
        number = int(rng.integers(len(paths)))
        gold = paths[number]
        x = drawn(rng, graph.n_nodes, frames, scale=scale)
        boundary = drawn(
            rng, graph.n_nodes, frames + 1, holes=0.1 * holes, kept=(gold.nodes, gold.starts), scale=scale
        )
        duration = drawn(
            rng,
            graph.n_nodes,
            graph.longest + 1,
            holes=0.1 * holes,
            kept=(gold.nodes, gold.lengths),
            scale=scale,
        )
        parts = [
            [
                part
                for i, start, n in zip(path.nodes, path.starts, path.lengths, strict=True)
                for part in ((1, i, start), (2, i, n), *((0, i, t) for t in range(start, start + n)))
            ]
            for path in paths
        ]
        reference = np.full(graph.n_nodes, np.nan)
        reference[gold.nodes] = gold.starts
        losses = [loss.of_path(reference, path) for path in paths]
        structures.append(Segmentation(graph, boundary, duration))
        inputs.append(x)
        golds.append(gold)
        tensors += [x, boundary, duration]
        examples.append(
            (sums([x, boundary, duration], parts), torch.tensor(losses, dtype=torch.float64), number)
        )

    def ask(function: Any, **more: Any) -> Any:
        return function(structures, inputs, golds, loss=loss, backend=backend, **more)

    return Case(ask, tensors, examples)


def factor_graphs(seed: int, loss: str, holes: bool, scale: float = 1.0) -> Case:
    """A loop of three variables, a factor of all, one shared factor."""
    rng = np.random.default_rng(seed)
    sizes, scopes = (3, 2, 2), [(0,), (0, 1), (1, 2), (2, 0), (0, 1, 2)]
    gold = np.stack([rng.integers(0, n, 2) for n in sizes], axis=1)
    tables = []
    for f, scope in enumerate(scopes):
        shape = [sizes[v] for v in scope] if f == 1 else [2, *(sizes[v] for v in scope)]
        kept = tuple(gold[:, list(scope)].T) if f == 1 else (np.arange(2), *gold[:, list(scope)].T)
        tables.append(drawn(rng, *shape, holes=0.15 * holes, kept=kept, scale=scale))
    states = list(product(*(range(n) for n in sizes)))
    costs = [torch.from_numpy(rng.uniform(0.0, 2.0, (2, n))) for n in sizes]
    for v, one in enumerate(costs):
        one.scatter_(1, torch.from_numpy(gold[:, v : v + 1]), 0.0)
    examples = []
    for i in range(2):
        parts, losses = [], []
        for y in states:
            entries = [tuple(y[v] for v in scope) for scope in scopes]
            parts.append([(f, *(() if f == 1 else (i,)), *entry) for f, entry in enumerate(entries)])
            wrong = sum(a != b for a, b in zip(y, gold[i], strict=True))
            by_cost = sum(float(costs[v][i, y[v]]) for v in range(3))
            losses.append({"hamming": float(wrong), "zero_one": float(wrong > 0), "costs": by_cost}[loss])
        examples.append(
            (sums(tables, parts), torch.tensor(losses, dtype=torch.float64), states.index(tuple(gold[i])))
        )
    graph, given = Factors(sizes, scopes), costs if loss == "costs" else loss

    def ask(function: Any, **more: Any) -> Any:
        return function(graph, tables, torch.from_numpy(gold), loss=given, **more)

    return Case(ask, tables, examples)


FAMILIES: dict[str, Callable[..., Case]] = {
    **{
        f"chain {loss} {form} {backend}": lambda seed, *rest, a=(loss, form, backend): chains(seed, *a, *rest)
        for loss in ("hamming", "zero_one", "costs")
        for form in ("lengths", "mask", "packed")
        for backend in ("kernels", "torch")
    },
    **{
        f"segments {kind} {type(loss).__name__} {backend}": lambda seed, *rest, a=(kind, loss, backend): (
            segmentations(seed, *a, *rest)
        )
        for kind in ("chain", "lattice", "dag")
        for loss in (TauAlignment(0.5), TauInsensitive(0.5))
        for backend in (None, "torch")
    },
    **{
        f"factors {loss}": lambda seed, *rest, loss=loss: factor_graphs(seed, loss, *rest)
        for loss in ("hamming", "zero_one", "costs")
    },
}


def gradients(total: Any, tensors: list[Any]) -> list[Any]:
    found = torch.autograd.grad(total, tensors, allow_unused=True, retain_graph=True)
    return [torch.zeros_like(t) if g is None else g for g, t in zip(found, tensors, strict=True)]


@pytest.mark.parametrize("holes", [False, True], ids=["", "holes"])
@pytest.mark.parametrize("family", FAMILIES)
def test_values_and_gradients_are_those_of_all_outputs(family: str, holes: bool) -> None:
    for seed in range(3):
        case = FAMILIES[family](seed, holes)
        for epsilon in (0.3, 5.0):
            central = case.ask(
                structured_loss, objective=Direct(sign="central"), epsilon=epsilon, reduction="none"
            )
            wanted = []
            for i, (s, losses, _) in enumerate(case.examples):
                high, low = (s + epsilon * losses).max(0), (s - epsilon * losses).max(0)
                wanted.append((high.values - low.values) / (2.0 * epsilon))
                least, most = float(losses[low.indices]), float(losses[high.indices])
                assert least - 1e-9 <= central[i].item() <= most + 1e-9
                assert least <= float(losses[s.argmax()]) <= most
            torch.testing.assert_close(central.double(), torch.stack(wanted), rtol=0.0, atol=1e-9)
            weights = torch.arange(1.0, len(wanted) + 1.0).double()
            ours = gradients((weights * central).sum(), case.tensors)
            theirs = gradients((weights * torch.stack(wanted)).sum(), case.tensors)
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, b, rtol=0.0, atol=1e-9)
            for sign, direction in SIGNS.items():
                value = case.ask(
                    structured_loss, objective=Direct(sign=sign), epsilon=epsilon, reduction="none"
                )
                slopes = []
                for i, (s, losses, _) in enumerate(case.examples):
                    assert value[i].item() == pytest.approx(float(losses[s.argmax()]), abs=1e-9)
                    slopes.append(((s + direction * epsilon * losses).max() - s.max()) * direction / epsilon)
                ours = gradients((weights * value).sum(), case.tensors)
                for a, b in zip(
                    ours, gradients((weights * torch.stack(slopes)).sum(), case.tensors), strict=True
                ):
                    torch.testing.assert_close(a, b, rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_gaps_are_those_of_all_outputs_and_grow_with_the_scores(family: str) -> None:
    for seed in range(6):
        case = FAMILIES[family](seed, True)
        wanted = []
        for s, losses, gold in case.examples:
            best = int(s.argmax())
            if losses[best] > 0:
                wanted.append(float(s[best] - s[gold]) / float(losses[best]))
        found = case.ask(relative_gaps)
        np.testing.assert_allclose(found, wanted, atol=1e-9)
        middle = float(np.median(wanted)) if wanted else None
        assert case.ask(typical_gap) == (None if middle is None else pytest.approx(middle))
        larger = FAMILIES[family](seed, True, 7.0).ask(relative_gaps)
        np.testing.assert_allclose(larger, 7.0 * np.array(wanted), atol=1e-8)


@pytest.mark.parametrize("backend", ["kernels", "torch"])
def test_forbidden_gold_labels_have_no_gap(backend: str) -> None:
    scores = torch.tensor([[[1.0, -torch.inf], [0.0, 2.0]], [[0.0, 3.0], [0.0, 1.0]]])
    gold = torch.tensor([[1, 1], [0, 1]])
    found = relative_gaps(Chain(torch.zeros(2, 2)), scores, gold, backend=backend)
    np.testing.assert_allclose(found, [3.0])
    with pytest.raises(InfeasibleError, match="example 0 has no allowed output"):
        relative_gaps(Chain(torch.zeros(2, 2)), scores - torch.inf, gold, backend=backend)


def test_epsilon_falls_from_wide_to_narrow() -> None:
    falling = EpsilonSchedule(2.0, steps=10)
    values = [falling(t) for t in range(13)]
    assert values[0] == pytest.approx(6.0)
    assert values[10:] == pytest.approx([0.6] * 3)
    np.testing.assert_allclose(np.diff(np.log(values[:11])), np.log(0.1) / 10)
    with pytest.raises(DataError, match="nothing to fine-tune"):
        EpsilonSchedule(None, 10)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="eps0 is -1"):
        EpsilonSchedule(-1.0, 10)


def test_a_measured_epsilon_is_asked_for_not_guessed() -> None:
    chain, scores, gold = Chain(torch.zeros(2, 2)), torch.zeros(1, 3, 2), torch.zeros(1, 3, dtype=torch.int64)
    objective = Direct(epsilon="auto", sign="central")
    with pytest.raises(UnsupportedError, match=r"pass epsilon=, a number such as .*EpsilonSchedule"):
        structured_loss(chain, scores, gold, objective=objective)
    value = structured_loss(chain, scores, gold, objective=objective, epsilon=0.5)
    assert value.item() == pytest.approx(1.5)  # f_eps of three ties between losses 0 and 1
