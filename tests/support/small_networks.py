"""Random small networks and factor graphs, and their joint distributions by enumeration."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from trellis import BayesianNetwork, FactorGraph
from trellis.factors.tables import Table, aligned, product


def random_network(
    rng: np.random.Generator, n: int, *, max_parents: int = 3, max_states: int = 3, zeros: bool = False
) -> BayesianNetwork:
    """Arrows along a random order; the variables themselves are numbered in another order."""
    order = rng.permutation(n)
    states = {f"v{i}": [f"s{k}" for k in range(rng.integers(1, max_states + 1))] for i in range(n)}
    parents = {}
    for place, i in enumerate(order):
        count = int(rng.integers(0, min(place, max_parents) + 1))
        parents[f"v{i}"] = [f"v{j}" for j in rng.choice(order[:place], count, replace=False)]
    tables = {}
    for name, values in states.items():
        shape = [len(states[p]) for p in parents[name]]
        rows = rng.dirichlet(np.ones(len(values)), size=shape)
        if zeros:
            rows = np.where(rng.random(rows.shape) < 0.3, 0.0, rows)
            rows[..., 0] += rows.sum(axis=-1) == 0
            rows = rows / rows.sum(axis=-1, keepdims=True)
        tables[name] = rows
    return BayesianNetwork(states, parents, tables)


def random_graph(rng: np.random.Generator, n: int, n_factors: int) -> FactorGraph:
    sizes = rng.integers(1, 4, size=n)
    factors = []
    for _ in range(n_factors):
        scope = rng.choice(n, int(rng.integers(0, min(n, 3) + 1)), replace=False)
        factors.append((scope.tolist(), rng.exponential(size=sizes[scope])))
    return FactorGraph(sizes, factors)


def joint(model: BayesianNetwork | FactorGraph) -> np.ndarray:
    """The product of all factors, one axis for each variable in order, not normalised."""
    n = len(model.names)
    ones = [Table((i,), np.ones(size)) for i, size in enumerate(model.cardinalities)]
    together = product(*ones, *model.factors())
    return np.array(aligned(together, range(n)))


seeds = st.integers(0, 2**32 - 1)
