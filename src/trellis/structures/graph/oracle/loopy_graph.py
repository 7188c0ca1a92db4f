"""Loopy belief propagation on graphs, the baseline: no bound, and no promise that it settles.

The engine is :mod:`trellis.factors.belief_propagation`, on the nodes, simple edges and wide factors of the
graph. Max-product decodes each node by its belief, then improves single nodes; sum-product gives beliefs and
Bethe's estimate of log Z. Both are exact on forests; elsewhere :mod:`.allowed_labelling` says whether there
is anything to estimate.
"""

from __future__ import annotations

import numpy as np

from trellis.core.errors import InfeasibleError
from trellis.core.logspace_kernels import MAX, SUM
from trellis.core.status import Status
from trellis.factors.belief_propagation import BeliefPropagation
from trellis.factors.possible_states import ContradictionError
from trellis.structures.graph.oracle.allowed_labelling import allowed_labelling, with_feasibility
from trellis.structures.graph.oracle.graph_answers import NONE_ALLOWED, GraphMarginals, RelaxedSolution
from trellis.structures.graph.oracle.graph_tables import GraphTables
from trellis.structures.graph.oracle.message_passing import improve_labels, settle_labels
from trellis.structures.graph.oracle.rounding import argmax
from trellis.structures.graph.scores.graph_scores import GraphScores

DAMPING = 0.5


def loopy_best(scores: GraphScores, max_iter: int, tol: float) -> RelaxedSolution:
    """The labels of the largest beliefs of max-product, improved by single nodes."""
    tables, messages, status = _propagated(scores, MAX, max_iter, tol)
    beliefs = messages.variable_beliefs().reshape(tables.unary.shape)
    found = improve_labels(scores, tables.graph.labels(np.argmax(beliefs, axis=1).astype(np.int32)))
    labels, value, status = settle_labels(scores, found, status)
    return RelaxedSolution(labels, value, np.inf, False, False, "loopy", status, scores)


def loopy_marginals(scores: GraphScores, max_iter: int, tol: float) -> GraphMarginals:
    """Beliefs of sum-product, and the Bethe estimate of log Z."""
    tables, messages, status = _propagated(scores, SUM, max_iter, tol)
    beliefs = messages.factor_beliefs()
    log_partition, exact = messages.log_partition(beliefs), messages.is_forest
    parts = tables.parts(np.exp(beliefs))
    if not exact:
        status = with_feasibility(allowed_labelling(scores, argmax(parts)), status)
    return GraphMarginals(log_partition, parts, exact, exact, "loopy", status)


def _propagated(
    scores: GraphScores, mode: int, max_iter: int, tol: float
) -> tuple[GraphTables, BeliefPropagation, Status]:
    tables = GraphTables.of(scores)
    messages = BeliefPropagation(tables.factors(), np.arange(scores.n_nodes), mode)
    try:
        return tables, messages, messages.run(max_iter, tol, DAMPING)
    except ContradictionError as error:
        raise InfeasibleError(NONE_ALLOWED) from error
