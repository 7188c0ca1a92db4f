"""One place decides where shards run: from what an estimator, a context or the command line says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from trellis.core.backends.backend import Backend
from trellis.core.errors import DataError

_chosen: ContextVar[Any] = ContextVar("backend", default=None)
DASK = ("distributed", "dask_kubernetes", "dask_jobqueue", "dask_gateway")  # packages of its clients
SCHEMES = ("tcp://", "tls://", "ucx://", "ws://", "wss://", "inproc://")


@contextmanager
def config_context(*, backend: Any = None) -> Iterator[None]:
    """Estimators without a ``backend`` of their own use this one inside the block.

    ``with trellis.config_context(backend="tcp://host:8786"):``

    Examples
    --------
    >>> import trellis
    >>> X, y = [["the", "cat"], ["a", "dog"]], [["D", "N"], ["D", "N"]]
    >>> with trellis.config_context(backend="threads"):
    ...     tagger = trellis.SequenceLabeler("log").fit(X, y)
    ...
    >>> tagger.predict([["a", "cat"]])
    [['D', 'N']]
    """
    token = _chosen.set(backend)
    try:
        yield
    finally:
        _chosen.reset(token)


def as_backend(given: Any, n_jobs: int | None = None, max_memory: int | str | None = None) -> Backend | None:
    """The backend that ``given`` names; None where neither it nor a context names any.

    ``given``: None; "threads"; "processes" or "processes:4"; a scheduler's address; a Dask client or cluster;
    or a backend as it is. ``n_jobs`` and ``max_memory`` concern threads.

    Examples
    --------
    >>> from trellis.core.backends import as_backend
    >>> as_backend(None) is None, as_backend("threads", n_jobs=1).n_workers
    (True, 1)
    """
    given = _chosen.get() if given is None else given
    if given is None or hasattr(given, "place"):
        found: Backend | None = given
        return found
    if given == "threads":
        from trellis.core.backends.local_backend import LocalBackend

        return LocalBackend(n_jobs, max_memory)
    if isinstance(given, str):
        of_dask = given.startswith(SCHEMES) or given.split(":")[0] == "processes"
    else:
        of_dask = type(given).__module__.split(".")[0] in DASK
    if of_dask:
        from trellis.core.backends.dask_backend import dask_backend

        return dask_backend(given)
    raise DataError(
        f"backend is {given!r}; give 'threads', 'processes', the address of a Dask scheduler "
        "(tcp://host:8786), a Dask client, or None"
    )
