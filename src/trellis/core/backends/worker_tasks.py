"""What runs on a worker: make a state, answer a question, add up answers. Nothing here knows the cluster.

Arguments, sources and answers travel packed: pickled once, their arrays beside them as they are. So the bytes
that travel are known, and one packing serves every shard of a worker.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from trellis.core.backends.shard_sums import FixedOrderSum, Run, add

Dumps = Callable[..., bytes]
Parts = dict[Run, Any]  # sums over runs of shards
ALIGNMENT = 16  # bytes, as memory of one's own has
SHARD = "shard_that_failed"  # the attribute of an error that has its number


@dataclass(frozen=True, eq=False)
class Packed:
    """A value as bytes, and the memory of its arrays."""

    head: bytes
    buffers: list[Any]

    @classmethod
    def of(cls, value: Any, dumps: Dumps = pickle.dumps) -> Packed:
        buffers: list[pickle.PickleBuffer] = []
        head = dumps(value, protocol=5, buffer_callback=buffers.append)
        return cls(head, [np.frombuffer(one.raw(), dtype=np.uint8) for one in buffers])

    @property
    def nbytes(self) -> int:
        return len(self.head) + sum(int(one.nbytes) for one in self.buffers)

    def value(self) -> Any:
        """Arrays that came over the line lie at odd addresses, where kernels are slower."""
        return pickle.loads(self.head, buffers=[_aligned(one) for one in self.buffers])


def made(recipe: Packed) -> Any:
    """The state of a shard from its source, through all changes that were made to it."""
    (make, source), *changes = recipe.value()
    with one_blas_thread():
        state = make(source)
        for question, arguments in changes:
            state = question(state, *arguments)
    return state


def answered(state: Any, shared: Packed, own: Packed | None) -> Any:
    """``question(state, own, *arguments)``; ``shared`` has the question and the arguments of all shards."""
    question, arguments = shared.value()
    with one_blas_thread():
        return question(state, *arguments) if own is None else question(state, own.value(), *arguments)


def packed_answer(state: Any, shared: Packed, own: Packed | None) -> Packed:
    return Packed.of(answered(state, shared, own))


def share_answered(states: Sequence[Any], numbers: Sequence[int], n: int, shared: Packed) -> Parts:
    """The answers of the shards ``numbers`` (of n), one after the other, added up in their own memory as far
    as the order of the sum allows."""
    question, arguments = shared.value()
    found = FixedOrderSum(n)
    with one_blas_thread():
        for i, state in zip(numbers, states, strict=True):
            try:
                found.put(i, question(state, *arguments))
            except BaseException as error:
                setattr(error, SHARD, i)
                raise
    return found.waiting


def joined(n: int, *shares: Parts) -> Parts:
    """In memory of its own: the shares stay as they are, so that the task can be done again."""
    found = FixedOrderSum(n, add)
    for share in shares:
        for run, part in share.items():
            found.put_run(run, part)
    return found.waiting


def packed_sum(n: int, *shares: Parts) -> Packed:
    (total,) = joined(n, *shares).values()
    return Packed.of(total)


def same(state: Any) -> Any:
    """A state on another worker."""
    return state


def versions() -> tuple[str, str]:
    """Of Python (as far as it matters for what is pickled) and of Trellis."""
    import platform

    import trellis

    return ".".join(platform.python_version_tuple()[:2]), trellis.__version__


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """A worker runs one shard per thread. Sums have the same order, hence the same bits, on every machine."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401  (its BLAS must be there to be found)

    return ThreadpoolController()


def _aligned(buffer: Any) -> Any:
    """The same bytes at an address that any kind of number may have."""
    given = np.frombuffer(buffer, dtype=np.uint8)
    return buffer if given.ctypes.data % ALIGNMENT == 0 else given.copy()
