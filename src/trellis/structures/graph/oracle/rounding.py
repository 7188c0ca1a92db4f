"""Rounding: from relaxed marginals of the nodes to a labelling.

* :func:`argmax`: the most probable label of each node; ties go to smaller labels.
* :func:`random`: each node by itself, from its marginals: P(y_i = k) = mu_i(k).
* :func:`expected_loss`: what random rounding costs on average, for a loss that adds up over nodes:

      E L = sum_i sum_k mu_i(k) cost[i, k]

  For the weighted Hamming loss with gold labels g and weights c this is sum_i c_i (1 - mu_i(g_i)).

Rounding knows nothing of forbidden pairs: the score of what it gives may be ``-inf``.

Examples
--------
>>> import numpy as np
>>> from trellis.structures.graph import GraphInference, GraphScores, rounding
>>> triangle = GraphScores.of(np.zeros((3, 2)), [(0, 1), (1, 2), (0, 2)], 1.0 - np.eye(2))
>>> relaxed = GraphInference("lp").best(triangle)
>>> float(rounding.expected_loss(relaxed.mu, 1.0 - np.eye(2)[[0, 1, 1]]))
1.5
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError
from trellis.structures.graph.scores.graph_scores import GraphParts, Labels


def argmax(mu: GraphParts) -> Labels:
    """The most probable label of each node, (N,)."""
    return np.asarray(np.argmax(mu.unary, axis=1), dtype=np.int32)


def random(mu: GraphParts, rng: np.random.Generator, n_samples: int = 1) -> Labels:
    """Labellings whose nodes are drawn independently from their marginals, (n_samples, N)."""
    shares = np.cumsum(np.maximum(mu.unary, 0.0), axis=1)
    drawn = rng.random((n_samples, len(shares), 1)) * shares[:, -1:]
    return np.asarray((shares <= drawn).sum(axis=2), dtype=np.int32)


def expected_loss(mu: GraphParts, cost: FloatArray) -> float:
    """The expected loss of random rounding, for costs (N, K)."""
    if cost.shape != mu.unary.shape:
        raise DataError(f"costs have shape {cost.shape}; the marginals of the nodes have {mu.unary.shape}")
    return float(np.sum(mu.unary * cost))
