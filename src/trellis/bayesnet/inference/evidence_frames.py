"""Predictions for data frames: P(target | row) and the most probable states, for thousands of rows at once.

A frame is a pandas or polars frame, a dictionary of columns, or an array with a column for each variable
(``data_frames``); missing entries are unobserved. Equal rows are solved once, the others by
whatever takes the least (:mod:`.evidence_batches`), on ``n_jobs`` threads that do not change any digit.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trellis.bayesnet.inference.evidence_batches import EvidenceBatch
from trellis.bayesnet.inference.posterior import describe_evidence
from trellis.bayesnet.inference.question import Targets, check_targets
from trellis.bayesnet.model.data_frames import Codes, encode_frame, variables_with_gaps
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.bayesnet.model.distinct_rows import distinct_rows
from trellis.core.arguments import check_choice
from trellis.core.arrays import FloatArray
from trellis.core.backends import Backend, as_backend
from trellis.core.backends.backend import Told
from trellis.core.errors import InfeasibleError
from trellis.factors.junction_tree.plan_choice import MEMORY_LIMIT

Impossible = Literal["error", "nan"]


def predict_proba(
    model: DiscreteModel,
    frame: Any,
    targets: Targets = None,
    *,
    impossible: Impossible = "error",
    n_jobs: int = 1,
    memory_limit: float = MEMORY_LIMIT,
    backend: Any = None,
    progress: Told | None = None,
) -> Any:
    """P(target | row): an array (rows, states) for one target, a dictionary of such arrays for several.

    Without ``targets``, all variables that are missing somewhere. What a row observes has probability 1.
    ``impossible``: a row of probability zero is an "error", or its probabilities are "nan". ``backend``:
    where rows are solved (:func:`trellis.core.backends.as_backend`), to the same digits; with one,
    ``progress(done, all)`` is called as pieces arrive.
    """
    codes = encode_frame(model.variables, frame)
    wanted = _targets(model, frame, codes, targets)
    found = _solve(model, codes, wanted, impossible, n_jobs, memory_limit, as_backend(backend), progress)
    return found[wanted[0]] if isinstance(targets, str) else {model.names[v]: found[v] for v in wanted}


def predict(
    model: DiscreteModel,
    frame: Any,
    targets: Targets = None,
    *,
    impossible: Impossible = "error",
    n_jobs: int = 1,
    memory_limit: float = MEMORY_LIMIT,
    backend: Any = None,
    progress: Told | None = None,
) -> Any:
    """The most probable state of each target by itself: an array of names for one target, else columns.

    Columns come as a frame of the library of ``frame``, or as a dictionary of arrays. ``backend``,
    ``progress``: see :func:`predict_proba`. Without ``targets`` all
    variables that are missing somewhere. Impossible rows, if not an error, are ``None``.
    """
    found = predict_proba(
        model,
        frame,
        [targets] if isinstance(targets, str) else targets,
        impossible=impossible,
        n_jobs=n_jobs,
        memory_limit=memory_limit,
        backend=backend,
        progress=progress,
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
    model: DiscreteModel,
    codes: Codes,
    wanted: list[int],
    impossible: str,
    n_jobs: int,
    memory_limit: float,
    backend: Backend | None,
    progress: Told | None,
) -> dict[int, FloatArray]:
    """The marginals (rows, states) of each variable wanted."""
    check_choice("impossible", impossible, ("error", "nan"))
    rows = distinct_rows(codes, np.ones(len(codes)))
    batch = EvidenceBatch(model, rows.codes, wanted, memory_limit)
    lost, of = batch.marginals(n_jobs) if backend is None else batch.marginals_on(backend, progress)
    if lost.any() and impossible == "error":
        bad = int(np.flatnonzero(lost[rows.inverse])[0])
        evidence = {v: int(code) for v, code in enumerate(codes[bad]) if code >= 0}
        raise InfeasibleError(
            f"row {bad} of the frame has probability zero: {describe_evidence(model.variables, evidence)}; "
            "correct it, or pass impossible='nan'"
        )
    for v in wanted:
        of[v][lost] = np.nan
    return {v: of[v][rows.inverse] for v in wanted}
