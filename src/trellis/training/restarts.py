"""Several starts, the best result kept: for objectives with local minima."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import numpy as np

from trellis.core.errors import DataError
from trellis.solvers.dc.algorithm import DCSolution

U = TypeVar("U")


def best_of(solutions: Iterable[DCSolution[U]]) -> tuple[DCSolution[U], list[float]]:
    """The solution with the smallest objective (the first of equals), and the objective of each.

    ``solutions`` is consumed one by one, so a generator solves from one start at a time; after a solution
    that Ctrl-C interrupted, no further one is asked for.
    """
    found: list[DCSolution[U]] = []
    for solution in solutions:
        found.append(solution)
        if solution.interrupted:
            break
    if not found:
        raise DataError("there is no start; give at least one")
    reached = [solution.objective for solution in found]
    return found[int(np.argmin(reached))], reached
