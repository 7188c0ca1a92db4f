"""A labelling that nothing forbids, or the proof that there is none.

Messages, local moves and relaxations do not see a contradiction that goes round a cycle (three nodes that
must all differ, with two labels). Where they end at a forbidden labelling, or with sums that no labelling may
stand behind, they ask here. The search has a budget; where that runs out, the answer says so.
"""

from __future__ import annotations

import numpy as np

from trellis.core.errors import InfeasibleError
from trellis.core.status import Status
from trellis.factors.allowed_assignment import allowed_assignment
from trellis.factors.possible_states import ContradictionError
from trellis.structures.graph.oracle.graph_answers import NONE_ALLOWED
from trellis.structures.graph.oracle.graph_tables import GraphTables
from trellis.structures.graph.scores.graph_scores import GraphScores, Labels

NOT_ESTABLISHED = "no allowed labelling was found, and whether there is one was not established"


def allowed_labelling(scores: GraphScores, prefer: Labels | None = None) -> Labels | None:
    """Labels of a score above -inf, near ``prefer``; None if none was found. Raises if there is none."""
    if prefer is None:
        prefer = np.argmax(scores.unary, axis=1).astype(np.int32)
    if scores.score(prefer) > -np.inf:
        return prefer
    tables = GraphTables.of(scores)
    try:
        places = prefer[tables.graph.topology.order].astype(np.int64)
        found = allowed_assignment(tables.factors(), places)
    except ContradictionError as error:
        raise InfeasibleError(NONE_ALLOWED) from error
    return None if found is None else tables.graph.labels(found.astype(np.int32))


def with_feasibility(labelling: Labels | None, status: Status) -> Status:
    """The status of sums, given what :func:`allowed_labelling` found."""
    if labelling is not None:
        return status
    return Status(False, f"{status.reason}; {NOT_ESTABLISHED}", status.n_iter)
