"""Regressions that are solved by asking for sums over data, wherever the data are.

A *search* is a generator: it yields a request, is sent the sum of the answers of all parts of the data to it,
and returns its result. One that is alone is answered by :func:`answered`; many go together
(:func:`solve_together`), so that a round of requests is one question to the shards.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

Search = Generator[Any, Any, Any]


@dataclass(frozen=True)
class WholeSearch:
    """A search that asks for itself alone: ``solve(ask)`` calls ``ask(request)`` for each sum."""

    solve: Callable[[Callable[[Any], Any]], Any]


def answered(search: Search | WholeSearch, ask: Callable[[Any], Any]) -> Any:
    """The result of one search."""
    if isinstance(search, WholeSearch):
        return search.solve(ask)
    try:
        request = next(search)
        while True:
            request = search.send(ask(request))
    except StopIteration as end:
        return end.value


def solve_together(
    searches: Sequence[Search | WholeSearch], ask: Callable[[list[Any]], Sequence[Any]]
) -> list[Any]:
    """The results of all. ``ask(requests)`` answers a list with one request, or None, for each search."""
    n = len(searches)
    results: list[Any] = [None] * n
    running: dict[int, tuple[Search, Any]] = {}
    for i, search in enumerate(searches):
        if isinstance(search, WholeSearch):
            results[i] = search.solve(partial(_ask_alone, ask, i, n))
        else:
            running[i] = search, next(search)
    while running:
        answers = ask([running[i][1] if i in running else None for i in range(n)])
        for i, (search, _) in list(running.items()):
            try:
                running[i] = search, search.send(answers[i])
            except StopIteration as end:
                results[i] = end.value
                del running[i]
    return results


def _ask_alone(ask: Callable[[list[Any]], Sequence[Any]], i: int, n: int, request: Any) -> Any:
    return ask([request if j == i else None for j in range(n)])[i]
