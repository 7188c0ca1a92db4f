"""The plain map of :mod:`.item_map` on the workers of a Dask cluster.

What makes the function of an item travels once to each worker, which keeps what it made for the next items.
A worker that dies is Dask's business: its items run elsewhere. Items of which Dask says that workers keep
dying of them run once more at the end, alone; so an innocent neighbour of a deadly one is not blamed. Where
the line to the scheduler breaks, what was on its way is asked again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from distributed.scheduler import KilledWorker

from trellis.core.backends.backend import Make
from trellis.core.backends.dask_connection import LOOK, Connection, Silence, WorkLostError
from trellis.core.backends.item_map import Failure
from trellis.core.backends.worker_tasks import Packed, one_blas_thread
from trellis.core.errors import ClusterError

IN_FLIGHT = 2  # items per thread of a worker
COUNT = 5.0  # seconds between two looks at how many workers there are
LOST = 10  # broken lines without an answer in between, after which the map is given up
KEPT = 2  # functions that a worker keeps, of as many maps

_lock = threading.Lock()
_made: dict[str, Any] = {}


def applied(key: str, make: Packed, item: Packed) -> Packed:
    """On a worker."""
    with _lock:
        if key not in _made:
            while len(_made) >= KEPT:
                del _made[next(iter(_made))]
            _made[key] = make.value()()
        work = _made[key]
    with one_blas_thread():
        return Packed.of(work(item.value()))


def each_on_workers(connection: Connection, make: Make, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """See :func:`.item_map.map_items`."""
    suspects: list[int] = []
    for i, answer in _Map(connection, make, items).answers(range(len(items))):
        if isinstance(answer, Failure) and isinstance(answer.error, KilledWorker):
            suspects.append(i)
        else:
            yield i, answer
    for i in suspects:
        for _, answer in _Map(connection, make, items).answers([i]):
            deadly = isinstance(answer, Failure) and isinstance(answer.error, KilledWorker)
            yield i, Failure(None) if deadly else answer


class _Map:
    """Items on their way to workers and back."""

    def __init__(self, connection: Connection, make: Make, items: Sequence[Any]) -> None:
        self._connection, self._make, self._items = connection, connection.packed(make), items
        self._key, self._shared = uuid4().hex, None
        self._running: dict[int, Any] = {}
        self._ready: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._slots, self._counted = 0, 0.0

    def answers(self, numbers: Sequence[int]) -> Iterator[tuple[int, Any]]:
        waiting, again, broken = iter(numbers), list[int](), 0
        try:
            while True:
                try:
                    more = self._submit(again, waiting)
                    if not more and not self._running:
                        return
                    i, answer = self._next()
                except WorkLostError as lost:
                    broken += 1
                    if broken > LOST:
                        raise ClusterError(
                            f"the work at {self._connection.address} was lost {LOST} times in a row; what "
                            "came before is kept; look at the logs of its scheduler and workers"
                        ) from lost
                    again += sorted(self._running)
                    self._forget()
                    self._connection.restore()
                    continue
                broken = 0
                yield i, answer
        finally:
            self._forget()

    def _submit(self, again: list[int], waiting: Iterator[int]) -> bool:
        """Fill the workers; whether anything was sent."""
        sent = False
        while len(self._running) < self._room():
            i = again[0] if again else next(waiting, None)
            if i is None:
                return sent
            if not again:
                again.append(i)  # it stays on the list until it is on its way
            client = self._connection.client
            if self._shared is None:
                self._shared = self._connection.send(self._make)
            item = self._connection.packed(self._items[i])
            future = client.submit(applied, self._key, self._shared, item, pure=False)
            self._running[again.pop(0)] = future
            future.add_done_callback(lambda done, i=i: self._ready.put((i, done)))
            sent = True
        return sent

    def _room(self) -> int:
        if time.monotonic() - self._counted > COUNT:
            self._slots, self._counted = sum(self._connection.workers().values()), time.monotonic()
        return IN_FLIGHT * self._slots

    def _next(self) -> tuple[int, Any]:
        i, future = self._arrival()
        while i not in self._running or self._running[i] is not future:  # it was forgotten
            i, future = self._arrival()
        if future.status == "cancelled":
            raise WorkLostError(f"item {i}")
        if future.status == "error":
            answer: Any = Failure(future.exception(timeout=30))
        else:
            (answer,) = self._connection.fetch([future])
        del self._running[i]
        return i, answer

    def _arrival(self) -> tuple[int, Any]:
        silence = Silence(self._connection, f"to finish {len(self._running)} pieces of work")
        while True:
            try:
                return self._ready.get(timeout=LOOK)
            except queue.Empty:
                silence.look()

    def _forget(self) -> None:
        self._connection.drop(list(self._running.values()))
        for future in self._running.values():
            future.release()
        self._running, self._shared = {}, None
