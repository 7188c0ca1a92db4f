"""Networks learned from shards of rows: counting, and EM where states are missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import BayesianNetwork
from trellis.bayesnet.learning import expected_counts
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError
from trellis.data.sequence_shards import sequence_shard

NAMES = "ABCDE"
STATES = {name: ["x", "y", "z"][: 2 + (name in "BD")] for name in NAMES}
PLACES = LocalBackend(1), LocalBackend(2), LocalBackend(3, max_memory=1)


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequence_shard, "LEAST", 5)


def network() -> BayesianNetwork:
    parents = {"B": ["A"], "C": ["A"], "D": ["B", "C"], "E": ["D"]}
    return BayesianNetwork(STATES, parents, "uniform")


def rows(n: int, missing: float, seed: int) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    frame = {}
    for name in NAMES:
        states = np.array(STATES[name], dtype=object)[rng.integers(len(STATES[name]), size=n)]
        states[rng.random(n) < missing] = None
        frame[name] = states.tolist()
    frame["A"][0] = frame["E"][0] = "x"
    return frame


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 80),
    missing=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 50),
    weighted=st.booleans(),
    tree=st.booleans(),
)
def test_the_same_network(n: int, missing: float, seed: int, weighted: bool, tree: bool) -> None:
    frame = rows(n, missing, seed)
    weight = np.random.default_rng(seed).integers(1, 4, n) if weighted else None
    options: dict[str, Any] = {
        "sample_weight": weight, "start": "random", "random_state": 0, "max_iter": 5, "tol": 0.0,
        "pseudocount": 0.1,
    }  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        if tree:  # every row with something missing goes through a junction tree
            patch.setattr(expected_counts, "SMALL", 1)
            patch.setattr(expected_counts, "MOST", 1)
        whole = network().fit(frame, **options)
        found = [network().fit(frame, backend=at, **options) for at in PLACES]
    for net in found:
        assert net.fit_.log_likelihood == pytest.approx(whole.fit_.log_likelihood, rel=1e-9)
        assert net.fit_.status.n_iter == whole.fit_.status.n_iter
        for key in ("primal", "dual"):
            np.testing.assert_allclose(net.fit_.history[key], whole.fit_.history[key], rtol=1e-9)
            assert net.fit_.history[key] == found[0].fit_.history[key]
        for ours, first, theirs in zip(net.tables, found[0].tables, whole.tables, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9)
            np.testing.assert_array_equal(ours, first)


def test_errors_name_the_row_among_all() -> None:
    frame = {"A": ["x"] * 30, "B": [None, "x", "y"] * 10}
    frame["B"][26] = "z"
    states = {"A": ["x", "y"], "B": ["x", "y", "z"]}
    net = BayesianNetwork(states, {"B": ["A"]}, {"A": [0.5, 0.5], "B": [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]})
    with pytest.raises(DataError, match="row 26 of the data is impossible"):
        net.fit(frame, backend="threads")
