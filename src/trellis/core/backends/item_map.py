"""A plain map over items that may fail one by one, wherever they run: answers come as they are ready.

    for i, answer in map_items(make, items, n_processes=4):    # or backend=...
        if isinstance(answer, Failure): ...

``make()`` gives the function of an item; each process or worker calls it once, so that what it holds (a
model) is read, or travels, once. Both are pure and can be pickled. At most a few items per process are on
their way, so that memory does not grow with their number. A process that dies takes nothing with it: the
items that it may have died of run again, each alone, and the one that kills again is a failure.

Here one process runs on a thread of its own, several as fresh interpreters; what a backend names runs there.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context
from typing import Any

from threadpoolctl import threadpool_limits

from trellis.core.backends.backend import Make, Told
from trellis.core.backends.choice import as_backend
from trellis.core.errors import ClusterError

IN_FLIGHT = 2  # items per process


@dataclass(frozen=True)
class Failure:
    """An item without an answer: what it raised, or None where the process died of it."""

    error: BaseException | None


def map_items(
    make: Make, items: Sequence[Any], *, n_processes: int = 1, backend: Any = None
) -> Generator[tuple[int, Any]]:
    """``(i, make()(items[i]))`` or a :class:`Failure` in its place, as they become ready. ``backend``: see
    :func:`.as_backend`; without one, ``n_processes`` of this machine."""
    place = as_backend(backend)
    if place is not None:
        yield from place.each(make, items)
    else:
        yield from _here(make, items, max(1, min(n_processes, len(items))))


def on_threads(make: Make, items: Sequence[Any], n_threads: int) -> Iterator[tuple[int, Any]]:
    """The same on threads of this process, which share what ``make`` gives."""
    with threadpool_limits(1), _ended(ThreadPoolExecutor(n_threads)) as pool:
        yield from _run(pool, make(), items, iter(range(len(items))), n_threads, [])


def _here(make: Make, items: Sequence[Any], processes: int) -> Iterator[tuple[int, Any]]:
    if processes == 1:
        yield from on_threads(make, items, 1)
        return
    waiting = iter(range(len(items)))
    while True:
        suspects: list[int] = []
        yield from _on_processes(make, items, waiting, processes, suspects)
        if not suspects:
            return
        for i in suspects:
            deadly: list[int] = []
            yield from _on_processes(make, items, iter([i]), 1, deadly)
            for lost in deadly:
                yield lost, Failure(None)


def _on_processes(
    make: Make, items: Sequence[Any], waiting: Iterator[int], n: int, lost: list[int]
) -> Iterator[tuple[int, Any]]:
    # Fresh interpreters: forking a process that has threads (those of BLAS, ours) can hang it.
    context = get_context("spawn")
    executor = ProcessPoolExecutor(n, context, initializer=_start, initargs=(make,))
    with threadpool_limits(1), _ended(executor) as pool:  # sums are the same, to the last digit, for any n
        yield from _run(pool, _work, items, waiting, n, lost)


def _run(
    pool: Executor,
    work: Callable[[Any], Any],
    items: Sequence[Any],
    waiting: Iterator[int],
    n: int,
    lost: list[int],
) -> Iterator[tuple[int, Any]]:
    """Run items until there are no more, or until the pool breaks; those in flight are then ``lost``."""
    running: dict[Future[Any], int] = {}
    while True:
        for i in islice(waiting, 0 if lost else IN_FLIGHT * n - len(running)):
            try:
                running[pool.submit(work, items[i])] = i
            except BrokenProcessPool:
                lost.append(i)
                break
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            i = running.pop(future)
            problem = future.exception()
            if isinstance(problem, BrokenProcessPool):
                lost.append(i)
            else:
                yield i, future.result() if problem is None else Failure(problem)


@contextmanager
def _ended(pool: Executor) -> Iterator[Executor]:
    try:
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_made: list[Callable[[Any], Any]] = []  # the only one of a process of the pool


def _start(make: Make) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends the run; the current item is finished
    _made.append(make())
    threadpool_limits(1)  # after the libraries are loaded; the processes share the cores


def _work(item: Any) -> Any:
    return _made[0](item)


def answers_in_order(
    make: Make, items: Sequence[Any], *, backend: Any = None, told: Told | None = None
) -> list[Any]:
    """``[make()(item), ...]`` in the order of the items; the error of one is raised, and ends the map."""
    found: list[Any] = [None] * len(items)
    with closing(map_items(make, items, backend=backend)) as answers:
        for done, (i, answer) in enumerate(answers, 1):
            found[i] = answer_of(answer, i)
            if told is not None:
                told(done, len(items))
    return found


def answer_of(answer: Any, number: int) -> Any:
    """What :func:`map_items` gave for an item, or its error."""
    if not isinstance(answer, Failure):
        return answer
    if answer.error is None:
        raise ClusterError(
            f"the processes that worked on piece {number + 1} died (out of memory?); use workers with more"
        )
    raise answer.error
