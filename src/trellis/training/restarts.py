"""Several starts, the best result kept: for objectives with local minima."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from trellis.core.blas_threads import one_blas_thread
from trellis.core.errors import DataError
from trellis.core.progress import progress_bar
from trellis.core.status import INTERRUPTED, Status
from trellis.solvers.dc.algorithm import DCProblem, DCSolution
from trellis.training.checkpoints import Checkpoints
from trellis.training.driver import minimise_dc

U = TypeVar("U")
V = TypeVar("V")


# Also the starts are computed in here: BLAS threads would compete with the shards for the cores.
@one_blas_thread()
def run_em(
    problem: DCProblem[U, V],
    starts: Iterable[U],
    *,
    n_starts: int = 1,
    max_iter: int,
    tol: float,
    verbose: bool | None = False,
    checkpoints: Checkpoints | None = None,
) -> tuple[DCSolution[U], list[float]]:
    """EM from each of ``n_starts`` starts; the best solution, and the primal that each of them reached.

    After Ctrl-C it is the best one so far, marked ``interrupted``: see :func:`trellis.training.driver.drive`.
    ``checkpoints``: each start is a stage of them.
    """

    def solve(i: int, start: U) -> DCSolution[U]:
        title = "EM" if n_starts == 1 else f"EM, start {i + 1} of {n_starts}"
        with progress_bar(title, max_iter, verbose) as report:
            return minimise_dc(
                problem,
                start,
                max_iter=max_iter,
                tol=tol,
                on_iteration=report,
                keep_interrupted=True,
                checkpoints=checkpoints,
            )

    return keep_best(solve(i, start) for i, start in enumerate(starts))


def keep_best(solutions: Iterable[DCSolution[U]]) -> tuple[DCSolution[U], list[float]]:
    """The solution with the smallest objective (the first of equals), and the objective of each.

    ``solutions`` is consumed one by one, so a generator solves from one start at a time; after a solution
    that Ctrl-C interrupted, no further one is asked for, and the best one so far is marked ``interrupted``.

    Examples
    --------
    >>> import numpy as np
    >>> from trellis.solvers import ArrayDC
    >>> from trellis.training import keep_best, minimise_dc
    >>> size = lambda u: (float(abs(u).sum()), np.sign(u))
    >>> problem = ArrayDC(lambda u: 0.5 * float(u @ u), size, lambda v: v)
    >>> runs = (minimise_dc(problem, np.array([u]), max_iter=9, tol=1e-9) for u in (0.0, -0.5))
    >>> best, objectives = keep_best(runs)
    >>> best.point.tolist(), objectives
    ([-1.0], [0.0, -0.5])
    """
    found: list[DCSolution[U]] = []
    for solution in solutions:
        found.append(solution)
        if solution.interrupted:
            break
    if not found:
        raise DataError("there is no start; give at least one")
    reached = [solution.objective for solution in found]
    best = found[int(np.argmin(reached))]
    if found[-1].interrupted and not best.interrupted:
        status = Status(False, f"{INTERRUPTED}; the best of {len(found)} starts is kept", best.n_iter)
        best = replace(best, status=status, interrupted=True)
    return best, reached
