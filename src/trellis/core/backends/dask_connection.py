"""The line to a Dask scheduler: opened, checked, watched, and opened again when it breaks.

Work that is gone with a worker, a scheduler or the network is a :class:`WorkLostError`. Who asked for it
restores the line (:meth:`Connection.restore`) and asks again; ``patience`` is how long that is tried.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import math
import os
import socket
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import distributed
from distributed.protocol.pickle import dumps
from distributed.utils import silence_logging_cmgr

from trellis.core.backends.cluster_traffic import Traffic
from trellis.core.backends.worker_tasks import Packed, versions
from trellis.core.errors import ClusterError

ANSWER = 10.0  # seconds within which a scheduler must answer when it is first called
LOOK = 0.5  # seconds between two looks at the line while waiting
TELL = 20.0  # seconds of silence after which the user is told what is waited for
REPEATS = 10  # of one question, without an end in sight
INLINE = 32 * 1024  # bytes; what is larger goes to workers directly, past the scheduler
SIZED = 2.0  # seconds after which workers are asked again how full they are
ROOM = 0.5  # of the memory of a worker, in which its states are not spilled
SPREAD = 256 * 1024  # bytes; what is larger is passed on from worker to worker before it is used
Answer = TypeVar("Answer")
_LOG = logging.getLogger("trellis")


class WorkLostError(Exception):
    """Work is gone with a worker or with the scheduler; it can be asked again."""


class WorkersDiedError(WorkLostError):
    """Several workers died one after the other while they had the same shard: it may be the shard."""


class Connection:
    """``client``: in use now. ``own``: opened here, hence closed here. ``patience``: seconds to wait for a
    scheduler that went away, for workers where there are none, and for workers without free memory."""

    def __init__(self, client: distributed.Client, own: bool, patience: float) -> None:
        self.client, self.own, self.patience = client, own, patience
        self.address: str = client.scheduler.address
        self._security = client.security
        self.traffic = Traffic()
        self.closed = False
        self._direct: bool | None = None
        self._process = os.getpid()
        self._sized, self._full = -math.inf, set[str]()
        self.until_answered(self._check_versions)

    # -- what goes over the line ------------------------------------------------------------------------

    def call(self, work: Coroutine[Any, Any, Any], what: str) -> Any:
        """The answer of the client's own coroutine; the user is told when that takes long."""
        loop = self.client.loop.asyncio_loop
        running = asyncio.run_coroutine_threadsafe(work, loop)
        silence = Silence(self, what)
        try:
            while True:
                try:
                    return running.result(LOOK)
                except concurrent.futures.TimeoutError as error:
                    if running.done():
                        raise WorkLostError(what) from error
                    silence.look()
        except (OSError, concurrent.futures.CancelledError, asyncio.CancelledError) as error:
            raise WorkLostError(what) from error
        finally:
            running.cancel()

    def drop(self, futures: Sequence[Any]) -> None:
        """Cancel work that nobody waits for any more. What Dask calls back when it ends is called now: at the
        end of the process it would be too late, and Dask would say so in a traceback."""
        if futures and self.client.status == "running":
            loop = self.client.loop.asyncio_loop
            asked = asyncio.run_coroutine_threadsafe(self.client.cancel(futures, asynchronous=True), loop)
            concurrent.futures.wait([asked], timeout=LOOK)  # a scheduler that is gone does not answer

    def packed(self, value: Any) -> Packed:
        return Packed.of(value, dumps)

    def send(self, packed: Packed, worker: str | None = None) -> Any:
        """A future of ``packed`` on ``worker``, or on one from which the others take it."""
        many = worker is None and packed.nbytes > SPREAD
        takers = self.takers()
        self.traffic.bytes_out += packed.nbytes
        return self.call(
            self.client.scatter(
                packed,
                workers=[worker] if worker in takers else None if many else takers[:1],
                broadcast=many,
                direct=self.direct,
                hash=False,
                asynchronous=True,
            ),
            "to take what is asked",
        )

    def fetch(self, futures: list[Any]) -> list[Any]:
        """The values of futures of :class:`Packed`, past the scheduler."""
        found: list[Packed] = self.call(
            self.client.gather(futures, direct=self.direct, asynchronous=True), "to hand over answers"
        )
        self.traffic.bytes_back += sum(one.nbytes for one in found)
        return [one.value() for one in found]

    def workers(self) -> dict[str, int]:
        """Threads of each worker, by its address, in the order of addresses; at least one worker."""
        found = self._some(
            lambda: self.client.scheduler.ncores(workers=None),
            f"the scheduler at {self.address} has no worker; start some with: dask worker {self.address}",
        )
        return dict(sorted(found.items()))

    def takers(self) -> list[str]:
        """Workers that take work: they are not paused for want of memory."""
        return sorted(
            self._some(
                lambda: self.client.scheduler.ncores_running(workers=None),
                f"all workers of {self.address} are paused, because their memory is full; give them more "
                "memory, or start more workers",
            )
        )

    def full_workers(self) -> set[str]:
        """Workers with more than half of their memory in use, or with states on disk: what a task needs is in
        memory all at once, so theirs must need little. As far as it was known some seconds ago."""
        if time.monotonic() - self._sized > SIZED:
            self._sized = time.monotonic()
            found = self.call(self.client.scheduler.identity(n_workers=-1), "to name its workers")["workers"]
            self._full = {address for address, one in found.items() if _is_full(one)}
        return self._full

    def _some(self, ask: Callable[[], Coroutine[Any, Any, dict[str, int]]], none: str) -> dict[str, int]:
        """What the scheduler answers when it is not empty; ``none``: what an empty answer means."""
        silence = Silence(self, "to name its workers")
        while True:
            found: dict[str, int] = self.call(ask(), "to name its workers")
            if found:
                return found
            silence.look(lambda: none)
            if silence.seconds > self.patience:
                raise ClusterError(f"{none} (waited {self.patience:.0f} s)")
            time.sleep(LOOK)

    @property
    def direct(self) -> bool:
        """Whether workers can be reached from here: big messages then do not pass through the scheduler."""
        if self._direct is None:
            self._direct = all(_reachable(address) for address in list(self.workers())[:2])
        return self._direct

    # -- when it breaks ---------------------------------------------------------------------------------

    def until_answered(self, attempt: Callable[[], Answer]) -> Answer:
        """``attempt()``, again where its work was lost. Where workers come and go, Dask blames innocent
        shards at times: they have a second chance."""
        died = False
        for _ in range(REPEATS):
            try:
                return attempt()
            except WorkLostError as lost:
                if died and isinstance(lost, WorkersDiedError):
                    raise ClusterError(str(lost)) from lost.__cause__
                died = died or isinstance(lost, WorkersDiedError)
                self.traffic.repeats += 1
                last = lost
            self.restore()
        raise ClusterError(
            f"the work at {self.address} was lost {REPEATS} times in a row; look at the logs of its "
            "scheduler and workers"
        ) from last

    def alive(self) -> bool:
        return bool(self.client.status == "running")

    def restore(self) -> None:
        """Wait for the scheduler, with a new client where ours is closed; give up after ``patience``."""
        if self.closed:
            raise ClusterError(f"the cluster at {self.address} was closed; open it again")
        until = time.monotonic() + self.patience
        if not self.alive():
            _LOG.warning(
                "lost the connection to the scheduler at %s; waiting up to %.0f s for it to come back",
                self.address,
                self.patience,
            )
        with silence_logging_cmgr(logging.CRITICAL):  # the tracebacks of clients that try to connect
            while not self.alive():
                left = until - time.monotonic()
                if left <= 0:
                    raise ClusterError(
                        f"the scheduler at {self.address} disconnected and did not come back within "
                        f"{self.patience:.0f} s; start it again and repeat the call"
                    )
                if self.client.status in ("closed", "closing") or self.own:
                    self._open_again(min(left, ANSWER))
                else:  # the user's client connects again by itself, or closes
                    time.sleep(LOOK)
        self._direct = None

    def _open_again(self, timeout: float) -> None:
        old, own = self.client, self.own
        try:
            self.client = distributed.Client(
                self.address, timeout=timeout, security=self._security, set_as_default=False
            )
        except (OSError, TimeoutError):
            time.sleep(LOOK)
            return
        self.own = True
        if own:
            close_quietly(old)
        _LOG.warning("the scheduler at %s answers again; placing the shards again", self.address)

    def close(self) -> None:
        self.closed = True
        if self.own and self._process == os.getpid():  # a forked child has no line of its own
            close_quietly(self.client)

    # -- who is there -----------------------------------------------------------------------------------

    def _check_versions(self) -> None:
        here = versions()
        self.workers()
        try:
            there = self.call(
                self.client.run(versions, asynchronous=True), "to name the versions of its workers"
            )
        except ModuleNotFoundError as error:
            raise ClusterError(
                f"the workers of {self.address} cannot import {error.name}: install Trellis {here[1]} "
                "where they run"
            ) from error
        for worker, found in sorted(there.items()):
            for name, ours, theirs in zip(("Python", "Trellis"), here, found, strict=True):
                if ours != theirs:
                    raise ClusterError(
                        f"worker {worker} runs {name} {theirs}, this process {ours}; the numbers could "
                        "differ: start the workers in the same environment"
                    )


