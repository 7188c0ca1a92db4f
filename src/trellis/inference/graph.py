"""``GraphInference``: the best labelling of a graph, its marginals and samples, by a method of one's choice.

"best labelling" methods: "auto", "tree", "junction_tree", "max_flow", "lp", "message_passing", "icm", "loopy".
"marginals" methods: "auto", "tree", "junction_tree" (exact), "tree_reweighted", "loopy" (approximate).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.errors import UnsupportedError
from trellis.inference.graph_answers import GraphMarginals, RelaxedSolution
from trellis.inference.structure import Labels
from trellis.scores.graphs import GraphScores
from trellis.scores.parts import FloatArray


@dataclass(frozen=True)
class GraphInference:
    """Options of inference; one object serves any number of graphs and threads.

    Parameters
    ----------
    method : see above.
    max_iter : passes of the iterative methods.
    tol : a gap of at most tol * max(1, |value|) is closed.
    memory_limit : bytes that a junction tree may take.
    """

    method: str = "auto"
    max_iter: int = 200
    tol: float = 1e-6
    memory_limit: float = 2.0**30

    def best(
        self, scores: GraphScores, cost: FloatArray | None = None, scale: float = 1.0
    ) -> RelaxedSolution:
        """argmax_y score(y) + scale sum_i cost[i, y_i]; value and bound include the cost."""
        raise UnsupportedError("not written yet")

    def marginals(
        self, scores: GraphScores, cost: FloatArray | None = None, scale: float = 1.0
    ) -> GraphMarginals:
        """log sum_y exp(score(y) + scale cost(y)) and the marginals of nodes, edges and factors."""
        raise UnsupportedError("not written yet")

    def log_partition(self, scores: GraphScores) -> float:
        return self.marginals(scores).log_partition

    def sample(self, scores: GraphScores, n_samples: int, rng: np.random.Generator) -> Labels:
        """Exact samples from p(y) proportional to exp score(y), (n_samples, N)."""
        raise UnsupportedError("not written yet")

    def k_best(self, scores: GraphScores, k: int) -> tuple[Labels, FloatArray]:
        """The k best labellings (k, N) and their scores (k,)."""
        raise UnsupportedError("not written yet")
