"""States on the workers of a Dask cluster, and the recipes that make them again when they are lost.

Dask makes the states of a dead worker again where their sources are small (the name of a file). Whatever it
cannot (sources that were data; everything, after the scheduler was started anew) is made here from recipes.
A question whose work was lost is asked again: questions are pure, and sums have an order of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from trellis.core.backends import worker_tasks
from trellis.core.backends.backend import Told
from trellis.core.backends.dask_connection import INLINE, Connection, WorkLostError
from trellis.core.backends.dask_waiting import arrivals
from trellis.core.backends.shard_homes import Share, evened, first_homes, shares
from trellis.core.backends.shard_sums import split

Answer = TypeVar("Answer")


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
        self._workers: dict[str, int] = {}  # threads by address, as they were last seen

    @classmethod
    def placed(cls, connection: Connection, recipe: Recipe, n: int) -> DaskShards:
        shards = cls(connection, recipe, n)
        connection.until_answered(shards._mend)
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
        attempts = count()
        found: Answer = self._question(
            lambda: self._summed(question, arguments, told, again=next(attempts) > 0)
        )
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
            return self._connection.until_answered(attempt)
        finally:
            self._connection.traffic.questions += 1
            self._connection.traffic.seconds += time.perf_counter() - started

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

    def _summed(self, question: Callable[..., Any], arguments: Any, told: Told | None, *, again: bool) -> Any:
        """Each thread of a worker adds up what its shards answer; sums are joined in pairs of neighbours.
        Where memory is short, and where the question was lost before, each shard is a task of its own."""
        self._mend()
        single = self._workers if again else self._connection.full_workers()
        found = shares(self._homes, self._workers, single)
        shared = self._connection.send(self._connection.packed((question, arguments)))
        sums = [
            self._submit(
                worker_tasks.share_answered, one.home, self._states_of(one), one.numbers, self._n, shared
            )
            for one in found
        ]
        inner: list[Any] = []
        root = self._join(worker_tasks.packed_sum, found, sums, inner)
        try:
            _release(inner)
            done = 0
            for ready in arrivals(self._connection, sums, self._name, [one.numbers for one in found]):
                _release([sums[j] for j in ready])  # what waits to be joined is kept by what waits for it
                done += sum(len(found[j].numbers) for j in ready)
                if told is not None:
                    told(done, self._n)
            for _ in arrivals(self._connection, [root], lambda _: "the sum over all shards"):
                pass
            return self._connection.fetch([root])[0]
        finally:
            _release([*sums, root])

    def _halves(self, of: Sequence[Share], sums: Sequence[Any], inner: list[Any]) -> list[Any]:
        """Futures of the sums over the first half of ``sums`` and the second, by halves as in
        :mod:`.shard_sums`; those that are made here go to ``inner``, too."""
        k = split(len(sums)) if len(sums) > 1 else 1
        found: list[Any] = []
        for where, half in ((of[:k], sums[:k]), (of[k:], sums[k:])):
            if len(half) > 1:
                inner.append(self._join(worker_tasks.joined, where, half, inner))
            found += inner[-1:] if len(half) > 1 else half
        return found

    def _join(
        self, task: Callable[..., Any], of: Sequence[Share], sums: Sequence[Any], inner: list[Any]
    ) -> Any:
        """Before further answers, which would only wait in memory."""
        return self._submit(task, of[0].home, self._n, *self._halves(of, sums, inner), priority=1)

    def _states_of(self, share: Share) -> list[Any]:
        return [self._states[i] for i in share.numbers]

    def _submit(self, task: Callable[..., Any], home: str, *arguments: Any, priority: int = 0) -> Any:
        return self._client.submit(
            task, *arguments, workers=[home], allow_other_workers=True, pure=False, priority=priority
        )

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

    # -- states -----------------------------------------------------------------------------------------

    def _changed(self, recipe: Recipe) -> DaskShards:
        """New states from those that are here; should they be lost on the way, from the recipes."""
        new = DaskShards(self._connection, recipe, self._n)
        try:
            self._connection.until_answered(self._mend)
            new._homes = list(self._homes)
            new._states = self._submitted(
                worker_tasks.answered, recipe.function, recipe.each, recipe.arguments
            )
            new._arrived()
        except WorkLostError:
            self._connection.restore()
            self._connection.until_answered(new._mend)
        return new

    def _mend(self) -> None:
        """Every state is there: those that are not are made again from their recipes."""
        there = [
            state is not None and state.client is self._client and state.status == "finished"
            for state in self._states
        ]
        moved = self._settle(there)
        lost = [i for i in range(self._n) if not there[i]]
        if not lost and not moved:
            return
        first = all(state is None for state in self._states)
        sources = []
        for i in lost:
            recipe = self._delivered(self._recipe.steps(i), i)
            sources.append(recipe)
            self._states[i] = self._submit(worker_tasks.made, self._homes[i], recipe)
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

    def _settle(self, there: Sequence[bool]) -> bool:
        """Homes: runs of neighbours on each worker, by its threads. Where workers are gone or came anew, as
        few shards move as make it even again. Whether states that are there moved."""
        workers = self._workers = self._connection.workers()
        if not any(self._homes):
            self._homes = first_homes(self._n, workers)
            return False
        old, self._homes = self._homes, evened(self._homes, workers)
        moved = [i for i in range(self._n) if there[i] and old[i] in workers and old[i] != self._homes[i]]
        for i in moved:
            self._states[i] = self._submit(worker_tasks.same, self._homes[i], self._states[i])
        return bool(moved)

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
        if not self._connection.alive():
            raise WorkLostError("the connection was lost")
        return self._connection.client


def _release(futures: Sequence[Any]) -> None:
    for future in futures:
        if future is not None:
            future.release()
