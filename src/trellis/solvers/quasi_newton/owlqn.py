"""OWL-QN, L-BFGS for the L1 norm, as a solver record; :mod:`.quasi_newton_run` has the rules of stopping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import daxpy

from trellis.core.arrays import FloatArray
from trellis.core.registration import register
from trellis.solvers.problem import Problem, check_problem
from trellis.solvers.quasi_newton.line_search import ROUNDING, SUFFICIENT_DECREASE
from trellis.solvers.quasi_newton.quasi_newton_run import QuasiNewton, QuasiNewtonRun

MOSTLY_FIXED = 0.7  # share of fixed zero weights above which OWL-QN takes H from the free ones alone
EARLY_PAIRS = 6  # of H while OWL-QN still looks for its orthant: older ones come from other orthants
SETTLED = 5, 0.005  # it has found it when that many iterations lower the objective by less than this share


@register
@dataclass(frozen=True)
class OWLQN(QuasiNewton):
    """Orthant-wise L-BFGS: a step stays in one orthant, weights that would leave it become exactly zero.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import OWLQN
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=OWLQN(memory=5), max_iter=50, random_state=0, l1=0.1, l2=0.0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    name = "owlqn"
    default_delta = 1e-6

    def start(self, problem: Problem, weights: FloatArray, rng: np.random.Generator) -> _OWLQNRun:
        check_problem(problem, self.name, l1=True, smooth=True)
        return _OWLQNRun(problem, weights, self)


class _OWLQNRun(QuasiNewtonRun):
    """Pseudo-gradient p of the whole objective: the shortest vector of

    gradient + l1 sign(w)  where w != 0,   gradient + l1 [-1, 1]  where w = 0.

    A trial w + t d is projected on the orthant of sign(w) (of -p where w = 0) and accepted when F(trial) <=
    F(w) + 1e-4 p.(trial - w), rounding of F apart. The direction d is one of two:

    * At first, as Andrew and Gao have it, -H p without *every* component that does not descend along -p.
      While most weights still change their signs, what is dropped would mostly be clipped at zero.
    * Once the objective falls slowly (``SETTLED``), -H p within the free coordinates (those with w != 0 or
      p != 0; H is made from these alone once they are few), without the components that would move a zero
      weight uphill. What the first rule drops is what makes a quasi-Newton direction better than the
      gradient, and only zero weights need it dropped.

    The first rule alone needs up to ten times as many evaluations to reach the optimum of a logistic
    regression of the digit images; the second alone is behind for the first fifty iterations on text
    (benchmarks/l1.py).
    """

    kept = ("_settled",)

    def __init__(self, problem: Problem, weights: FloatArray, options: QuasiNewton) -> None:
        super().__init__(problem, weights, options)
        self._pseudo_gradient = np.empty_like(weights)
        self._orthant = np.empty_like(weights)
        self._settled = False

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        super().restore(snapshot)
        self._measure_gradient()  # writes the pseudo-gradient and the orthant

    def _measure_gradient(self) -> float:
        l1, p = self._problem.l1, self._pseudo_gradient
        # soft-thresholded gradient where w = 0, gradient + l1 sign(w) elsewhere
        np.sign(self.weights, out=self._orthant)
        shrunk = np.clip(self._gradient, -l1, l1)
        np.subtract(self._gradient, shrunk, out=p)
        np.multiply(self._orthant, l1, out=shrunk)
        shrunk += self._gradient
        np.copyto(p, shrunk, where=self._orthant != 0)
        np.copyto(self._orthant, -np.sign(p), where=self._orthant == 0)
        return float(np.sqrt(p @ p))

    def _has_settled(self) -> bool:
        period, share = SETTLED
        if not self._settled and len(self._objectives) > period:
            last = self._objectives[-1]
            self._settled = self._objectives[-1 - period] - last < share * abs(last)
        return self._settled

    def _direct(self) -> None:
        """Write -d, so that a trial is w - t times it."""
        p, d = self._pseudo_gradient, self._direction
        if not self._has_settled():
            self._inverse_hessian.times(p, out=d, newest=EARLY_PAIRS)
            d[d * p <= 0] = 0.0
            return
        at_zero = self.weights == 0
        fixed = at_zero & (p == 0)
        if np.count_nonzero(fixed) > MOSTLY_FIXED * len(p):
            self._inverse_hessian.times_within(np.flatnonzero(~fixed), p, out=d)
        else:  # gathering the free coordinates would cost more than it saves iterations
            self._inverse_hessian.times(p, out=d)
            d[fixed] = 0.0
        d[at_zero & (d * p <= 0)] = 0.0

    def _search(self) -> bool:
        self._direct()
        if not float(self._direction @ self._pseudo_gradient) > 0:
            return False
        step = self._first_step()
        for _ in range(30):
            decrease = self._project(step)
            if decrease >= 0:  # the projection stopped the good components: closer by, it does not
                step *= 0.5
                continue
            value = self._evaluate(self._trial_weights, self._trial_gradient)
            if value <= self._objective + SUFFICIENT_DECREASE * decrease + ROUNDING * abs(self._objective):
                self._accept(value)
                return True
            step *= 0.5
        return False

    def _project(self, step: float) -> float:
        """Write the projected trial; returns p.(trial - w), the fall that the pseudo-gradient promises."""
        trial = self._trial_weights
        np.copyto(trial, self.weights)
        daxpy(self._direction, trial, a=-step)
        trial[trial * self._orthant <= 0] = 0.0
        return float(self._pseudo_gradient @ trial) - float(self._pseudo_gradient @ self.weights)
