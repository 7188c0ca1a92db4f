"""Learning the tables of a Bayesian network from data, and the log-likelihood of data.

Complete rows: the maximum-likelihood table of a variable is the share of each state among the rows with the
same states of the parents; with a pseudo-count a (a Dirichlet prior with parameters a + 1) it is

    P(k | parents) = (count(k, parents) + a) / sum_j (count(j, parents) + a)

Rows with missing states: EM through the DC solver (``network_em``), which reports minus the
penalised log-likelihood (primal) and minus its lower bound (dual) in each iteration and stops with an error
if either rises. Missing means missing at random: that a state is missing must not tell which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.bayesnet.formats.row_files import row_pieces
from trellis.bayesnet.learning.counted_rows import RowSummary, ShardedRows, summarise
from trellis.bayesnet.learning.expected_counts import ExpectedCounts
from trellis.bayesnet.learning.network_em import Counts, NetworkEM
from trellis.bayesnet.model.data_frames import encode_frame
from trellis.bayesnet.model.directed_model import DirectedModel
from trellis.bayesnet.model.distinct_rows import DistinctRows, distinct_rows
from trellis.core.arguments import (
    RandomState,
    check_choice,
    check_int,
    check_nonnegative,
    check_sample_weight,
    generator,
)
from trellis.core.arrays import FloatArray
from trellis.core.backends import Backend, as_backend
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError
from trellis.core.stage_times import StageTimes
from trellis.core.status import Status
from trellis.core.storage import PathLike
from trellis.data.shard_files import encoding_stage
from trellis.factors.flat_factors import FlatFactors, flatten
from trellis.training.checkpoints import keep_checkpoints
from trellis.training.driver import minimise_dc
from trellis.training.restarts import keep_best

N = TypeVar("N", bound=DirectedModel)
LEAST_COUNT = 1e-140  # of weights and pseudo-counts that are not 0


@dataclass(frozen=True)
class LearningReport:
    """How a network was learned; ``network.fit_`` of the network that :func:`fit` returns.

    ``history["primal"]`` and ``history["dual"]`` are the certificates of EM (one primal and no dual where the
    data were complete). ``unseen`` tells for how many configurations of its parents a variable had no data:
    those rows of its table are as they were before. ``seconds`` is what each stage took, as ``fit_seconds_``
    of other models.
    """

    status: Status
    log_likelihood: float
    history: dict[str, list[float]] = field(default_factory=dict)
    unseen: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def n_iter(self) -> int:
        return self.status.n_iter


def fit(
    network: N,
    frame: Any,
    *,
    pseudocount: float | Mapping[str, ArrayLike] = 0.0,
    sample_weight: ArrayLike | None = None,
    keep: str | Sequence[str] = (),
    start: Literal["network", "random"] = "network",
    n_init: int = 1,
    max_iter: int = 1000,
    tol: float = 1e-8,
    random_state: RandomState = None,
    n_jobs: int = 1,
    checkpoint: PathLike | None = None,
    backend: Any = None,
    max_memory: int | str | None = None,
) -> N:
    """A network with the same edges and tables learned from ``frame``; ``fit_`` reports how.

    Parameters
    ----------
    frame : pandas, polars, a dictionary of columns, or an array; missing entries and columns are hidden. Or a
        path, folder or pattern of CSV, TSV or Parquet files, which are counted in shards.
    pseudocount : a number added to every count, or an array for each variable that has some.
    sample_weight : one weight for each row.
    keep : variables whose tables are known and stay.
    start : whether EM starts from the tables of the network, or from random ones.
    n_init : the number of random starts; the best result is kept.
    max_iter, tol : the largest number of iterations, and the least rise of the mean log-likelihood of a row
        that is worth another one.
    random_state, n_jobs : the seed of random starts, and the number of threads.
    checkpoint : a folder in which EM is stored now and then: if anything stops it, the same call goes on from
        there, and ends in the same network.
    backend, max_memory : where shards of the rows are counted, and how much memory that may take: those of
        :class:`~trellis.HMM`.
    """
    stages = StageTimes()
    check_choice("start", start, ("network", "random"))
    tol = check_nonnegative("tol", tol)
    n_init, max_iter = check_int("n_init", n_init, 1), check_int("max_iter", max_iter, 0)
    if start == "network" and n_init > 1:
        raise DataError(f"n_init is {n_init}; use start='random' for more than one start")
    layout = flatten(network.cardinalities, network.factors())
    place = as_backend(backend, n_jobs, max_memory)
    if place is None and row_pieces(frame) is not None:
        place = LocalBackend(n_jobs, max_memory)
    data = _data(network, frame, sample_weight, layout, place)
    stages.done(encoding_stage(frame))
    summary = data.summary
    if not summary.known.any():
        raise DataError("every entry of the frame is missing; there is nothing to learn from")
    fixed = np.zeros(len(layout.values), dtype=np.bool_)
    for variable in network.variables.indices(keep):
        fixed[layout.value_start[variable] : layout.value_start[variable + 1]] = True
    prior = np.where(fixed, 0.0, _pseudocounts(network, pseudocount, layout))
    with np.errstate(divide="ignore"):
        u = np.log(layout.values)
    problem = NetworkEM(layout, data.rows, prior, fixed, n_jobs)
    if summary.complete:  # one M-step: expected counts are counts, whatever the tables were
        _, point = problem.g_conjugate(Counts(problem.complete_counts(), u))
        status = Status(True, "all rows are complete, and counting is exact", 1)
        return _with_tables(network, layout, problem, point, status, None, stages)
    checkpoints = keep_checkpoints(
        checkpoint,
        type(network).__name__,
        {"start": start, "n_init": n_init, "max_iter": max_iter, "tol": tol, "random_state": random_state},
        {**({} if checkpoint is None else data.identity()), "network": layout, "pseudocount": (prior, fixed)},
    )
    if start == "random":
        rng = generator(checkpoints.random_state(random_state))
        starts = [problem.normalise(rng.exponential(size=len(u)), u) for _ in range(n_init)]
    else:
        _check_start(network, layout, summary.unseen, prior, u)
        starts = [u]
    total_tol = tol * summary.weight
    found, _ = keep_best(
        minimise_dc(problem, one, max_iter=max_iter, tol=total_tol, checkpoints=checkpoints) for one in starts
    )
    checkpoints.close()
    return _with_tables(network, layout, problem, found.point, found.status, found.history, stages)


class _Data(NamedTuple):
    """Different rows, here or in shards; what is in them; and what a checkpoint knows them by."""

    rows: DistinctRows | ShardedRows
    summary: RowSummary
    identity: Callable[[], dict[str, Any]]


def _data(
    network: DirectedModel,
    frame: Any,
    sample_weight: ArrayLike | None,
    layout: FlatFactors,
    place: Backend | None,
) -> _Data:
    pieces = row_pieces(frame)
    if pieces is not None and place is not None:
        if sample_weight is not None:
            raise DataError("sample_weight cannot be given with files; repeat rows, or give a frame")
        read = ShardedRows.read(layout, network.variables, pieces, place)
        return _Data(read, read.summary(), lambda: {"frame": read.identity()})
    codes = encode_frame(network.variables, frame)
    weight = check_sample_weight(sample_weight, len(codes), "row")
    if not weight.any():
        raise DataError("the frame has no rows of positive weight; there is nothing to learn from")
    _check_range("sample_weight", weight)
    rows = distinct_rows(codes, weight)
    counted = rows if place is None else ShardedRows.of(layout, rows, place)
    return _Data(counted, summarise(rows), lambda: {"frame": rows.codes, "sample_weight": rows.weight})


def log_likelihood(
    network: DirectedModel, frame: Any, *, per_row: bool = False, n_jobs: int = 1
) -> float | FloatArray:
    """log p(frame), or of each row, summed over everything that is missing; ``-inf`` where impossible."""
    codes = encode_frame(network.variables, frame)
    rows = distinct_rows(codes, np.ones(len(codes)))
    layout = flatten(network.cardinalities, network.factors())
    with np.errstate(divide="ignore"):
        row_log, _ = ExpectedCounts(layout, rows.codes, rows.weight, n_jobs)(np.log(layout.values))
    if per_row:
        each: FloatArray = row_log[rows.inverse]
        return each
    return float(rows.weight @ row_log)


def _with_tables(
    network: N,
    layout: FlatFactors,
    problem: NetworkEM,
    u: FloatArray,
    status: Status,
    history: dict[str, list[float]] | None,
    stages: StageTimes,
) -> N:
    value, v = problem.h(u)
    unseen = problem.rows_without_data(v)
    with np.errstate(divide="ignore"):  # what did not change keeps its last bit
        values = np.where(u == np.log(layout.values), layout.values, np.exp(u))
    bounds = zip(layout.value_start, layout.value_start[1:], network.tables, strict=False)
    learned = network.with_tables([values[a:b].reshape(table.shape) for a, b, table in bounds])
    stages.done("training")
    learned.fit_ = LearningReport(
        status,
        value,
        history or {"primal": [problem.g(u) - value], "dual": []},
        {name: int(count) for name, count in zip(network.names, unseen, strict=True) if count},
        stages.seconds,
    )
    return learned


def _pseudocounts(
    network: DirectedModel, pseudocount: float | Mapping[str, ArrayLike], layout: FlatFactors
) -> FloatArray:
    """Pseudo-counts of all cells, in the layout of the values."""
    given: Mapping[str, ArrayLike]
    if isinstance(pseudocount, Mapping):
        given = pseudocount
    elif np.ndim(pseudocount) == 0:
        given = dict.fromkeys(network.names, pseudocount)
    else:
        raise DataError(
            f"pseudocount is {pseudocount!r}; give a number for all tables, or a dictionary with a number or "
            "an array for each variable that has some"
        )
    prior = np.zeros(len(layout.values))
    for name, values in given.items():
        i = network.index(name)
        shape = network.tables[i].shape
        try:
            cells = np.broadcast_to(np.asarray(values, dtype=np.float64), shape)
        except (TypeError, ValueError):
            raise DataError(
                f"the pseudo-counts of {name!r} must be numbers in the shape of its table, {shape}, got the "
                f"shape {np.shape(values)}"
            ) from None
        if np.asarray(values).dtype == np.bool_ or not (cells >= 0).all() or np.isinf(cells).any():
            raise DataError(f"the pseudo-counts of {name!r} must be finite numbers that are not negative")
        _check_range(f"the pseudo-counts of {name!r}", cells)
        prior[layout.value_start[i] : layout.value_start[i + 1]] = cells.ravel()
    return prior


def _check_range(name: str, values: FloatArray) -> None:
    """Sums of counts are numbers, and so are their shares."""
    bad = (values > 0) & ((values < LEAST_COUNT) | (values > 1 / LEAST_COUNT))
    if bad.any():
        raise DataError(
            f"{name}: {values[bad][0]:g} is out of range; give 0 or numbers between {LEAST_COUNT:g} and "
            f"{1 / LEAST_COUNT:g}"
        )


def _check_start(
    network: DirectedModel, layout: FlatFactors, unseen: NDArray[np.bool_], prior: FloatArray, u: FloatArray
) -> None:
    """EM can leave neither a zero nor a tie between all states of a variable that is never observed.

    Such a tie matters only above something observed; elsewhere data say nothing about the variable, and its
    table stays as it is.
    """
    impossible = (prior > 0) & (u == -np.inf)
    if impossible.any():
        variable = int(np.searchsorted(layout.value_start, impossible.argmax(), side="right")) - 1
        raise DataError(
            f"the table of {network.names[variable]!r} contains zeros, but a pseudo-count says that "
            "these states are possible; use start='random', leave its pseudo-count out, or keep its table"
        )
    above = network.closure(np.flatnonzero(~unseen).tolist())
    for hidden in sorted(above.intersection(np.flatnonzero(unseen).tolist())):
        families = (hidden, *network.child_indices(hidden))
        if network.cardinalities[hidden] > 1 and all(_ignores(network, f, hidden) for f in families):
            raise DataError(
                f"{network.names[hidden]!r} is never observed and the tables treat all its states alike, "
                "so that EM cannot tell them apart; use start='random', or give the network other tables"
            )


def _ignores(network: DirectedModel, family: int, variable: int) -> bool:
    """Whether the table of ``family`` is the same for all states of ``variable``."""
    axis = (*network.parent_indices[family], family).index(variable)
    table = network.tables[family]
    return bool(np.allclose(table, table.take([0], axis=axis), rtol=1e-9, atol=0.0))
