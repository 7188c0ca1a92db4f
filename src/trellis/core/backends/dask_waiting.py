"""Wait for futures: as they arrive, with what went wrong in words, and with a look at the line in between."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from distributed.scheduler import KilledWorker

from trellis.core.backends.dask_connection import LOOK, Connection, Silence, WorkersDiedError, WorkLostError
from trellis.core.backends.worker_tasks import SHARD
from trellis.core.errors import ClusterError, DataError, TrellisError

STANDSTILL = 3.0  # seconds of silence after which it is asked whether anybody works


def arrivals(
    connection: Connection,
    futures: Sequence[Any],
    name: Callable[[int], str],
    shards: Sequence[Sequence[int]] | None = None,
) -> Iterator[list[int]]:
    """Numbers of futures that are ready, some at a time, until all are. ``name``: of a shard, for errors.
    ``shards``: those that each future is about; None where future i is about shard i. Raises
    :class:`WorkLostError` where work is gone, and the error of a shard as it is, with its name."""
    shards = [[i] for i in range(len(futures))] if shards is None else shards
    ready: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i, future in enumerate(futures):
        future.add_done_callback(lambda _, i=i: ready.put(i))
    waiting = set(range(len(futures)))
    silence = Silence(connection, f"to finish {sum(map(len, shards))} shards")
    next_look = time.monotonic() + STANDSTILL
    try:
        while waiting:
            try:
                found = [ready.get(timeout=LOOK)]
            except queue.Empty:
                silence.look(lambda: _at_work(connection, sum(len(shards[i]) for i in waiting)))
                if time.monotonic() > next_look:
                    next_look = time.monotonic() + STANDSTILL
                    if _nobody_works(connection):
                        raise WorkLostError("no worker is working on it") from None
                continue
            silence.broken()
            next_look = time.monotonic() + STANDSTILL
            while not ready.empty():
                found.append(ready.get())
            for i in sorted(found):
                _check(connection, futures, i, name, shards)
            waiting.difference_update(found)
            yield sorted(found)
    finally:
        connection.drop([futures[i] for i in waiting])


def _nobody_works(connection: Connection) -> bool:
    """Whether there are workers that take work, and none has any: tasks that were sent to a worker which died
    as the last one are left lying by Dask when others come."""
    connection.workers()
    connection.takers()
    tasks = connection.call(connection.client.scheduler.processing(workers=None), "to say who works")
    return not any(tasks.values())


def _at_work(connection: Connection, shards: int) -> str:
    """What is waited for. Where no worker takes work, that is said, and it is not waited for ever."""
    workers = len(connection.takers())
    return (
        f"{shards} {'shard is' if shards == 1 else 'shards are'} at work on {workers} "
        f"worker{'s' if workers > 1 else ''} of {connection.address}"
    )


def _check(
    connection: Connection,
    futures: Sequence[Any],
    i: int,
    name: Callable[[int], str],
    shards: Sequence[Sequence[int]],
) -> None:
    if futures[i].status == "cancelled":
        raise WorkLostError(name(shards[i][0]))
    if futures[i].status == "error":
        error = futures[i].exception(timeout=30)
        if isinstance(error, KilledWorker):
            others = [j for j, one in enumerate(futures) if j != i and one.status == "error"]
            raise WorkersDiedError(
                _died(error, [name(k) for j in (i, *others) for k in shards[j]])
            ) from error
        _raise(connection, error, name(getattr(error, SHARD, shards[i][0])))


def _died(error: KilledWorker, blamed: Sequence[str]) -> str:
    """Dask blames all shards that its dead workers had, at work or waiting."""
    more = f" and {len(blamed) - 3} more" if len(blamed) > 3 else ""
    limit = getattr(error.last_worker, "memory_limit", 0)
    memory = f" (the last had {limit / 1e9:.2g} GB of memory)" if limit else ""
    return (
        f"{', '.join(blamed[:3])}{more}: {error.allowed_failures + 1} workers died one after the other while "
        f"they had {'one of these' if len(blamed) > 1 else 'it'}{memory}, twice in a row; give workers more "
        "memory, or cut the data into smaller shards"
    )


def _raise(connection: Connection, error: BaseException, name: str) -> NoReturn:
    """What a worker raised: errors of the user's data with the name of the shard, others with a note of it.
    The traceback is the worker's."""
    if isinstance(error, MemoryError):
        raise ClusterError(
            f"{name}: its worker has no memory left; give workers more, or cut the data into smaller shards"
        ) from error
    if isinstance(error, OSError):
        raise DataError(
            f"{name}: {error} on a worker of {connection.address}; files must have the same path on all "
            "workers, and their disks free space for what is written"
        ) from error
    if isinstance(error, TrellisError):
        message = str(error)
        if name.split(" (shard")[0] not in message:
            error.args = (f"{name}: {message}", *error.args[1:])
        raise error
    error.add_note(f"in {name}, on a worker of {connection.address}")
    raise error
