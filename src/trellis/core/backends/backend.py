"""The protocol of backends: states that stay where the work is done, and questions that go to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

Source = TypeVar("Source")
State = TypeVar("State")
Answer = TypeVar("Answer")
Make = Callable[[], Callable[[Any], Any]]  # gives the function of an item
Told = Callable[[int, int], None]  # of (shards answered, shards in all)


class PlacedShards(Protocol):
    """One state per shard, in the order of the shards.

    Examples
    --------
    >>> from trellis.core.backends import PlacedShards, as_backend
    >>> shards: PlacedShards = as_backend("threads", n_jobs=1).place(list, [range(2), range(3)])
    >>> shards.ask(len)
    [2, 3]
    """

    def __len__(self) -> int: ...

    def ask(self, question: Callable[..., Answer], *arguments: Any, told: Told | None = None) -> list[Answer]:
        """``[question(state_0, *arguments), ...]``, in the order of the shards. The same arguments go to all;
        they travel once to each worker."""

    def ask_each(self, question: Callable[..., Answer], each: Sequence[Any], *arguments: Any) -> list[Answer]:
        """``[question(state_0, each[0], *arguments), ...]``: an argument of its own for each shard."""

    def total(self, question: Callable[..., Answer], *arguments: Any, told: Told | None = None) -> Answer:
        """The answers added up (:mod:`.shard_sums`), in pairs of neighbours, then pairs of pairs: an order
        that depends on the number of shards alone. Each answer must own its memory."""

    def change(self, question: Callable[..., Any], *arguments: Any) -> PlacedShards:
        """New states ``question(state_i, *arguments)``, placed where the old ones are."""

    def change_each(self, question: Callable[..., Any], each: Sequence[Any], *arguments: Any) -> PlacedShards:
        """New states ``question(state_i, each[i], *arguments)``."""

    def release(self) -> None:
        """Nothing more will be asked: memory and files of the states are freed."""


class Backend(Protocol):
    """A place where shards run.

    Examples
    --------
    >>> from trellis.core.backends import Backend, as_backend
    >>> backend: Backend = as_backend("threads", n_jobs=2)
    >>> backend.n_workers
    2
    """

    @property
    def n_workers(self) -> int:
        """How many shards run at the same time."""

    @property
    def name(self) -> str:
        """Where it is, for messages: ``2 threads``, ``tcp://host:8786``."""

    def place(self, make: Callable[[Any], Any], sources: Sequence[Any]) -> PlacedShards:
        """One state ``make(source)`` for each source. A source is data, or says where they are."""

    def each(
        self, make: Callable[[], Callable[[Any], Any]], items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        """``(i, make()(items[i]))`` as they become ready (:mod:`.item_map`): a plain map without states, of
        which an item may fail and the others go on."""
