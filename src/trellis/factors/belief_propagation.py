"""Belief propagation on factor graphs: exact without cycles, passed around them ("loopy") until it settles.

Messages (:mod:`.belief_propagation_kernels`) are logarithms, of sum-product or of max-product.

**Without cycles** (of variables and factors, joined where a factor has a variable) one pass to the roots and
one back make all messages exact. Nothing else is ever claimed to be exact.

**With cycles** one iteration updates the messages of all variables in turn, forwards and then backwards.
``damping`` d moves the logarithm of a message to (1 - d) new + d old, and what is impossible stays so. It has
converged when a sweep changes no logarithm of a message by more than ``tol`` (or by more than rounding
explains): a change of a share would not do, for a share of 1e-13 that doubles may be all that another factor
waits for. The fixed points of sum-product are the stationary points of the Bethe free energy, which also
estimates the log-partition function,

    log Z ~ sum_f sum_x b_f(x) (f(x) - log b_f(x)) + sum_v (1 - number of factors of v) H(b_v),

without a bound of the error; where there are no cycles it is exact.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import FloatArray, IntArray
from trellis.core.logspace_kernels import SUM
from trellis.core.status import Status
from trellis.factors.belief_propagation_kernels import factor_beliefs, settle, variable_beliefs
from trellis.factors.flat_factors import FlatFactors, offsets
from trellis.factors.forest_order import forest_order
from trellis.factors.possible_states import ContradictionError

AT_ONCE = 25  # iterations between which Ctrl-C is heard
ROUNDING = 1e-14  # of the largest logarithm: what adding up a few of them loses


class BeliefPropagation:
    """The messages of a factor graph.

    Parameters
    ----------
    factors : logarithms; no two of them over the same variables, which would be a cycle.
    variables : those that take part, in the order of the sweeps where there are cycles.
    mode : SUM or MAX.
    """

    def __init__(self, factors: FlatFactors, variables: IntArray, mode: int = SUM) -> None:
        self.factors, self.mode = factors, mode
        n = len(factors.cardinalities)
        order = forest_order(n + len(factors.value_start) - 1, factors.scope, n + factors.factor_of)
        self.is_forest = order is not None
        if order is not None:
            variables = order[np.isin(order, variables)]
        self._order = np.ascontiguousarray(variables, dtype=np.int64)
        sizes = factors.cardinalities[factors.scope]
        self._start = offsets(sizes)
        self._to_factor = np.zeros(self._start[-1])
        self._to_variable = np.repeat(-np.log(sizes), sizes) if mode == SUM else np.zeros(self._start[-1])
        self._digits = np.empty(np.diff(factors.scope_start).max(initial=1), dtype=np.int64)
        pairs = np.diff(factors.value_start)[np.diff(factors.scope_start) == 2]
        self._scratch = np.empty((2, factors.cardinalities.max(initial=1)))
        self._block = np.empty(pairs.max(initial=0))
        self._swept = False
        self.cells = offsets(factors.cardinalities)  # where the beliefs of each variable start
        finite = np.abs(factors.values[factors.values > -np.inf])
        self._rounding = ROUNDING * float(finite.max(initial=0.0))
        self.residuals: list[float] = []  # the largest change of a log-message in each iteration

    def run(self, max_iter: int, tol: float, damping: float = 0.0) -> Status:
        """Pass messages until they are exact or settled; raises ``ContradictionError`` where nothing is
        possible."""
        backwards, tol = self._order[::-1].copy(), max(tol, self._rounding)
        if self.is_forest:
            self._settle(-1.0, 0.0, backwards, self._order, 1)
            self.residuals.append(0.0)
            return Status(True, "one pass to the roots and back is exact, because there are no cycles", 1)
        while len(self.residuals) < max_iter:
            room = min(AT_ONCE, max_iter - len(self.residuals))
            self.residuals += self._settle(tol, damping, self._order, backwards, room)
            change = self.residuals[-1]
            if change <= tol:
                reason = f"log-messages change by at most {change:.2g} (tolerance {tol:.2g})"
                return Status(True, reason, len(self.residuals))
        reason = (
            f"log-messages still change by {self.residuals[-1]:.2g} (tolerance {tol:.2g}), so do not trust "
            f"the answer; raise damping (now {damping:g}) or max_iter, or use an exact method"
        )
        return Status(False, reason, len(self.residuals))

    def _settle(
        self, tol: float, damping: float, order: IntArray, backwards: IntArray, n_iter: int
    ) -> list[float]:
        """Up to so many iterations; their changes."""
        residuals = np.empty(n_iter)
        messages = self._start, self._to_variable, self._to_factor
        scratch = self._digits, self._scratch, self._block
        options = self.mode, damping, tol, not self._swept
        n = settle(*options, self.factors, order, backwards, *messages, *scratch, residuals)
        self._swept = True
        if residuals[n - 1] < 0:
            raise ContradictionError(-int(residuals[n - 1]) - 1)
        return [float(change) for change in residuals[:n]]

    def variable_beliefs(self) -> FloatArray:
        """log b_v of all variables, side by side (``cells``)."""
        beliefs = np.zeros(self.cells[-1])
        variable_beliefs(
            self.mode, self.factors, self._order, self._start, self._to_variable, self.cells, beliefs
        )
        return beliefs

    def most_probable(self) -> IntArray:
        """The state of the largest belief of each variable."""
        beliefs, starts = self.variable_beliefs(), self.cells[:-1]
        owner = np.repeat(np.arange(len(starts)), self.factors.cardinalities)
        tops = np.flatnonzero(beliefs == np.maximum.reduceat(beliefs, starts)[owner])
        first = np.unique(owner[tops], return_index=True)[1]
        return np.asarray(tops[first] - starts)

    def factor_beliefs(self) -> FloatArray:
        """log b_f in the layout of the values of the factors."""
        beliefs = np.empty_like(self.factors.values)
        f = factor_beliefs(self.mode, self.factors, self._start, self._to_factor, self._digits, beliefs)
        if f >= 0:
            raise ContradictionError(int(self.factors.scope[self.factors.scope_start[f]]))
        return beliefs

    def log_partition(self, of_factors: FloatArray | None = None) -> float:
        """Bethe's log Z of sum-product; ``of_factors``: what ``factor_beliefs`` gave."""
        logs = self.factor_beliefs() if of_factors is None else of_factors
        some = logs > -np.inf
        energy = np.exp(logs[some]) @ (self.factors.values[some] - logs[some])
        counts = 1.0 - np.diff(self.factors.incidence_start)
        taking_part = np.zeros(len(counts), dtype=np.bool_)
        taking_part[self._order] = True
        weights = np.repeat(np.where(taking_part, counts, 0.0), self.factors.cardinalities)
        logs = self.variable_beliefs()
        some = logs > -np.inf
        return float(energy - np.exp(logs[some]) @ (weights[some] * logs[some]))
