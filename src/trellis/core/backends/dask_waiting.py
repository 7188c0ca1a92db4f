"""Wait for futures: as they arrive, with what went wrong in words, and with a look at the line in between."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from distributed.scheduler import KilledWorker

from trellis.core.backends.dask_connection import LOOK, Connection, Silence, WorkLostError
from trellis.core.errors import ClusterError, DataError, TrellisError


def arrivals(
    connection: Connection, futures: Sequence[Any], name: Callable[[int], str]
) -> Iterator[list[int]]:
    """Numbers of futures that are ready, some at a time, until all are. ``name``: of a shard, for errors.
    Raises :class:`WorkLostError` where work is gone, and the error of a shard as it is, with its name."""
    ready: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i, future in enumerate(futures):
        future.add_done_callback(lambda _, i=i: ready.put(i))
    waiting = set(range(len(futures)))
    silence = Silence(connection, f"to finish {len(futures)} shards")
    while waiting:
        try:
            found = [ready.get(timeout=LOOK)]
        except queue.Empty:
            silence.look(lambda: _at_work(connection, waiting))
            continue
        silence.broken()
        while not ready.empty():
            found.append(ready.get())
        for i in sorted(found):
            _check(connection, futures[i], name(i))
        waiting.difference_update(found)
        yield sorted(found)


def _at_work(connection: Connection, waiting: set[int]) -> str:
    """What is waited for. Where no worker takes work, that is said, and it is not waited for ever."""
    return f"{len(waiting)} shards are at work on {len(connection.takers())} workers of {connection.address}"


def _check(connection: Connection, future: Any, name: str) -> None:
    if future.status == "cancelled":
        raise WorkLostError(name)
    if future.status == "error":
        _raise(connection, future.exception(timeout=30), name)


def _raise(connection: Connection, error: BaseException, name: str) -> NoReturn:
    """What a worker raised: errors of the user's data with the name of the shard, others with a note of it.
    The traceback is the worker's."""
    if isinstance(error, KilledWorker):
        limit = getattr(error.last_worker, "memory_limit", 0)
        memory = f" (the last had {limit / 1e9:.2g} GB of memory)" if limit else ""
        raise ClusterError(
            f"{name}: {error.allowed_failures + 1} workers died at it one after the other{memory}; give "
            "workers more memory, or cut the data into smaller shards"
        ) from error
    if isinstance(error, MemoryError):
        raise ClusterError(
            f"{name}: no memory is left on its worker; give workers more, or cut the data into smaller shards"
        ) from error
    if isinstance(error, OSError):
        raise DataError(
            f"{name}: {error} on a worker of {connection.address}; files must lie under the same path, with "
            "free space for what is written, wherever workers run"
        ) from error
    if isinstance(error, TrellisError):
        message = str(error)
        if name.split(" (shard")[0] not in message:
            error.args = (f"{name}: {message}", *error.args[1:])
        raise error
    error.add_note(f"in {name}, on a worker of {connection.address}")
    raise error
