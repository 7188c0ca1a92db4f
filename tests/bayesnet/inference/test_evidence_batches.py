"""How rows of evidence are solved: the same answers by every way, and no way that costs more than a loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_networks import random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.inference import evidence_batches
from trellis.bayesnet.inference.evidence_batches import ALONE, PLAN, REPLAN, EvidenceBatch
from trellis.core.errors import DataError, InfeasibleError
from trellis.factors.elimination_order import elimination_order
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT

TOGETHER = {"PLAN": 0.0, "ALONE": 1e30, "REPLAN": 1e30}
BY_KIND = {"PLAN": -1e30, "ALONE": -1e30, "REPLAN": -1e30}
ONE_BY_ONE = {"PLAN": 1e30, "ALONE": 0.0, "REPLAN": 0.0}


def wide_network(rng: np.random.Generator, n: int, n_states: int, n_parents: int) -> BayesianNetwork:
    """Every variable has as many parents as it can: large tables, large trees."""
    states = {f"v{i}": range(n_states) for i in range(n)}
    parents = {f"v{i}": [f"v{j}" for j in rng.choice(i, min(i, n_parents), replace=False)] for i in range(n)}
    shapes = {v: [n_states] * len(parents[v]) for v in states}
    return BayesianNetwork(
        states, parents, {v: rng.dirichlet(np.ones(n_states), size=shape) for v, shape in shapes.items()}
    )


@pytest.mark.parametrize("costs", [TOGETHER, BY_KIND, ONE_BY_ONE], ids=["together", "by kind", "one by one"])
@settings(max_examples=15)
@given(seed=seeds)
def test_every_way_gives_the_answers_of_single_queries(costs: dict[str, float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    model: BayesianNetwork | FactorGraph
    model = random_network(rng, 6, zeros=True) if seed % 3 else random_graph(rng, 6, 6)
    targets: Any = [None, model.names[0], list(model.names[:2])][seed % 4 % 3]
    columns = rng.choice(6, 3, replace=False)
    kept = rng.random((12, 3)) < 0.7
    kept[6:] = kept[0]  # rows that observe the same, and others
    frame = {
        model.names[v]: [
            model.states[v][rng.integers(len(model.states[v]))] if kept[row, i] else None for row in range(12)
        ]
        for i, v in enumerate(columns)
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, cost in costs.items():
            patch.setattr(evidence_batches, name, cost)
        found = model.predict_proba(frame, targets, impossible="nan")
    by_name = {targets: found} if isinstance(targets, str) else found
    for row in range(12):
        evidence = {name: column[row] for name, column in frame.items() if column[row] is not None}
        for name, shares in by_name.items():
            try:
                truth = model.query(name, evidence).values
            except InfeasibleError:
                truth = np.full(len(shares[row]), np.nan)
            np.testing.assert_allclose(shares[row], truth, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(
    seed=seeds,
    shape=st.sampled_from(
        [(8, 3, 2), (12, 4, 3), (14, 6, 3), (14, 8, 3), (20, 4, 3), (30, 2, 4), (40, 2, 2)]
    ),
    missing=st.sampled_from([0.1, 0.3, 0.6]),
    kinds=st.sampled_from([3, 200]),
)
def test_no_batch_costs_more_than_its_rows_one_by_one(
    seed: int, shape: tuple[int, int, int], missing: float, kinds: int
) -> None:
    """By the forecasts, from which nothing is measured: 200 rows, 12 columns, some of them missing."""
    rng = np.random.default_rng(seed)
    network = wide_network(rng, *shape)
    n, n_states, _ = shape
    codes = rng.integers(n_states, size=(200, n)).astype(np.int32)
    codes[:, rng.permutation(n)[12:]] = -1
    patterns = rng.random((kinds, n)) < missing
    codes[patterns[np.arange(200) % kinds]] = -1
    batch = EvidenceBatch(network, codes, list(range(n)), MEMORY_LIMIT)
    parts = batch.parts
    assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == list(range(200))
    scopes = [(*parents, v) for v, parents in enumerate(network.parent_indices)]
    sizes = network.cardinalities
    tree, loop = batch._tree, 0.0
    for row in codes:  # as a single question goes: through the tree of the model, unless that is costly
        left = [tuple(v for v in scope if row[v] < 0) for scope in scopes]
        own = REPLAN + elimination_order(sizes, left, "min_weight").total / 2
        loop += own if tree.is_costly else ALONE + tree.multiplications / 2
    assert sum(part.cost for part in parts) <= loop + PLAN


def test_large_tables_are_not_carried_for_rows_that_observe_them() -> None:
    """A tree for all rows has 400,000 entries for each of them, and one for those alike some thousands."""
    rng = np.random.default_rng(0)
    network = wide_network(rng, 14, 8, 3)
    codes = rng.integers(8, size=(200, 14)).astype(np.int32)
    codes[rng.random((200, 14)) < 0.3] = -1
    batch = EvidenceBatch(network, codes, list(range(14)), MEMORY_LIMIT)
    assert sum(len(part.rows) for part in batch.parts if not part.together) > 150
    codes = rng.integers(8, size=(200, 14)).astype(np.int32)
    codes[:100, :3], codes[100:, 6:9] = -1, -1
    batch = EvidenceBatch(network, codes, list(range(14)), MEMORY_LIMIT)
    assert all(part.together for part in batch.parts)
    assert sum(part.cost for part in batch.parts) < 3 * PLAN


def test_batches_without_rows_are_empty() -> None:
    network = wide_network(np.random.default_rng(0), 4, 3, 2)
    for frame in ({"v0": []}, np.zeros((0, 4))):
        assert network.predict_proba(frame, "v1").shape == (0, 3)
        assert network.predict(frame, "v1").shape == (0,)
        assert network.log_likelihood(frame) == 0.0


def test_threads_are_checked_whatever_the_rows() -> None:
    network = wide_network(np.random.default_rng(0), 4, 3, 2)
    for n_jobs in (0, "two", True):
        with pytest.raises(DataError, match="n_jobs is"):
            network.predict_proba({"v0": [0]}, "v1", n_jobs=n_jobs)
