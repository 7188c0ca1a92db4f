"""The results of a simulation so far, in the two files of a checkpoint, so that a stopped one goes on.

For each m there are two arrays, ``train_m`` and ``true_m``, with NaN where a repeat is not done. The header
says what the results are of; another sampler, learner, loss, seed or number of test examples is an error, not
a mixture. They are written every few seconds, and at the end, unless the process is killed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError, ModelFileError
from trellis.core.storage import PathLike
from trellis.training.checkpoint_folder import CheckpointFolder, CheckpointWarning

KIND = "GeneralizationGap"
SECONDS_BETWEEN_WRITES = 5.0


class Record:
    """Errors of ``n_repeats`` repeats at ``m`` examples, kept in the folder at ``path`` if there is one."""

    def __init__(self, path: PathLike | None, description: dict[str, Any], m: int, n_repeats: int) -> None:
        self._meta, self._keys, self._warned = description, (f"train_{m}", f"true_{m}"), False
        self._kept: dict[str, FloatArray] = {}
        self._folder = None if path is None else CheckpointFolder(path)
        if self._folder is not None:
            self._kept = self._read(self._folder)
        kept = [self._kept.get(key, np.zeros(0)) for key in self._keys]
        self._n = n_repeats
        self._errors = np.full((2, max(n_repeats, len(kept[0]))), np.nan)
        self._errors[:, : len(kept[0])] = kept
        self._written = time.monotonic()

    @classmethod
    @contextmanager
    def opened(
        cls, path: PathLike | None, description: dict[str, Any], m: int, n_repeats: int
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
        """What cannot be written is a warning, once; the simulation continues."""
        if self._folder is None:
            return
        arrays = {**self._kept, **dict(zip(self._keys, self._errors, strict=True))}
        try:
            self._folder.write({"kind": KIND, "description": self._meta}, arrays)
        except ModelFileError as error:
            if not self._warned:
                warnings.warn(
                    f"no checkpoint could be written ({error}); the simulation continues",
                    CheckpointWarning,
                    stacklevel=3,
                )
            self._warned = True
        self._written = time.monotonic()

    def _read(self, folder: CheckpointFolder) -> dict[str, FloatArray]:
        found = folder.read()
        if found is None:
            return {}
        stored, arrays = found
        if stored.get("kind") != KIND:
            raise DataError(
                f"the checkpoint in {folder.shown} is not from a simulation; remove it, or give another "
                "folder"
            )
        meta = stored["description"]
        for key, value in self._meta.items():
            if key in meta and meta[key] != value:
                raise DataError(
                    f"the checkpoint in {folder.shown} is from a simulation with {key} {meta[key]}, and this "
                    f"one has {value}; remove it, or give another folder"
                )
        self._meta = {**meta, **self._meta}
        return arrays
