"""A compact design scores and pulls back as the plain one does, whatever is bundled."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.simd_kernels import padded
from trellis.data.sequences import offsets_from_lengths
from trellis.features.encoded import Encoded, Features
from trellis.structures.chain.scores.compact import compact
from trellis.structures.chain.scores.compact_kernels import (
    empty_table,
    fill_table,
    pull_back_compact,
    score_compact,
)
from trellis.structures.chain.scores.linear_chain import LinearLayout


def implied_data(rng: np.random.Generator, n: int, k: int, *, ones: bool, twice: bool) -> Encoded:
    """Steps described by two letters, their pair (which implies both) and some noise."""
    letters = rng.integers(3, size=(n, 2))
    columns = [letters[:, 0], 3 + letters[:, 1], 6 + 3 * letters[:, 0] + letters[:, 1]]
    noise = [
        np.where(rng.random(n) < 0.5, 15 + rng.integers(6, size=n), -1) for _ in range(2 if twice else 1)
    ]
    rows = np.stack([*columns, *noise], axis=1)
    rng.permuted(rows, axis=1, out=rows)
    indptr = np.concatenate([[0], np.cumsum((rows >= 0).sum(axis=1))]).astype(np.int64)
    indices = rows[rows >= 0].astype(np.uint32)
    values = np.ones(1) if ones else rng.normal(size=len(indices))
    lengths = rng.multinomial(n, np.full(4, 0.25))
    return Encoded(Features(indptr, indices, values, 21, offsets_from_lengths(lengths)), None)


def dense_of(encoded: Encoded) -> np.ndarray:
    nodes = encoded.nodes
    x = np.zeros((len(nodes.indptr) - 1, nodes.n_features))
    step = np.repeat(np.arange(len(x)), np.diff(nodes.indptr))
    values = nodes.values if len(nodes.values) > 1 else np.ones(len(nodes.indices))
    np.add.at(x, (step, nodes.indices), values)
    return x


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 60),
    k=st.sampled_from([1, 2, 3, 7, 8, 9, 17, 24, 25, 33]),
    least=st.integers(1, 8),
    steps=st.sampled_from([1, 10, 1000]),
    ones=st.booleans(),
    twice=st.booleans(),
    observed=st.booleans(),
)
def test_scores_and_pull_back_are_those_of_the_matrix(
    seed: int, n: int, k: int, least: int, steps: int, ones: bool, twice: bool, observed: bool
) -> None:
    rng = np.random.default_rng(seed)
    encoded = implied_data(rng, n, k, ones=ones, twice=twice)
    gold = rng.integers(k, size=n).astype(np.int32)
    if observed:
        layout = LinearLayout.observed(encoded, gold, None, k, boundaries=True)
    else:
        layout = LinearLayout.all_pairs(encoded, k, boundaries=True)
    data = compact(layout, layout.design(encoded, sort=True), least, steps)
    size = padded(k)
    x = dense_of(encoded)

    weights = rng.normal(size=layout.dimension)
    w = layout.views(weights)
    table = np.full((len(data.bounds) - 1, size), np.nan)
    fill_table(data.bounds, data.members, layout.rows, w, table)
    runs = [slice(*run) for run in pairwise(data.offsets[data.blocks])]
    assert all(run.stop - run.start <= steps for run in runs) or steps < np.diff(data.offsets).max()
    u = np.full((n, size), np.nan)
    for block, run in enumerate(runs):
        score_compact(data, table, w, block, u[run])
    np.testing.assert_allclose(u[:, :k], x @ layout.feature_weights(weights), atol=1e-12)
    assert (u[:, k:] == -np.inf).all()

    d = np.zeros((n, size))
    d[:, :k] = rng.normal(size=(n, k))
    gradient, table_g = np.zeros(layout.dimension), np.zeros_like(table)
    g = layout.views(gradient)
    for block, run in enumerate(runs):
        pull_back_compact(data, table_g, g, block, d[run])
    empty_table(data.bounds, data.members, layout.rows, table_g, g)
    # the adjoint: <g, v> = <d, scores of v> for every v, and masked weights never move scores
    v = rng.normal(size=layout.dimension)
    assert gradient @ v == pytest.approx((d[:, :k] * (x @ layout.feature_weights(v))).sum(), abs=1e-9)


def test_what_is_implied_is_bundled() -> None:
    """200 steps of two letters and their pair: one row a step is left of three."""
    rng = np.random.default_rng(0)
    letters = rng.integers(3, size=(200, 2))
    indices = np.stack([letters[:, 0], 3 + letters[:, 1], 6 + 3 * letters[:, 0] + letters[:, 1]], axis=1)
    nodes = Features(
        np.arange(0, 603, 3), indices.ravel().astype(np.uint32), np.ones(1), 15, np.array([0, 200])
    )
    encoded = Encoded(nodes, None)
    layout = LinearLayout.all_pairs(encoded, 2, boundaries=True)
    data = compact(layout, layout.design(encoded, sort=True), 4)
    assert len(data.rows) == 200
    assert len(data.bounds) - 1 == 9
    assert np.diff(data.bounds).tolist() == [3] * 9


def test_what_is_rare_stays_where_it_is() -> None:
    encoded = implied_data(np.random.default_rng(1), 30, 2, ones=True, twice=False)
    layout = LinearLayout.all_pairs(encoded, 2, boundaries=True)
    design = layout.design(encoded, sort=True)
    data = compact(layout, design, 1000)
    assert len(data.bounds) == 1
    assert len(data.rows) == len(design.indices)
