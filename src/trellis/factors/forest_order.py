"""Forests: the order of their nodes from the roots outwards."""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import IntArray


def forest_order(n_nodes: int, first: IntArray, second: IntArray) -> IntArray | None:
    """Nodes breadth first from the first one of each component; None where edges make a cycle.

    Edges join ``first`` and ``second``; no two are the same, and none joins a node to itself.
    """
    if n_nodes == 0:
        return np.zeros(0, dtype=np.int64)
    touched = int(np.count_nonzero(np.bincount(np.concatenate([first, second]), minlength=n_nodes)))
    if len(first) >= max(touched, 1):
        return None  # more edges than a tree of these nodes has
    from scipy.sparse import coo_array  # here, because importing them takes longer than most queries
    from scipy.sparse.csgraph import breadth_first_order, connected_components

    edges = coo_array((np.ones(len(first)), (first, second)), shape=(n_nodes, n_nodes))
    n_components, component = connected_components(edges, directed=False)
    if len(first) != n_nodes - int(n_components):
        return None
    roots = np.unique(component, return_index=True)[1]  # one search, from a node added above them all
    rows = np.concatenate([first, np.full(len(roots), n_nodes)])
    columns = np.concatenate([second, roots])
    whole = coo_array((np.ones(len(rows)), (rows, columns)), shape=(n_nodes + 1, n_nodes + 1))
    order = breadth_first_order(whole.tocsr(), n_nodes, directed=False, return_predecessors=False)
    return np.asarray(order[1:], dtype=np.int64)
