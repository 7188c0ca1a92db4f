"""Predictions for data frames: P(target | row) and the most probable states, for thousands of rows at once.

A frame is a pandas or polars frame, a dictionary of columns, or an array with a column for each variable
(``data_frames``); missing entries are unobserved. Equal rows are solved once. The others go
through one plan with the rows as innermost axis (:mod:`trellis.factors.junction_tree.row_tree`), on
``n_jobs`` threads that do not change any digit.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.inference.posterior import describe_evidence
from trellis.bayesnet.inference.question import Targets, check_targets
from trellis.bayesnet.model.data_frames import Codes, encode_frame, variables_with_gaps
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.distinct_rows import distinct_rows
from trellis.core.arguments import check_choice
from trellis.core.arrays import FloatArray
from trellis.core.errors import InfeasibleError
from trellis.factors.junction_tree.junction_tree import log_table
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT, check_memory
from trellis.factors.junction_tree.row_tree import RowTree

Impossible = Literal["error", "nan"]


def predict_proba(
    model: DiscreteModel,
    frame: Any,
    targets: Targets = None,
    *,
    impossible: Impossible = "error",
    n_jobs: int = 1,
    memory_limit: float = MEMORY_LIMIT,
) -> Any:
    """P(target | row): an array (rows, states) for one target, a dictionary of such arrays for several.

    Without ``targets``, all variables that are missing somewhere. What a row observes has probability 1.
    ``impossible``: a row of probability zero is an "error", or its probabilities are "nan".
    """
    codes = encode_frame(model.variables, frame)
    wanted = _targets(model, frame, codes, targets)
    found = _solve(model, codes, wanted, impossible, n_jobs, memory_limit)
    return found[wanted[0]] if isinstance(targets, str) else {model.names[v]: found[v] for v in wanted}


def predict(
    model: DiscreteModel,
    frame: Any,
    targets: Targets = None,
    *,
    impossible: Impossible = "error",
    n_jobs: int = 1,
    memory_limit: float = MEMORY_LIMIT,
) -> Any:
    """The most probable state of each target by itself: an array of names for one target, else columns.

    Columns come as a frame of the library of ``frame``, or as a dictionary of arrays. Without ``targets`` all
    variables that are missing somewhere. Impossible rows, if not an error, are ``None``.
    """
    found = predict_proba(
        model,
        frame,
        [targets] if isinstance(targets, str) else targets,
        impossible=impossible,
        n_jobs=n_jobs,
        memory_limit=memory_limit,
    )
    columns = {name: _most_probable(model.states[model.index(name)], p) for name, p in found.items()}
    if isinstance(targets, str):
        return columns[targets]
    libraries = {kind.__module__.partition(".")[0] for kind in type(frame).__mro__}  # of subclasses, too
    if "pandas" in libraries:
        return type(frame)(columns, index=frame.index)
    return type(frame)(columns) if "polars" in libraries else columns


def _most_probable(states: tuple[str, ...], shares: FloatArray) -> NDArray[Any]:
    """The names of the most probable states; the first of equals."""
    lost = np.isnan(shares).any(axis=1)
    names = np.array(states)[np.where(lost, 0, np.nan_to_num(shares).argmax(axis=1))]
    if lost.any():
        names = names.astype(object)
        names[lost] = None
    return names


def _targets(model: DiscreteModel, frame: Any, codes: Codes, targets: Targets) -> list[int]:
    if targets is None:
        return variables_with_gaps(model.variables, frame, codes)
    return list(check_targets(model.variables, targets))


def _solve(
    model: DiscreteModel, codes: Codes, wanted: list[int], impossible: str, n_jobs: int, memory_limit: float
) -> dict[int, FloatArray]:
    """The marginals (rows, states) of each variable wanted."""
    check_choice("impossible", impossible, ("error", "nan"))
    seen = codes >= 0
    columns = np.flatnonzero(seen.any(axis=0)).tolist()
    _, factors = model.relevant([*wanted, *columns])
    rows = distinct_rows(codes, np.ones(len(codes)))
    observed = rows.codes >= 0
    always = [v for v in columns if observed[:, v].all()]
    sometimes = [v for v in columns if not observed[:, v].all()]
    sizes = model.cardinalities.tolist()
    hidden = [v for v in wanted if v not in always]
    scopes = [table.variables for table in factors]
    tree = RowTree(sizes, scopes, always, sometimes, hidden, len(rows.codes))
    check_memory(tree.forecast, memory_limit)
    logs = [log_table(table).values for table in factors]
    log_z, of = tree.marginals(logs, rows.codes, n_jobs)
    for v in wanted:
        if v in always:
            of[v] = np.eye(sizes[v])[rows.codes[:, v]]
        elif v not in of:  # in no factor
            of[v] = np.full((len(rows.codes), sizes[v]), 1.0 / sizes[v])
    lost = np.isneginf(log_z)
    if lost.any() and impossible == "error":
        bad = int(np.flatnonzero(lost[rows.inverse])[0])
        evidence = {v: int(codes[bad, v]) for v in columns if seen[bad, v]}
        raise InfeasibleError(
            f"row {bad} of the frame has probability zero: {describe_evidence(model.variables, evidence)}; "
            "correct it, or pass impossible='nan'"
        )
    for v in wanted:
        of[v][lost] = np.nan
    return {v: of[v][rows.inverse] for v in wanted}
