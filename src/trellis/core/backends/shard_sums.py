"""Sums of what shards answer, in an order that depends on nothing but their number.

    ((a_0 + a_1) + (a_2 + a_3)) + ((a_4 + a_5) + a_6)

The first half (the larger, of an odd number) plus the second, and each half in the same way. A shard that
arrives early waits for its neighbour, so that rounding does not depend on who was faster; of shards that
arrive in order, at most log2(n) + 1 sums wait. Where 2, 4, 8, ... workers have runs of equal length, the sum
over each run is a part of this sum: one array leaves each worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

Run = tuple[int, int]  # the shards first..last-1


def add(a: Any, b: Any) -> Any:
    """a + b for what shards answer: numbers, arrays, sparse matrices; tuples and dataclasses of such, field
    by field; mappings, key by key (a key that one side lacks counts as nothing). ``None`` is nothing."""
    if a is None or b is None:
        return b if a is None else a
    if isinstance(a, Mapping):
        return {key: add(a.get(key), b.get(key)) for key in {**a, **b}}
    if isinstance(a, tuple):
        parts = [add(x, y) for x, y in zip(a, b, strict=True)]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if is_dataclass(a) and not hasattr(a, "__add__"):
        return type(a)(**{f.name: add(getattr(a, f.name), getattr(b, f.name)) for f in fields(a)})  # type: ignore[misc]
    return a + b


def add_to(a: Any, b: Any) -> Any:
    """The same, in the memory of ``a`` where it is a plain array."""
    if (
        isinstance(a, np.ndarray)
        and isinstance(b, np.ndarray)
        and a.dtype == np.result_type(a, b)
        and a.flags.writeable
    ):
        a += b
        return a
    if type(a) is tuple and b is not None:
        return tuple(add_to(x, y) for x, y in zip(a, b, strict=True))
    return add(a, b)


class FixedOrderSum:
    """The sum of answers that come in any order; ``put`` each with the number of its shard, or sums over runs
    that another such sum left waiting. ``adding``: :func:`add_to` where the answers may be changed, else
    :func:`add`."""

    def __init__(self, n: int, adding: Callable[[Any, Any], Any] = add_to) -> None:
        self._n, self._adding = n, adding
        self.waiting: dict[Run, Any] = {}  # sums over runs, as few as there can be

    def put(self, index: int, answer: Any) -> None:
        self.put_run((index, index + 1), answer)

    def put_run(self, run: Run, answer: Any) -> None:
        while run != (0, self._n):
            left, right = self._neighbours(run)
            other = right if run == left else left
            if other not in self.waiting:
                break
            found = self.waiting.pop(other)
            answer = self._adding(answer, found) if run == left else self._adding(found, answer)
            run = left[0], right[1]
        self.waiting[run] = answer

    def total(self) -> Any:
        return self.waiting.pop((0, self._n))

    def _neighbours(self, run: Run) -> tuple[Run, Run]:
        """The two runs of shards that are added next, one of which is ``run``."""
        lo, hi = 0, self._n
        while True:
            middle = lo + split(hi - lo)
            if run in ((lo, middle), (middle, hi)):
                return (lo, middle), (middle, hi)
            lo, hi = (lo, middle) if run[1] <= middle else (middle, hi)


def split(n: int) -> int:
    """How many of n > 1 answers are on the left: half of them, and the one in the middle."""
    return (n + 1) // 2


def fixed_order_sum(answers: Iterable[Any]) -> Any:
    """The sum of answers in the order of their shards."""
    found = list(answers)
    adding = FixedOrderSum(len(found))
    for index, answer in enumerate(found):
        adding.put(index, answer)
    return adding.total()
