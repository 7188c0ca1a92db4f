"""The results of a simulation so far, in one file of the usual format, so that a stopped one goes on.

For each m there are two arrays, ``train_m`` and ``true_m``, with NaN where a repeat is not done. The header
says what the results are of; another sampler, learner, loss, seed or number of test examples is an error, not
a mixture. The file is written every few seconds, and at the end however it comes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from trellis.core import storage
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError

KIND = "GeneralizationGap"
SECONDS_BETWEEN_WRITES = 5.0


class Record:
    """Errors of ``n_repeats`` repeats at ``m`` examples, kept in the file at ``path`` if there is one."""

    def __init__(
        self, path: storage.PathLike | None, description: dict[str, Any], m: int, n_repeats: int
    ) -> None:
        self._path, self._meta, self._keys = path, description, (f"train_{m}", f"true_{m}")
        self._kept: dict[str, FloatArray] = {}
        if path is not None and Path(path).exists():
            self._kept = self._read(path)
        kept = [self._kept.get(key, np.zeros(0)) for key in self._keys]
        self._n = n_repeats
        self._errors = np.full((2, max(n_repeats, len(kept[0]))), np.nan)
        self._errors[:, : len(kept[0])] = kept
        self._written = time.monotonic()

    @classmethod
    @contextmanager
    def opened(
        cls, path: storage.PathLike | None, description: dict[str, Any], m: int, n_repeats: int
    ) -> Iterator[Record]:
        """A record that is written when the block ends, also by an error or Ctrl-C."""
        record = cls(path, description, m, n_repeats)
        try:
            yield record
        finally:
            record.write()

    @property
    def train(self) -> FloatArray:
        return self._errors[0, : self._n]

    @property
    def true(self) -> FloatArray:
        return self._errors[1, : self._n]

    @property
    def n_done(self) -> int:
        return self._n - len(self.missing())

    def missing(self) -> list[int]:
        return [int(i) for i in np.flatnonzero(np.isnan(self.true))]

    def add(self, i: int, train: float, true: float) -> None:
        self._errors[:, i] = train, true
        if time.monotonic() - self._written > SECONDS_BETWEEN_WRITES:
            self.write()

    def write(self) -> None:
        if self._path is not None:
            arrays = {**self._kept, **dict(zip(self._keys, self._errors, strict=True))}
            storage.save(self._path, KIND, self._meta, arrays)
            self._written = time.monotonic()

    def _read(self, path: storage.PathLike) -> dict[str, FloatArray]:
        kind, meta, arrays = storage.read(path)
        if kind != KIND:
            raise DataError(
                f"{os.fspath(path)}: holds a {kind}, not a simulation; give another file to resume from"
            )
        for key, value in self._meta.items():
            if key in meta and meta[key] != value:
                raise DataError(
                    f"{os.fspath(path)}: holds a simulation with {key} {meta[key]}, and this one has "
                    f"{value}; give another file, or remove it"
                )
        self._meta = {**meta, **self._meta}
        return arrays
