"""Shards on the threads of this process. States stay in memory while they fit, the others on disk.

Of ``max_memory`` (half of what is free, unless it is given), what the process takes already is set aside; a
third of the rest is for states that stay in memory, the remainder for those at work and for answers. Other
states are files in a folder of their own, made for this user alone and removed at the end. A file at work is
mapped privately: its pages are those of the system's cache, which it takes back when memory is short.

An object whose class says ``shared_by_shards = True`` (the layout of weights, of which states hold the same)
is neither counted nor written with each state that refers to it: it stays in memory, once.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from trellis.core.backends.backend import Told
from trellis.core.backends.memory_sizes import memory_limit, resident_memory
from trellis.core.backends.shard_sums import FixedOrderSum
from trellis.core.errors import DataError
from trellis.core.shards import n_threads

Answer = TypeVar("Answer")
ALIGNMENT = 64
KEPT = 1.0 / 3.0


class LocalBackend:
    """``n_jobs`` threads (None: 1, -1: all cores) and about ``max_memory`` bytes ("2GB"; None: half of what
    is free). ``folder``: where states that do not fit are put; None is the system's for temporary files."""

    def __init__(
        self, n_jobs: int | None = None, max_memory: int | str | None = None, folder: str | Path | None = None
    ) -> None:
        self.n_workers = n_threads(1 if n_jobs is None else n_jobs)
        self.max_memory = memory_limit(max_memory)
        self._folder = folder

    @property
    def name(self) -> str:
        return f"{self.n_workers} thread{'s' if self.n_workers > 1 else ''}"

    def place(self, make: Callable[[Any], Any], sources: Sequence[Any]) -> LocalShards:
        return LocalShards.made(self, ((make, source) for source in sources), len(sources))

    def each(
        self, make: Callable[[], Callable[[Any], Any]], items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        from trellis.core.backends.item_map import on_threads

        return on_threads(make, items, self.n_workers)

    def new_folder(self) -> Path:
        try:
            return Path(tempfile.mkdtemp(prefix="trellis-shards-", dir=self._folder))
        except OSError as error:
            raise DataError(
                f"cannot make a folder for shards that do not fit into memory: {error}"
            ) from error

    def answers(
        self, work: Callable[[int], Answer], n: int, told: Told | None = None
    ) -> Iterator[tuple[int, Answer]]:
        """``(i, work(i))`` as they become ready; one more than there are threads is at work or waiting."""
        if self.n_workers == 1 or n == 1:
            for i in range(n):
                answer = work(i)
                if told is not None:
                    told(i + 1, n)
                yield i, answer
            return
        with ThreadPoolExecutor(self.n_workers, thread_name_prefix="trellis-shard") as pool:
            numbers, done = iter(range(n)), 0
            running: dict[Future[Answer], int] = {}
            try:
                while True:
                    for i in islice(numbers, self.n_workers + 1 - len(running)):
                        running[pool.submit(work, i)] = i
                    if not running:
                        return
                    for future in sorted(
                        wait(running, return_when=FIRST_COMPLETED).done, key=running.__getitem__
                    ):
                        done += 1
                        if told is not None:
                            told(done, n)
                        yield running.pop(future), future.result()
            finally:
                for future in running:
                    future.cancel()


class LocalShards:
    """States in memory, or the files that hold them."""

    def __init__(self, backend: LocalBackend, states: list[Any], folder: Path | None) -> None:
        self._backend, self._states, self._folder = backend, states, folder
        if folder is not None:
            self._removal = weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    @classmethod
    def made(
        cls, backend: LocalBackend, recipes: Iterator[tuple[Callable[[Any], Any], Any]], n: int
    ) -> LocalShards:
        """Keep ``make(source)`` of each recipe, in memory while it fits."""
        budget = KEPT * max(backend.max_memory - resident_memory(), 0)
        work, states, folder, kept = list(recipes), list[Any]([None] * n), None, 0
        shared = _SharedObjects()
        try:
            for i, state in backend.answers(lambda i: work[i][0](work[i][1]), n):
                head, buffers = shared.pickled(state)
                size = len(head) + sum(one.raw().nbytes for one in buffers)
                if kept + size <= budget:
                    kept, states[i] = kept + size, state
                    continue
                folder = folder or backend.new_folder()
                states[i] = _StateFile.written(folder / str(i), head, buffers, shared)
        except BaseException:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        return cls(backend, states, folder)

    def __len__(self) -> int:
        return len(self._states)

    def ask(self, question: Callable[..., Answer], *arguments: Any, told: Told | None = None) -> list[Answer]:
        found: dict[int, Answer] = dict(
            self._backend.answers(lambda i: question(self._state(i), *arguments), len(self), told)
        )
        return [found[i] for i in range(len(self))]

    def ask_each(self, question: Callable[..., Answer], each: Sequence[Any], *arguments: Any) -> list[Answer]:
        found = dict(
            self._backend.answers(lambda i: question(self._state(i), each[i], *arguments), len(self))
        )
        return [found[i] for i in range(len(self))]

    def total(self, question: Callable[..., Answer], *arguments: Any, told: Told | None = None) -> Answer:
        adding = FixedOrderSum(len(self))
        for i, answer in self._backend.answers(
            lambda i: question(self._state(i), *arguments), len(self), told
        ):
            adding.put(i, answer)
        total: Answer = adding.total()
        return total

    def change(self, question: Callable[..., Any], *arguments: Any) -> LocalShards:
        recipes = (((lambda i: question(self._state(i), *arguments)), i) for i in range(len(self)))
        return LocalShards.made(self._backend, recipes, len(self))

    def change_each(self, question: Callable[..., Any], each: Sequence[Any], *arguments: Any) -> LocalShards:
        recipes = (((lambda i: question(self._state(i), each[i], *arguments)), i) for i in range(len(self)))
        return LocalShards.made(self._backend, recipes, len(self))

    def release(self) -> None:
        self._states = []
        if self._folder is not None:
            self._removal()

    def _state(self, i: int) -> Any:
        state = self._states[i]
        return state.read() if isinstance(state, _StateFile) else state


class _StateFile:
    """A state on disk: a pickled head, then its arrays as they are; for this process alone."""

    def __init__(
        self, path: Path, head: bytes, places: list[tuple[int, int]], shared: _SharedObjects
    ) -> None:
        self._path, self._head, self._places, self._shared = path, head, places, shared

    @classmethod
    def written(
        cls, path: Path, head: bytes, buffers: Sequence[pickle.PickleBuffer], shared: _SharedObjects
    ) -> _StateFile:
        places, end = list[tuple[int, int]](), 0
        try:
            with open(path, "wb") as file:
                for one in buffers:
                    raw = one.raw()
                    places.append((end, raw.nbytes))
                    file.write(raw)
                    end = -(-(end + raw.nbytes) // ALIGNMENT) * ALIGNMENT
                    file.seek(end)
                file.truncate(end)
        except OSError as error:
            raise DataError(
                f"{path.parent}: a shard that does not fit into memory cannot be stored there: {error}; "
                "free some space, set TMPDIR to another disk, or allow more memory"
            ) from error
        return cls(path, head, places, shared)

    def read(self) -> Any:
        if not self._places or os.path.getsize(self._path) == 0:
            return self._shared.unpickled(self._head, [bytearray() for _ in self._places])
        with open(self._path, "rb") as file:
            pages = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        return self._shared.unpickled(self._head, [pages[a : a + n] for a, n in self._places])


class _SharedObjects:
    """What the states of some shards refer to without holding a copy each."""

    def __init__(self) -> None:
        self._objects: dict[int, Any] = {}  # by their addresses, which stay theirs as long as they are here

    def pickled(self, state: Any) -> tuple[bytes, list[pickle.PickleBuffer]]:
        head, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
        _StatePickler(head, self._objects, buffers).dump(state)
        return head.getvalue(), buffers

    def unpickled(self, head: bytes, buffers: Sequence[Any]) -> Any:
        return _StateUnpickler(head, self._objects, buffers).load()


class _StatePickler(pickle.Pickler):
    def __init__(self, head: io.BytesIO, objects: dict[int, Any], buffers: list[pickle.PickleBuffer]) -> None:
        super().__init__(head, protocol=5, buffer_callback=buffers.append)
        self._objects = objects

    def persistent_id(self, obj: Any) -> int | None:
        if not getattr(type(obj), "shared_by_shards", False):
            return None
        self._objects[id(obj)] = obj
        return id(obj)


class _StateUnpickler(pickle.Unpickler):
    def __init__(self, head: bytes, objects: dict[int, Any], buffers: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(head), buffers=buffers)
        self._objects = objects

    def persistent_load(self, pid: Any) -> Any:
        return self._objects[pid]
