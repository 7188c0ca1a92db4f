"""Marginals of many rows of evidence: how they are solved, together, by what they observe, or one by one.

One tree for all rows (:mod:`trellis.factors.junction_tree.row_tree`) has every variable that some row does
not observe in its tables, for all rows. That is best where trees are small. Where they are large, rows that
observe the same variables go through a tree without these; and a row that no other resembles goes alone
through the junction tree of the model, as a single question does. What each way takes is forecast, and for
each kind of rows the least is taken: a batch costs no more than its rows one by one.

Costs are counted in units of 12 ns of one core, with the pass back. C is the number of multiplications of a
pass with all columns in the tables, c without the variables that a kind of rows observes. Rows go through a
tree side by side in blocks of b, as many as the cache holds (:func:`block_rows`), and a block of few costs
hardly less than one of many: its loops are the same.

    all together     PLAN + ceil(n / b) C (BLOCK + b / 4)
    by kind          PLAN + ceil(n / b) c (BLOCK + b / 4)
    one by one       n (ALONE + C / 2)            evidence sets zeros in one plan for all questions
                     n (REPLAN + c / 2)           where the plan is so large that evidence gets its own

Where a forecast must err, it errs in favour of rows one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from trellis.bayesnet.inference.exact_inference import ExactInference
from trellis.bayesnet.inference.question import Question
from trellis.bayesnet.model.data_frames import Codes
from trellis.bayesnet.model.discrete_model import DiscreteModel
from trellis.core.arrays import BoolArray, FloatArray, IntArray
from trellis.core.backends.backend import Backend, Told
from trellis.core.backends.item_map import answers_in_order
from trellis.core.errors import InfeasibleError
from trellis.core.shards import n_threads
from trellis.factors.elimination_order import elimination_order
from trellis.factors.junction_tree.junction_tree import JunctionTree, log_table
from trellis.factors.junction_tree.row_tree import RowTree

PLAN, ALONE, REPLAN, BLOCK = 350_000.0, 25_000.0, 80_000.0, 20.0
CACHED = 2.0**20  # numbers in the tables of a block
PIECE, PIECE_ALONE = 4096, 64  # rows that travel together to a worker
FEW = 16  # rows, up to which the tree that the model keeps is good enough


class Part(NamedTuple):
    """Rows that are solved alike, together or one by one, and the forecast of what that takes."""

    rows: IntArray
    together: bool
    cost: float


class Piece(NamedTuple):
    """Rows ``first`` to ``last`` - 1 of a part."""

    part: int
    first: int
    last: int


class EvidenceBatch:
    """Distinct rows of states (rows, variables), -1 where missing, and the variables ``wanted``."""

    def __init__(
        self, model: DiscreteModel, codes: Codes, wanted: Sequence[int], memory_limit: float
    ) -> None:
        self._model, self._codes, self._wanted, self._limit = model, codes, wanted, memory_limit
        self._sizes = model.cardinalities.tolist()
        self._observed: BoolArray = codes >= 0
        self._columns = np.flatnonzero(self._observed.any(axis=0)).tolist()
        _, self._factors = model.relevant([*wanted, *self._columns])
        self._scopes = [table.variables for table in self._factors]
        self._last: tuple[int, RowTree | None] | None = None

    # -- the choice -------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> list[Part]:
        """The rows, each in one part, by the way that takes the least."""
        n = len(self._codes)
        if n == 0:
            return []
        everything = np.arange(n)
        together = Part(everything, True, _together(n, self._multiplications(everything)))
        if together.cost <= n * ALONE:
            return [together]
        kinds, kind_of = np.unique(self._observed, axis=0, return_inverse=True)
        order = np.argsort(kind_of.ravel(), kind="stable")
        cuts = np.cumsum(np.bincount(kind_of.ravel(), minlength=len(kinds)))[:-1]
        apart = [self._cheapest(rows) for rows in np.split(order, cuts)]
        if together.cost <= sum(part.cost for part in apart):
            return [together]
        alone = [part for part in apart if not part.together]
        found = [part for part in apart if part.together]
        if alone:
            rows = np.concatenate([part.rows for part in alone])  # kind by kind: the tree keeps a few plans
            found.append(Part(rows, False, sum(part.cost for part in alone)))
        return found

    def _multiplications(self, rows: IntArray) -> float:
        """Of one pass for one of several rows that are solved together."""
        always = set(np.flatnonzero(self._observed[rows].all(axis=0)).tolist())
        scopes = [tuple(v for v in scope if v not in always) for scope in self._scopes]
        return elimination_order(self._sizes, scopes, "min_weight").total

    def _cheapest(self, rows: IntArray) -> Part:
        """The way for rows that observe the same variables."""
        n, costly = len(rows), self._tree.is_costly
        least = n * (REPLAN if costly else ALONE + self._tree.multiplications / 2)
        if n == 1 or least <= PLAN:  # what is left of the tables need not be looked at
            return Part(rows, False, least)
        each = self._multiplications(rows)
        alone = n * (REPLAN + each / 2) if costly else least
        together = _together(n, each)
        return Part(rows, True, together) if together < alone else Part(rows, False, alone)

    @cached_property
    def _tree(self) -> JunctionTree:
        """Of what matters for the targets and all columns; that of the model, which it keeps, if all does, or
        if there are hardly any rows."""
        of_model = ExactInference(Question(self._model), memory_limit=self._limit)
        if len(self._factors) == len(self._model.factors()) or (len(self._codes) < FEW and of_model.has_tree):
            return of_model.tree()
        return JunctionTree(self._sizes, self._factors, memory_limit=self._limit)

    # -- the answers ------------------------------------------------------------------------------------

    def marginals(self, n_jobs: int) -> tuple[BoolArray, dict[int, FloatArray]]:
        """Which rows are impossible, and the marginals (rows, states) of each variable wanted."""
        n_threads(n_jobs)
        pieces = [Piece(number, 0, len(part.rows)) for number, part in enumerate(self.parts)]
        return self._joined((piece, self.solve(piece, n_jobs)) for piece in pieces)

    def marginals_on(
        self, backend: Backend, told: Told | None = None
    ) -> tuple[BoolArray, dict[int, FloatArray]]:
        """The same on workers: cut by the rows alone, and each solved the way that all rows together decide,
        so that every digit is that of one machine."""
        pieces = [
            Piece(number, first, min(first + size, len(part.rows)))
            for number, part in enumerate(self.parts)
            for size in [PIECE if part.together else PIECE_ALONE]
            for first in range(0, len(part.rows), size)
        ]
        make = partial(_solver, self._model, self._codes, self._wanted, self._limit)
        return self._joined(
            zip(pieces, answers_in_order(make, pieces, backend=backend, told=told), strict=True)
        )

    def solve(self, piece: Piece, n_jobs: int = 1) -> tuple[BoolArray, dict[int, FloatArray]]:
        """Which rows of a piece are impossible, and the marginals of what each variable is not seen to be."""
        part = self.parts[piece.part]
        rows = part.rows[piece.first : piece.last]
        tree = self._tree_of(piece.part) if part.together else None
        if tree is not None:
            logs = [log_table(table).values for table in self._factors]
            log_z, found = tree.marginals(logs, self._codes[rows], n_jobs)
            return np.isneginf(log_z), found
        of = {v: np.full((len(rows), self._sizes[v]), 1.0 / self._sizes[v]) for v in self._wanted}
        lost = [not self._alone(row, place, of) for place, row in enumerate(rows.tolist())]
        return np.array(lost, dtype=np.bool_), of

    def _joined(
        self, solved: Iterable[tuple[Piece, tuple[BoolArray, dict[int, FloatArray]]]]
    ) -> tuple[BoolArray, dict[int, FloatArray]]:
        n = len(self._codes)
        lost = np.zeros(n, dtype=np.bool_)
        of = {v: np.full((n, self._sizes[v]), 1.0 / self._sizes[v]) for v in self._wanted}  # in no factor
        for piece, (impossible, found) in solved:
            rows = self.parts[piece.part].rows[piece.first : piece.last]
            lost[rows] = impossible
            for v, shares in found.items():
                of[v][rows] = shares
        for v in self._wanted:
            seen = np.flatnonzero(self._observed[:, v])
            of[v][seen] = np.eye(self._sizes[v])[self._codes[seen, v]]
        return lost, of

    def _tree_of(self, part: int) -> RowTree | None:
        """The tree of a part, kept for its next piece."""
        kept = self._last
        if kept is None or kept[0] != part:
            kept = self._last = part, self._row_tree(self.parts[part].rows)
        return kept[1]

    def _row_tree(self, rows: IntArray) -> RowTree | None:
        """The tree for several rows; None where it is too large, which for a single row it may not be."""
        observed = self._observed[rows]
        always = np.flatnonzero(observed.all(axis=0)).tolist()
        sometimes = [v for v in np.flatnonzero(observed.any(axis=0)).tolist() if v not in always]
        hidden = [v for v in self._wanted if v not in always]
        tree = RowTree(self._sizes, self._scopes, always, sometimes, hidden, len(rows))
        return tree if tree.forecast.bytes <= self._limit else None

    def _alone(self, row: int, place: int, of: dict[int, FloatArray]) -> bool:
        """The marginals of one row into ``of``, at a place; whether it is possible."""
        seen = np.flatnonzero(self._observed[row]).tolist()
        evidence = {v: int(self._codes[row, v]) for v in seen}
        hidden = [v for v in self._wanted if v not in evidence]
        if len(hidden) == 1 and self._tree.is_costly:  # elimination leaves out what this row does not need
            variables = self._model.variables
            question = Question(self._model, variables.names[hidden[0]], variables.decode(evidence))
            exact = ExactInference(question, memory_limit=self._limit)
            try:
                of[hidden[0]][place] = exact.solve("elimination")[0]
            except InfeasibleError:
                return False
            return True
        found = self._tree.marginals(evidence)
        for v in hidden:
            if found.of:
                of[v][place] = found.of[v]
        return found.log_partition > -np.inf


def _solver(
    model: DiscreteModel, codes: Codes, wanted: Sequence[int], memory_limit: float
) -> Callable[[Piece], tuple[BoolArray, dict[int, FloatArray]]]:
    """On a worker, which decides about all rows as the machine did that asks."""
    return EvidenceBatch(model, codes, wanted, memory_limit).solve


def block_rows(n: int, each: float) -> int:
    """How many of n rows go through a tree of ``each`` multiplications side by side, about."""
    return max(1, min(n, max(8, min(128, int(CACHED / max(each, 1.0))))))


def _together(n: int, each: float) -> float:
    """The forecast for n rows through one tree."""
    rows = block_rows(n, each)
    return PLAN + -(-n // rows) * each * (BLOCK + rows / 4)
