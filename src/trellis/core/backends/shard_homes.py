"""Which worker has which shards, and for which of them one task answers.

A shard has a home, the worker where its state is. Homes are runs of neighbours, so that most sums are added
where they are made (:mod:`.shard_sums`). A *share* is what one thread of a worker answers for in one task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from trellis.core.backends.shard_sums import split


class Share(NamedTuple):
    home: str
    numbers: list[int]  # of shards, ascending


def first_homes(n: int, workers: Mapping[str, int]) -> list[str]:
    """A run of about the same length for each thread of ``workers`` (threads by address), cut by halves as
    the sum is: what 2, 4, 8, ... threads add up are parts of it."""
    slots = [address for address, threads in workers.items() for _ in range(threads)]
    return evened(_halved(n, slots), workers)


def _halved(n: int, slots: Sequence[str]) -> list[str]:
    if len(slots) == 1:
        return [slots[0]] * n
    k = split(len(slots))
    left = -(-n * k // len(slots))
    return _halved(left, slots[:k]) + _halved(n - left, slots[k:])


def evened(homes: Sequence[str], workers: Mapping[str, int]) -> list[str]:
    """``homes`` among ``workers`` (threads by address) such that another move makes nothing better."""
    found = [home if home in workers else "" for home in homes]
    load = Counter(home for home in found if home)

    def full(address: str) -> tuple[float, str]:
        return (load[address] + 1) / workers[address], address

    for i, home in enumerate(found):
        if not home:
            found[i] = min(workers, key=full)
            load[found[i]] += 1
    while True:
        least, most = min(workers, key=full), max(workers, key=lambda one: (load[one] / workers[one], one))
        if full(least)[0] >= load[most] / workers[most]:
            return found
        moved = max(i for i, home in enumerate(found) if home == most)
        found[moved] = least
        load[most] -= 1
        load[least] += 1


def shares(homes: Sequence[str], workers: Mapping[str, int], single: Container[str] = ()) -> list[Share]:
    """The shards of each worker in as many shares as it has threads, as equal as can be, in the order of
    their first shards. Workers in ``single`` have one shard in a share: only that has to be in memory."""
    by_home: dict[str, list[int]] = {}
    for i, home in enumerate(homes):
        by_home.setdefault(home, []).append(i)
    found = []
    for home, numbers in by_home.items():
        parts = len(numbers) if home in single else min(workers.get(home, 1), len(numbers))
        bounds = [-(-k * len(numbers) // parts) for k in range(parts + 1)]
        found += [Share(home, numbers[a:b]) for a, b in pairwise(bounds)]
    return sorted(found, key=lambda one: one.numbers)
