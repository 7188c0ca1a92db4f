"""States on the workers of a Dask cluster, and the recipes that make them again when they are lost.

Dask makes the states of a dead worker again where their sources are small (the name of a file). Whatever it
cannot (sources that were data; everything, after the scheduler was started anew) is made here from recipes.
A question whose work was lost is asked again: questions are pure, and sums have an order of their own.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from trellis.core.backends import worker_tasks
from trellis.core.backends.backend import Told
from trellis.core.backends.dask_connection import INLINE, Connection, WorkLostError
from trellis.core.backends.dask_waiting import arrivals
from trellis.core.backends.shard_sums import split
from trellis.core.backends.worker_tasks import Packed
from trellis.core.errors import ClusterError

Answer = TypeVar("Answer")
REPEATS = 10  # of one question, without an end in sight


@dataclass(frozen=True)
class Recipe:
    """How states are made: ``function(source)`` of each source, or ``function(state, [own,] *arguments)`` of
    the states of ``before``."""

    function: Callable[..., Any]
    each: Sequence[Any] | None
    arguments: tuple[Any, ...] = ()
    before: Recipe | None = None

    def steps(self, i: int) -> list[tuple[Any, Any]]:
        """What :func:`.worker_tasks.made` does for shard i."""
        if self.before is None:
            return [(self.function, None if self.each is None else self.each[i])]
        own = () if self.each is None else (self.each[i],)
        return [*self.before.steps(i), (self.function, (*own, *self.arguments))]

    def name(self, i: int, n: int) -> str:
        """Of shard i, for messages: the file that it is read from, where its source tells."""
        first = self
        while first.before is not None:
            first = first.before
        source = None if first.each is None else first.each[i]
        for found in (source, getattr(source, "name", None), getattr(source, "path", None)):
            if isinstance(found, str) or hasattr(found, "__fspath__"):
                return f"{found} (shard {i + 1} of {n})"
        return f"shard {i + 1} of {n}"


class DaskShards:
    """One future per state; shard i has a home, the worker where it is asked."""

    def __init__(self, connection: Connection, recipe: Recipe, n: int) -> None:
        self._connection, self._recipe, self._n = connection, recipe, n
        self._states: list[Any] = [None] * n
        self._homes: list[str] = [""] * n

    @classmethod
    def placed(cls, connection: Connection, recipe: Recipe, n: int) -> DaskShards:
        shards = cls(connection, recipe, n)
        shards._until_answered(shards._mend)
        return shards

    def __len__(self) -> int:
        return self._n

    def ask(self, question: Callable[..., Answer], *arguments: Any, told: Told | None = None) -> list[Answer]:
        found: list[Answer] = self._question(lambda: self._asked(question, None, arguments, told))
        return found

    def ask_each(self, question: Callable[..., Answer], each: Sequence[Any], *arguments: Any) -> list[Answer]:
        found: list[Answer] = self._question(lambda: self._asked(question, each, arguments, None))
        return found

    def total(self, question: Callable[..., Answer], *arguments: Any, told: Told | None = None) -> Answer:
        found: Answer = self._question(lambda: self._summed(question, arguments, told))
        return found

    def change(self, question: Callable[..., Any], *arguments: Any) -> DaskShards:
        return self._changed(Recipe(question, None, arguments, self._recipe))

    def change_each(self, question: Callable[..., Any], each: Sequence[Any], *arguments: Any) -> DaskShards:
        return self._changed(Recipe(question, each, arguments, self._recipe))

    def release(self) -> None:
        _release(self._states)
        self._states = [None] * self._n

    # -- questions --------------------------------------------------------------------------------------

    def _question(self, attempt: Callable[[], Any]) -> Any:
        started = time.perf_counter()
        try:
            return self._until_answered(attempt)
        finally:
            self._connection.traffic.questions += 1
            self._connection.traffic.seconds += time.perf_counter() - started

    def _until_answered(self, attempt: Callable[[], Any]) -> Any:
        for _ in range(REPEATS):
            try:
                return attempt()
            except WorkLostError as lost:
                self._connection.traffic.repeats += 1
                last = lost
            self._connection.restore()
        raise ClusterError(
            f"the work at {self._connection.address} was lost {REPEATS} times in a row; look at the logs of "
            "its scheduler and workers"
        ) from last

    def _asked(
        self, question: Callable[..., Any], each: Sequence[Any] | None, arguments: Any, told: Told | None
    ) -> list[Any]:
        self._mend()
        found: dict[int, Any] = {}
        futures = self._submitted(worker_tasks.packed_answer, question, each, arguments)
        try:
            for ready in arrivals(self._connection, futures, self._name):
                values = self._connection.fetch([futures[i] for i in ready])
                found.update(zip(ready, values, strict=True))
                _release([futures[i] for i in ready])
                if told is not None:
                    told(len(found), self._n)
        finally:
            _release(futures)
        return [found[i] for i in range(self._n)]

    def _summed(self, question: Callable[..., Any], arguments: Any, told: Told | None) -> Any:
        """Answers are let go as they are ready: those waiting to be added are kept by what waits for them."""
        self._mend()
        leaves = self._submitted(worker_tasks.answered, question, None, arguments)
        inner = list(self._tree(leaves))
        root = self._client.submit(Packed.of, (inner or leaves)[-1], pure=False, priority=1)
        try:
            _release(inner)
            done = 0
            for ready in arrivals(self._connection, leaves, self._name):
                _release([leaves[i] for i in ready])
                done += len(ready)
                if told is not None:
                    told(done, self._n)
            for _ in arrivals(self._connection, [root], lambda _: "the sum over all shards"):
                pass
            return self._connection.fetch([root])[0]
        finally:
            _release([*leaves, root])

    def _submitted(
        self,
        task: Callable[..., Any],
        question: Callable[..., Any],
        each: Sequence[Any] | None,
        arguments: Any,
    ) -> list[Any]:
        shared = self._connection.send(self._connection.packed((question, arguments)))
        own = None if each is None else [self._delivered(each[i], i) for i in range(self._n)]
        futures: list[Any] = [None] * self._n
        for home, numbers in self._at_home():
            asked = self._client.map(
                task,
                [self._states[i] for i in numbers],
                [shared] * len(numbers),
                [None if own is None else own[i] for i in numbers],
                workers=[home],
                allow_other_workers=True,
                pure=False,
            )
            for i, future in zip(numbers, asked, strict=True):
                futures[i] = future
        return futures

    def _tree(self, leaves: list[Any]) -> Iterator[Any]:
        """Futures of the inner sums in the order of :mod:`.shard_sums`, the whole sum last."""
        levels: dict[int, list[tuple[int, int]]] = {}
        _levels(0, self._n, levels)
        sums: dict[tuple[int, int], Any] = {(i, i + 1): leaf for i, leaf in enumerate(leaves)}
        for _, runs in sorted(levels.items()):
            by_home: dict[str, list[tuple[int, int]]] = {}
            for run in runs:
                by_home.setdefault(self._homes[run[0]], []).append(run)
            for home, here in sorted(by_home.items()):
                middles = [first + split(last - first) for first, last in here]
                futures = self._client.map(
                    worker_tasks.added,
                    [sums[first, middle] for (first, _), middle in zip(here, middles, strict=True)],
                    [sums[middle, last] for (_, last), middle in zip(here, middles, strict=True)],
                    workers=[home],
                    allow_other_workers=True,
                    pure=False,
                    priority=1,  # before further answers, which would only wait in memory
                )
                sums.update(zip(here, futures, strict=True))
                yield from futures

    # -- states -----------------------------------------------------------------------------------------

    def _changed(self, recipe: Recipe) -> DaskShards:
        """New states from those that are here; should they be lost on the way, from the recipes."""
        new = DaskShards(self._connection, recipe, self._n)
        try:
            self._until_answered(self._mend)
            new._homes = list(self._homes)
            new._states = self._submitted(
                worker_tasks.answered, recipe.function, recipe.each, recipe.arguments
            )
            new._arrived()
        except WorkLostError:
            self._connection.restore()
            new._until_answered(new._mend)
        return new

    def _mend(self) -> None:
        """Every state is there, or on its way: those that are lost are made again from their recipes."""
        self._settle()
        lost = [
            i
            for i, state in enumerate(self._states)
            if state is None or state.client is not self._client or state.status in ("cancelled", "error")
        ]
        if not lost:
            return
        first = all(state is None for state in self._states)
        sources = []
        for i in lost:
            recipe = self._delivered(self._recipe.steps(i), i)
            sources.append(recipe)
            self._states[i] = self._client.submit(
                worker_tasks.made,
                recipe,
                workers=[self._homes[i]],
                allow_other_workers=True,
                pure=False,
            )
        self._connection.traffic.remade += 0 if first else len(lost)
        self._arrived()

    def _arrived(self) -> None:
        """What goes wrong in making states is raised here, and no state is left."""
        try:
            for _ in arrivals(self._connection, self._states, self._name):
                pass
        except WorkLostError:
            raise
        except BaseException:
            self.release()
            raise

    def _settle(self) -> None:
        """Homes: runs of neighbours on each worker, by its threads. Where workers are gone or came anew, as
        few shards move as make it even again."""
        workers = self._connection.workers()
        if not any(self._homes):
            slots = [address for address, threads in workers.items() for _ in range(threads)]
            self._homes = [slots[i * len(slots) // self._n] for i in range(self._n)]
            return
        homes = evened(self._homes, workers)
        for i, (old, new) in enumerate(zip(self._homes, homes, strict=True)):
            if old in workers and old != new and self._states[i] is not None:
                self._states[i] = self._client.submit(
                    worker_tasks.same, self._states[i], workers=[new], allow_other_workers=True, pure=False
                )
        self._homes = homes

    def _at_home(self) -> list[tuple[str, list[int]]]:
        """The workers, and the shards of each."""
        found: dict[str, list[int]] = {}
        for i, home in enumerate(self._homes):
            found.setdefault(home, []).append(i)
        return list(found.items())

    def _delivered(self, value: Any, i: int) -> Any:
        """For the task of shard i: inside its message where it is small, else straight to its home."""
        packed = self._connection.packed(value)
        if packed.nbytes > INLINE:
            return self._connection.send(packed, self._homes[i])
        self._connection.traffic.bytes_out += packed.nbytes
        return packed

    def _name(self, i: int) -> str:
        return self._recipe.name(i, self._n)

    @property
    def _client(self) -> Any:
        return self._connection.client


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


def _levels(first: int, last: int, found: dict[int, list[tuple[int, int]]]) -> int:
    """Runs of shards by how many additions deep they are; the depth of this one."""
    if last - first <= 1:
        return 0
    middle = first + split(last - first)
    depth = 1 + max(_levels(first, middle, found), _levels(middle, last, found))
    found.setdefault(depth, []).append((first, last))
    return depth


def _release(futures: Sequence[Any]) -> None:
    for future in futures:
        if future is not None:
            future.release()
