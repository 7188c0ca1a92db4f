"""L-BFGS for smooth objectives, as a solver record; :mod:`.quasi_newton_run` has the rules of stopping."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.linalg.blas import daxpy

from trellis.core.arguments import check_int
from trellis.core.arrays import FloatArray
from trellis.core.registration import register
from trellis.solvers.problem import Problem, check_problem
from trellis.solvers.quasi_newton.line_search import Trial, strong_wolfe
from trellis.solvers.quasi_newton.quasi_newton_run import QuasiNewton, QuasiNewtonRun
from trellis.solvers.quasi_newton.stochastic_start import stochastic_start


@register
@dataclass(frozen=True)
class LBFGS(QuasiNewton):
    """Limited-memory BFGS with a strong Wolfe line search, for smooth objectives without L1 norm.

    ``start_passes``: passes of stochastic gradient descent before the first iteration, from w = 0
    (:mod:`.stochastic_start`). None is 4 where they pay: large data under a convex log objective with l2 > 0,
    on a structure that has compiled passes. 0 does without; elsewhere they are not made.

    Examples
    --------
    >>> from trellis import SequenceLabeler
    >>> from trellis.solvers import LBFGS
    >>> X, y = [["the", "cat"], ["a", "dog"]] * 5, [["D", "N"], ["D", "N"]] * 5
    >>> model = SequenceLabeler("log", solver=LBFGS(memory=5), max_iter=50, random_state=0)
    >>> model.fit(X, y).predict([["a", "cat"]])
    [['D', 'N']]
    """

    start_passes: int | None = None

    name = "lbfgs"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start_passes is not None:
            check_int("start_passes", self.start_passes, 0)

    def start(self, problem: Problem, weights: FloatArray, rng: np.random.Generator) -> _LBFGSRun:
        check_problem(problem, self.name, smooth=True)
        return _LBFGSRun(problem, weights, self, rng)


class _LBFGSRun(QuasiNewtonRun):
    def __init__(
        self, problem: Problem, weights: FloatArray, options: LBFGS, rng: np.random.Generator
    ) -> None:
        super().__init__(problem, weights, options)
        self._start_passes, self._rng = options.start_passes, rng

    def step(self) -> Mapping[str, float]:
        if not self._objectives:
            found = stochastic_start(self._problem, self.weights, self._rng, self._start_passes)
            if found is not None:
                self.weights, scale = found
                self._inverse_hessian.rescale(scale)
        return super().step()

    def _measure_gradient(self) -> float:
        return float(np.sqrt(self._gradient @ self._gradient))

    def _search(self) -> bool:
        self._inverse_hessian.times(self._gradient, self._direction, self._gradient_products)
        slope = -float(self._direction @ self._gradient)
        if not slope < 0:
            return False
        found = strong_wolfe(self._try_step, Trial(0.0, self._objective, slope), self._first_step())
        if found is None:
            return False
        self._accept(found.value)
        return True

    def _try_step(self, step: float) -> Trial:
        np.copyto(self._trial_weights, self.weights)
        daxpy(self._direction, self._trial_weights, a=-step)
        value = self._evaluate(self._trial_weights, self._trial_gradient)
        return Trial(step, value, -float(self._direction @ self._trial_gradient))
