"""Networks as factor graphs, and factor graphs as networks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from small_networks import joint, random_graph, random_network, seeds
from trellis import FactorGraph
from trellis.bayesnet.model.conversions import network_from_graph
from trellis.core.errors import (
    InfeasibleError,
    UnsupportedError,
)


@given(seeds)
def test_a_network_as_factor_graph_and_back(seed: int) -> None:
    net = random_network(np.random.default_rng(seed), 6, zeros=seed % 2 == 0)
    graph = net.to_factor_graph()
    np.testing.assert_allclose(joint(graph), joint(net), atol=1e-15)
    assert joint(graph).sum() == pytest.approx(1.0)
    np.testing.assert_allclose(joint(graph.to_network()), joint(net), atol=1e-12)


@given(seeds)
def test_a_factor_graph_as_network(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, int(rng.integers(1, 6)), int(rng.integers(0, 7)))
    weights = joint(graph)
    np.testing.assert_allclose(joint(graph.to_network()), weights / weights.sum(), rtol=1e-10, atol=1e-14)


def test_conversion_refuses_the_impossible_and_the_large() -> None:
    opposite = FactorGraph([2, 2], [([0, 1], np.eye(2)), ([0, 1], 1 - np.eye(2))])
    with pytest.raises(InfeasibleError, match="every assignment has weight zero"):
        opposite.to_network()
    dense = FactorGraph([4] * 6, [((i, j), np.ones((4, 4))) for i in range(6) for j in range(i)])
    with pytest.raises(UnsupportedError, match=r"table of 4,096 numbers on 6 axes, and the limits are 1,000"):
        network_from_graph(dense, limit=1000)


def test_conversion_neither_overflows_nor_underflows() -> None:
    """By hand: the weights of a state are products that no floating-point number holds."""
    tiny, huge = (
        FactorGraph([2], [([0], [1e-200, 3e-200])] * 5),
        FactorGraph([2], [([0], [1e200, 1e200])] * 5),
    )
    np.testing.assert_allclose(tiny.to_network().tables[0], np.array([1, 243]) / 244, rtol=1e-10)
    np.testing.assert_allclose(huge.to_network().tables[0], [0.5, 0.5], rtol=1e-10)
    opposed = FactorGraph([2], [([0], [1, 1e-200])] * 2 + [([0], [1e-200, 1])] * 2)
    np.testing.assert_allclose(opposed.to_network().tables[0], [0.5, 0.5], rtol=1e-10)
