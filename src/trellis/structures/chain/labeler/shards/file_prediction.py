"""Answers about files, shard by shard in the order of the files: as many shards at once as work is done on.

Memory is that of these shards and of their answers, which are handed on one sequence after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.core.backends import Backend, as_backend
from trellis.core.backends.local_backend import LocalBackend
from trellis.core.errors import DataError
from trellis.objectives.sharded_problem import as_it_is
from trellis.structures.chain.labeler.shards.shard_questions import Source

if TYPE_CHECKING:
    from trellis.structures.chain.labeler.chain_labeler import ChainLabeler


def answers_of_files(model: ChainLabeler, files: Any, method: str, **options: Any) -> Iterator[Any]:
    """What ``model.method(X, **options)`` gives for each sequence of the files."""
    backend, own = _backend(model), _without_places(model)
    sources = _sources(files)
    window = max(backend.n_workers, 1)
    for first in range(0, len(sources), window):
        placed = backend.place(as_it_is, sources[first : first + window])
        for answers in placed.ask(_answers, own, method, options):
            yield from answers
        placed.release()


def score_of_files(model: ChainLabeler, files: Any) -> float:
    """The fraction of correct labels among the known ones."""
    right, known = (
        _backend(model).place(as_it_is, _sources(files)).total(_right_and_known, _without_places(model))
    )
    if not known:
        raise DataError("there is nothing to score: no step has a known label")
    return float(right / known)


def _backend(model: ChainLabeler) -> Backend:
    found = as_backend(model.backend, model.n_jobs, model.max_memory)
    return found or LocalBackend(model.n_jobs, model.max_memory)


def _without_places(model: ChainLabeler) -> ChainLabeler:
    """The model without what another process has no use for."""
    plain = {"backend": None, "checkpoint": None, "holdout": None, "n_jobs": 1}
    own, known = copy(model), model.get_params(deep=False)
    return own.set_params(**{name: value for name, value in plain.items() if name in known})


def _sources(files: Any) -> list[Source]:
    return [Source(shard, i) for i, shard in enumerate(files.shards())]


def _answers(source: Source, model: ChainLabeler, method: str, options: dict[str, Any]) -> list[Any]:
    X, _ = source.shard.read()
    if not len(X):
        return []
    with source.located(X):
        return list(getattr(model, method)(X, **options))


def _right_and_known(source: Source, model: ChainLabeler) -> tuple[int, int]:
    X, y = source.read()
    if not len(y.labels):
        return 0, 0
    with source.located(X):
        codes, offsets = model.predict_codes(X)
        gold = model.labels_.extended(y).encode(y, like=offsets)
    return int(np.sum(codes == gold.codes)), int(np.sum(gold.codes >= 0))
