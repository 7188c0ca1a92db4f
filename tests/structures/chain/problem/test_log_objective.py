"""The log objective in blocks and streams, against enumeration and against the general kernels."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from small_chains import labellings, phi, small_problem
from trellis.core.errors import InfeasibleError
from trellis.structures.chain.problem import chain_problem
from trellis.structures.chain.problem.chain_problem import LinearChainProblem
from trellis.structures.chain.scores.compact import compact


def in_blocks(problem: LinearChainProblem, weights: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and gradient with blocks of that many steps."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chain_problem, "compact", partial(compact, steps=steps))
        return problem.with_().values_and_gradient(weights)


def general(problem: LinearChainProblem, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by the kernel of all dense objectives, one sequence at a time."""
    runs = [problem.run_value_and_gradient(weights, i, i + 1) for i in range(problem.n_examples)]
    values = np.array([value for value, _ in runs]) / problem.sample_weight
    return values, np.sum([gradient for _, gradient in runs], axis=0)


def enumerated(problem: LinearChainProblem, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, gradient = [], np.zeros(problem.dimension)
    for i in range(problem.n_examples):
        lo, hi = problem.design.offsets[i : i + 2]
        gold, paths = problem.task.gold[lo:hi], labellings(problem, i)
        agree = np.array([all(a in (b, -1) for a, b in zip(gold, path, strict=True)) for path in paths])
        features = np.array([phi(problem, i, path) for path in paths])
        scores = features @ weights
        values.append(logsumexp(scores) - logsumexp(scores[agree]))
        expected = softmax(scores) @ features - softmax(scores[agree]) @ features[agree]
        gradient += problem.sample_weight[i] * expected
    return np.array(values), problem.layout.masked(gradient)


def weights_for(problem: Any, scale: float, seed: int = 1) -> np.ndarray:
    return problem.layout.masked(scale * np.random.default_rng(seed).normal(size=problem.dimension))


@given(
    seed=st.integers(0, 10_000),
    shape=st.sampled_from([(1, 4), (2, 5), (3, 4), (8, 3), (9, 3), (17, 2), (25, 2)]),
    lengths=st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(any),
    steps=st.sampled_from([1, 4, 1000]),
    scale=st.sampled_from([0.1, 3.0, 300.0, 1e5, 1e300]),
    n_jobs=st.integers(1, 3),
    flags=st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_it_is_the_sum_over_all_labellings(
    seed: int,
    shape: tuple[int, int],
    lengths: list[int],
    steps: int,
    scale: float,
    n_jobs: int,
    flags: tuple[bool, bool, bool, bool],
) -> None:
    n_labels, longest = shape
    weighted, ambiguous, constrained, observed = flags
    few = [min(n, longest) for n in lengths]
    problem = small_problem(
        "log", seed, lengths=tuple(few), n_labels=n_labels, weighted=weighted, observed=observed,
        ambiguous=ambiguous and few[0] > 0, constrained=constrained and n_labels > 2, loss="none",
    ).with_(n_jobs=n_jobs)  # fmt: skip
    weights = weights_for(problem, scale, seed)
    values, gradient = in_blocks(problem, weights, steps)
    expected, direction = enumerated(problem, weights)
    np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-11 * max(1.0, scale))
    np.testing.assert_allclose(gradient, direction, atol=1e-9 * max(1.0, scale if scale < 1e9 else 1.0))


@pytest.mark.parametrize("n_labels", [1, 5, 22, 40])
@pytest.mark.parametrize(
    "options", [{}, {"weighted": True, "constrained": True}, {"ambiguous": True}], ids=str
)
def test_streams_say_what_single_chains_say(n_labels: int, options: Any) -> None:
    rng = np.random.default_rng(n_labels)
    lengths = (*rng.integers(0, 40, 60).tolist(), 1, 300, 1, 2)
    if n_labels < 3:
        options = {**options, "constrained": False}
    problem = small_problem("log", lengths=(5, *lengths), n_labels=n_labels, loss="none", **options)
    weights = weights_for(problem, 0.5)
    expected, direction = general(problem, weights)
    for steps, n_jobs in ((50, 1), (50, 2), (1024, 1), (1024, 3)):
        values, gradient = in_blocks(problem.with_(n_jobs=n_jobs), weights, steps)
        np.testing.assert_allclose(values, expected, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(gradient, direction, rtol=1e-10, atol=1e-10)


def test_wide_scores_beside_narrow_ones() -> None:
    """Scores that scaled messages cannot do leave the sequences beside them as they were, and are right."""
    problem = small_problem("log", lengths=(4, 3, 1, 4, 2, 3), ambiguous=True, weighted=True, loss="none")
    weights = weights_for(problem, 1.0)
    narrow, _ = in_blocks(problem, weights, 1000)
    design = problem.design
    values = design.values.copy()
    wide = [0, 3]
    for i in wide:
        rows = slice(*design.indptr[design.offsets[i : i + 2]])
        values[rows] *= 1e4
    problem = problem.with_(design=design._replace(values=values))
    found, gradient = in_blocks(problem, weights, 1000)
    expected, direction = enumerated(problem, weights)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(gradient, direction, rtol=1e-9, atol=1e-6)
    others = [1, 2, 4, 5]
    np.testing.assert_allclose(found[others], narrow[others], rtol=1e-12)

    left = np.zeros(problem.n_examples)
    with pytest.MonkeyPatch.context() as patch:  # the compiled streams did leave them, and only them
        patch.setattr(
            chain_problem, "log_space_gradient", lambda *run: left.__setitem__(slice(None), run[-1])
        )
        with pytest.raises(InfeasibleError):
            problem.with_().values_and_gradient(weights)
    np.testing.assert_array_equal(np.isnan(left), np.isin(np.arange(6), wide))