class Silence:
    """Says what is waited for when nothing has come for a while. A broken line is a ``WorkLostError``."""

    def __init__(self, connection: Connection, what: str) -> None:
        self._connection, self._what = connection, what
        self._since = self._told = time.monotonic()

    def broken(self) -> None:
        self._since = self._told = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._since

    def look(self, detail: Callable[[], str] | None = None) -> None:
        if not self._connection.alive():
            raise WorkLostError(self._what)
        now = time.monotonic()
        if now - self._told >= TELL:
            self._told = now
            waiting = f"still waiting for the scheduler at {self._connection.address} {self._what}"
            said = waiting if detail is None else detail()
            _LOG.warning("%s (%.0f s so far)", said, now - self._since)


def close_quietly(client: distributed.Client) -> None:
    """The scheduler may be gone already."""
    try:
        with silence_logging_cmgr(logging.CRITICAL):
            client.close(timeout=2)
    except (OSError, TimeoutError, RuntimeError):
        _LOG.debug("a client did not close", exc_info=True)


def _is_full(worker: Mapping[str, Any]) -> bool:
    """From what the scheduler says of it; a limit of 0 is none."""
    limit, metrics = worker["memory_limit"], worker["metrics"]
    spilled = metrics.get("spilled_bytes", {}).get("disk", 0)
    return bool(spilled or (limit and metrics.get("memory", 0) > ROOM * limit))


def _reachable(address: str) -> bool:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return True  # inside this process
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=2.0):
            return True
    except OSError:
        return False
