"""What a chain offers to the stochastic start of a quasi-Newton method (``start_kernels``)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.core.arrays import FloatArray
from trellis.core.shards import n_threads
from trellis.structures.chain.passes.start_kernels import descent_pass
from trellis.structures.chain.problem.chain_problem import LinearChainProblem


class CompiledStart:
    """Passes are sequential. Meanwhile a second thread, where there is one, arranges the features for the
    batch evaluations that follow."""

    def __init__(self, problem: LinearChainProblem) -> None:
        self._problem = problem
        mask: Any = problem.layout.mask
        self._mask = problem.layout.views(mask if len(mask) else np.ones(problem.dimension, np.uint8))
        self._nothing = problem.layout.views(np.zeros(problem.dimension))._replace(flat=np.zeros(0))
        self._other = ThreadPoolExecutor(1) if n_threads(problem.n_jobs) > 1 else None

    def visit(
        self,
        weights: FloatArray,
        order: NDArray[np.int64],
        rate: float,
        decay: float,
        visits: int,
        squares: FloatArray | None = None,
    ) -> float:
        problem, views = self._problem, self._problem.layout.views
        value = descent_pass(
            problem.design, problem.layout.rows, problem.penalties, self._mask, problem.task, order,
            rate, decay, float(visits), views(weights), self._nothing if squares is None else views(squares),
        )  # fmt: skip
        return float(value)

    def __enter__(self) -> CompiledStart:
        if self._other is not None:
            self._arranged = self._other.submit(self._problem.arrange)
        return self

    def __exit__(self, *error: object) -> None:
        if self._other is not None:
            self._other.shutdown()
            self._arranged.result()
