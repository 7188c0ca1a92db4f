"""The parts of a sequence that have simplices of their own: the dual point they stand for, plane by plane."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_chains import gold_of, loss_of_path, phi, primal, run, small_problem
from trellis.solvers.planes.frank_wolfe import FrankWolfe
from trellis.structures.chain.passes.compiled_frank_wolfe import CompiledFrankWolfeRun
from trellis.structures.chain.problem.chain_problem import LinearChainProblem


def check_dual_point(problem: LinearChainProblem, going: CompiledFrankWolfeRun) -> int:
    """Masses, labellings, inner products, weights and dual value against their definitions; the parts."""
    cache, w, dual, parts = going._cache, np.zeros(problem.dimension), 0.0, 0
    mask = problem.layout.mask if len(problem.layout.mask) else np.ones(problem.dimension)
    for i in range(problem.n_examples):
        count, gold = int(cache.used[i]), gold_of(problem, i)
        n, lo, slots = len(gold), int(problem.design.offsets[i]), cache.alpha.shape[1]
        first, last, alpha = cache.first[i, :count], cache.last[i, :count], cache.alpha[i, :count]
        planes = []
        for c in range(count):
            at = lo * slots + c * n
            path = tuple(cache.path[at : at + n].tolist())
            assert path[: first[c]] == gold[: first[c]]
            assert path[last[c] :] == gold[last[c] :]
            assert (cache.coefficient[i, c] == 0.0) == (path == gold)
            planes.append(mask * (phi(problem, i, path) - phi(problem, i, gold)))
            assert cache.offset[i, c] == pytest.approx(loss_of_path(problem, i, path))
            w -= problem.task.weight[i] * alpha[c] * planes[-1] / problem.l2
            dual += problem.task.weight[i] * alpha[c] * cache.offset[i, c]
        if count:
            matrix = np.array(planes)
            np.testing.assert_allclose(cache.gram[i, :count, :count], matrix @ matrix.T, atol=1e-9)
        assert (alpha >= 0).all()
        assert not cache.alpha[i, count:].any()
        spans = sorted(set(zip(first.tolist(), last.tolist(), strict=True)))
        parts = max(parts, len(spans))
        for (_, end), (begin, _) in pairwise(spans):
            assert end < begin  # a step with the gold label lies between any two
        for begin, _ in spans:
            assert alpha[first == begin].sum() == pytest.approx(1.0)
            assert (cache.coefficient[i, :count][first == begin] == 0.0).sum() == 1
    np.testing.assert_allclose(going._w, w, atol=1e-9 * (1 + np.abs(w).max()))
    expected = dual - 0.5 * problem.l2 * float(w @ w)
    assert going.dual_value() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    return parts


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10_000),
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(lambda x: sum(x) > 0),
    cache=st.sampled_from([2, 12]),
    options=st.sampled_from(
        [{}, {"observed": True}, {"edges": True}, {"constrained": True, "weighted": True}]
    ),
    l2=st.sampled_from([0.05, 1.0, 10.0]),
)
def test_the_dual_point_is_what_the_cache_says(
    seed: int, lengths: list[int], cache: int, options: dict, l2: float
) -> None:
    problem = small_problem("margin", seed, lengths=tuple(lengths), l2=l2, **options)
    going = FrankWolfe(cache=cache).start(problem, np.zeros(problem.dimension), np.random.default_rng(seed))
    assert isinstance(going, CompiledFrankWolfeRun)
    for _ in range(6):
        measured = going.step()
        check_dual_point(problem, going)
        assert measured["dual"] <= primal(problem, going.weights) + 1e-9


def test_distant_mistakes_have_parts_of_their_own_and_labellings_across_unite_them() -> None:
    counts = []
    for seed in range(8):
        problem = small_problem("margin", seed, lengths=(14, 12), n_labels=3, n_features=12, l2=0.5)
        going = FrankWolfe().start(problem, np.zeros(problem.dimension), np.random.default_rng(0))
        assert isinstance(going, CompiledFrankWolfeRun)
        found = []
        for _ in range(12):
            going.step()
            found.append(check_dual_point(problem, going))
        counts.append(found)
    assert max(map(max, counts)) >= 3
    assert any(b < a for found in counts for a, b in pairwise(found))


@pytest.mark.parametrize("options", [{"loss": "zero_one"}, {}], ids=str)
def test_a_loss_of_whole_labellings_has_one_part(options: dict) -> None:
    problem = small_problem("margin" if options else "slack", 3, lengths=(7, 6), **options)
    going = FrankWolfe().start(problem, np.zeros(problem.dimension), np.random.default_rng(0))
    assert isinstance(going, CompiledFrankWolfeRun)
    for _ in range(4):
        going.step()
    for i, n in enumerate((7, 6)):
        used = int(going._cache.used[i])
        assert used > 0
        assert set(zip(going._cache.first[i, :used], going._cache.last[i, :used], strict=True)) == {(0, n)}


def test_threads_do_not_change_the_result() -> None:
    one = small_problem("margin", 2, lengths=(9, 8, 7, 9, 6, 8), l2=0.3)
    a, b = run(FrankWolfe(tol=1e-4), one, 100), run(FrankWolfe(tol=1e-4), one.with_(n_jobs=3), 100)
    np.testing.assert_array_equal(a.weights, b.weights)
    for key in ("objective", "dual", "estimated_gap"):
        assert a.history[key] == b.history[key]
