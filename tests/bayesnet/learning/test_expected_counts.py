"""Expected counts: by junction trees, in log space and by enumeration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from small_networks import random_network, seeds
from trellis import BayesianNetwork
from trellis.bayesnet.learning.counting_kernels import count_rows
from trellis.bayesnet.learning.tree_counts import TreeCounts
from trellis.factors.flat_factors import flatten
from trellis.factors.junction_tree import row_tree


@settings(max_examples=25)
@given(seed=seeds, share=st.sampled_from([0.3, 0.7, 1.0]))
def test_the_junction_tree_counts_what_enumeration_counts(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 7, zeros=bool(seed % 2))
    factors = flatten(network.cardinalities, network.factors())
    codes = network.sample(9, random_state=seed, output="codes")
    codes[rng.random(codes.shape) < share] = -1
    weight = rng.random(9)
    with np.errstate(divide="ignore"):
        log_values = np.log(factors.values)
    counts, row_log = np.zeros(len(log_values)), np.zeros(9)
    count_rows(factors, log_values, codes, weight, 0, 9, 3**7, counts, row_log)
    for n_jobs in (1, 2):
        found_log, found = TreeCounts(factors, codes)(log_values, weight, n_jobs)
        np.testing.assert_allclose(found_log, row_log, atol=1e-12)
        np.testing.assert_allclose(found, counts, atol=1e-12)


@settings(max_examples=25)
@given(seed=seeds, share=st.sampled_from([0.3, 0.7, 1.0]), power=st.sampled_from([1.0, 60.0, 600.0]))
def test_counts_in_log_space_are_those_of_enumeration(seed: int, share: float, power: float) -> None:
    """Powers of the tables reach far below what double precision holds; some rows are impossible."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 7, zeros=bool(seed % 2))
    factors = flatten(network.cardinalities, network.factors())
    codes = rng.integers(0, factors.cardinalities, size=(9, 7)).astype(np.int32)
    codes[rng.random(codes.shape) < share] = -1
    weight = rng.random(9)
    with np.errstate(divide="ignore"):
        log_values = power * np.log(factors.values)
    counts, row_log = np.zeros(len(log_values)), np.zeros(9)
    count_rows(factors, log_values, codes, weight, 0, 9, 3**7, counts.copy(), row_log)
    weight[np.isneginf(row_log)] = 0.0  # learning refuses them
    count_rows(factors, log_values, codes, weight, 0, 9, 3**7, counts, row_log)
    for span in (-1.0, row_tree.LARGEST_LEAF_SPAN):  # all rows in log space, and those that need it
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(row_tree, "LARGEST_LEAF_SPAN", span)
            found_log, found = TreeCounts(factors, codes)(log_values, weight)
        np.testing.assert_allclose(found_log, row_log, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found, counts, atol=1e-9)


def test_learning_from_evidence_that_contradicts_itself_beyond_double_precision() -> None:
    """A hidden cause of 2 x 200 readings, half for each of its states: p = 10^-799.9 of each state."""
    n = 400
    states = {"cause": ["a", "b"], **{f"x{i}": ["a", "b"] for i in range(n)}}
    reading = np.array([[1 - 1e-4, 1e-4], [1e-4, 1 - 1e-4]])
    tables: dict[str, Any] = {"cause": [0.25, 0.75], **{f"x{i}": reading for i in range(n)}}
    network = BayesianNetwork(states, {f"x{i}": ["cause"] for i in range(n)}, tables)
    factors = flatten(network.cardinalities, network.factors())
    codes = np.array([[-1, *(int(i >= n // 2) for i in range(n))]], dtype=np.int32)
    row_log, counts = TreeCounts(factors, codes)(np.log(factors.values), np.ones(1))
    assert row_log[0] == pytest.approx(200 * (np.log(1e-4) + np.log1p(-1e-4)), rel=1e-12)
    np.testing.assert_allclose(counts[:2], [0.25, 0.75], rtol=1e-9)
