"""Shards on the workers of a Dask cluster: of many machines, or of a few processes here.

    dask_backend("tcp://host:8786")      a scheduler's address; the line is opened again when it breaks
    dask_backend(client), (cluster)      a Dask client, or a cluster (LocalCluster, SLURMCluster, KubeCluster)
    dask_backend("processes:4")          worker processes on this machine, closed at exit

The numbers are those of :mod:`.local_backend`, to the last bit.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trellis.core.errors import ClusterError, DataError, MissingExtraError
from trellis.core.free_memory import free_memory

try:
    import distributed
except ImportError as missing:
    raise MissingExtraError(
        "clusters and worker processes need Dask, which is not installed; run: pip install "
        "'trellis-learn[cluster]'"
    ) from missing

from trellis.core.backends.cluster_traffic import Traffic
from trellis.core.backends.dask_connection import ANSWER, LOOK, Connection
from trellis.core.backends.dask_items import each_on_workers
from trellis.core.backends.dask_shards import DaskShards, Recipe

PATIENCE = 300.0
SHARE = 0.8  # of the free memory, for worker processes on this machine
_opened: dict[
    tuple[int, str], DaskBackend
] = {}  # by process and name: estimators and their clones share them
_lock = threading.Lock()


class DaskBackend:
    """``given``: see :func:`dask_backend`. ``patience``: seconds to wait for a scheduler that went away, or
    for workers where there are none, before the work is given up."""

    def __init__(self, given: Any, *, patience: float = PATIENCE) -> None:
        self._cluster = None
        own = True
        if isinstance(given, str) and given.startswith("processes"):
            self._cluster = _processes(given)
            client = distributed.Client(self._cluster, set_as_default=False)
        elif isinstance(given, str):
            client = _connected(given)
        elif isinstance(given, distributed.Client):
            client, own = given, False
        else:  # its own get_client() would be the user's, too
            client = distributed.Client(given, set_as_default=False)
        self._connection = Connection(client, own, patience)
        self._name = given if isinstance(given, str) else self._connection.address

    @property
    def n_workers(self) -> int:
        return sum(self._connection.until_answered(self._connection.workers).values())

    @property
    def name(self) -> str:
        return self._name

    @property
    def traffic(self) -> Traffic:
        """What was asked so far, and the bytes and seconds that it took."""
        return self._connection.traffic

    @property
    def open(self) -> bool:
        return not self._connection.closed

    def place(self, make: Callable[[Any], Any], sources: Sequence[Any]) -> DaskShards:
        return DaskShards.placed(self._connection, Recipe(make, sources), len(sources))

    def each(
        self, make: Callable[[], Callable[[Any], Any]], items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        return each_on_workers(self._connection, make, items)

    def __deepcopy__(self, memo: object) -> DaskBackend:
        return self  # the clones of an estimator work in the same place

    def close(self) -> None:
        """Clients and processes that were started here end; those of the user go on."""
        self._connection.close()
        if self._cluster is not None:
            self._cluster.close(timeout=5)


def dask_backend(given: Any) -> DaskBackend:
    """The backend for an address, "processes[:N]", a Dask client or a cluster object. Those that are named
    are opened once in a process, and closed at its end."""
    if not isinstance(given, str):
        return DaskBackend(given)
    with _lock:
        key = os.getpid(), given
        if key not in _opened or not _opened[key].open:
            _opened[key] = DaskBackend(given)
            atexit.register(_opened[key].close)
        return _opened[key]


def _connected(address: str) -> distributed.Client:
    until = time.monotonic() + ANSWER
    while True:
        try:
            left = max(until - time.monotonic(), 0.1)
            return distributed.Client(address, timeout=left, set_as_default=False)
        except (OSError, TimeoutError) as error:
            if time.monotonic() < until:  # something closes the line at once, such as a tunnel
                time.sleep(LOOK)
                continue
            raise ClusterError(
                f"no Dask scheduler answers at {address} within {ANSWER:.0f} s; check the address, or start "
                "one with: dask scheduler"
            ) from error
        except ValueError as error:
            raise DataError(
                f"backend is {address!r}, which is not the address of a scheduler: {error}"
            ) from error


def _processes(given: str) -> distributed.LocalCluster:
    """One thread each; the kernels release the GIL, but making states is Python."""
    found = re.fullmatch(r"processes(?::([1-9][0-9]*))?", given)
    if found is None:
        raise DataError(f"backend is {given!r}; give 'processes', or 'processes:4' for four of them")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise DataError(
            "backend 'processes' starts processes that import the script: put its work under "
            "if __name__ == '__main__':"
        )
    n = int(found[1] or os.cpu_count() or 1)
    free = free_memory()
    return distributed.LocalCluster(
        n_workers=n,
        threads_per_worker=1,
        processes=True,
        dashboard_address="127.0.0.1:0",
        scheduler_kwargs={"dashboard": False},
        memory_limit="auto" if free is None else int(SHARE * free / n),
        preload=["trellis.core.backends.worker_preload"],
        silence_logs=50,
    )
