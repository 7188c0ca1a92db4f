"""The results of inference on graphs: best labellings with their bounds, and marginals.

    value = score of the labels  <=  max_y score(y)  <=  bound,         gap = bound - value

A relaxation maximises the score over part marginals ``mu`` in the local polytope, a set that contains all
labellings; so its maximum is an upper bound. A labelling whose gap is closed is a best one, whatever method
found it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from trellis.core.status import Status
from trellis.structures.graph.scores.graph_scores import GraphParts, GraphScores, Labels

DIRECT = Status(True, "a direct method", 1)
NONE_ALLOWED = "the graph has no allowed labelling: forbidden labels and pairs contradict each other"


@dataclass(frozen=True)
class RelaxedSolution:
    """A best labelling, or the best that was found, with an upper bound.

    Attributes
    ----------
    labels : (N,) after rounding.
    value : the score of ``labels``; -inf if no allowed labelling was found (``status`` says so).
    bound : an upper bound on the score of every labelling; ``inf`` if the method has none.
    integral : the relaxed solution is a labelling (to 1e-6), so nothing was lost in rounding.
    exact : ``labels`` are proved to be a best labelling, up to ``tol``.
    method : the method that found it (for "auto": the one chosen).
    status : why the method stopped, and after how many iterations; running out of them is not "converged".
    scores : the scores that were maximised, costs included.
    relaxed : the relaxed part marginals where they are not a labelling; see :attr:`mu`.
    """

    labels: Labels
    value: float
    bound: float
    integral: bool
    exact: bool
    method: str
    status: Status
    scores: GraphScores
    relaxed: GraphParts | None = None

    @property
    def gap(self) -> float:
        """bound - value, never negative."""
        return max(self.bound - self.value, 0.0)

    @cached_property
    def mu(self) -> GraphParts:
        """The part marginals of the relaxation; the indicators of the labels where there is none."""
        return self.scores.of_labels(self.labels) if self.relaxed is None else self.relaxed


@dataclass(frozen=True)
class GraphMarginals:
    """log sum_y exp score(y) and the marginals of all parts.

    ``exact`` is False for "tree_reweighted" and "loopy". ``bound`` says that ``log_partition`` is an upper
    bound, and that ``parts`` is its gradient: true of all methods but "loopy". ``status`` says whether an
    iterative method has converged, and how far it was from it when it stopped; or that it was not established
    whether any labelling is allowed at all.
    """

    log_partition: float
    parts: GraphParts
    exact: bool
    bound: bool
    method: str
    status: Status
