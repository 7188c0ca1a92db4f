"""Several starts: the best one is kept, one at a time, and none after an interruption."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from trellis.core.errors import DataError
from trellis.core.status import Status
from trellis.solvers.dc.algorithm import DCSolution
from trellis.training import keep_best


def reached(objective: float, point: int, interrupted: bool = False) -> DCSolution[int]:
    history = {"primal": [9.0, objective], "dual": [objective]}
    return DCSolution(point=point, status=Status(True, ""), history=history, interrupted=interrupted)


def test_the_smallest_objective_wins_and_the_first_of_equals() -> None:
    best, objectives = keep_best(reached(x, i) for i, x in enumerate([3.0, 1.0, 2.0, 1.0]))
    assert best.point == 1
    assert objectives == [3.0, 1.0, 2.0, 1.0]


def test_no_start_follows_an_interrupted_one() -> None:
    asked = []

    def solutions() -> Iterator[DCSolution[int]]:
        for i in range(5):
            asked.append(i)
            yield reached(5.0 - i, i, interrupted=i == 2)

    best, objectives = keep_best(solutions())
    assert asked == [0, 1, 2]
    assert best.point == 2
    assert len(objectives) == 3


def test_a_better_start_before_an_interrupted_one_is_marked_as_well() -> None:
    """Or else nobody would know that Ctrl-C was pressed."""
    best, _ = keep_best(iter([reached(1.0, 0), reached(2.0, 1, interrupted=True)]))
    assert best.point == 0
    assert best.interrupted
    assert "interrupted from the keyboard; the best of 2 starts" in best.status.reason


def test_at_least_one_start() -> None:
    with pytest.raises(DataError, match="no start"):
        keep_best([])
