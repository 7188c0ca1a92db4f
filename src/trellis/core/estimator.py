"""What every estimator has besides scikit-learn's parameters: a file, and a number of threads."""

from __future__ import annotations

import os
from typing import Any

from sklearn.base import BaseEstimator

from trellis.core import persistence
from trellis.core.shards import n_threads


class Model(BaseEstimator):  # type: ignore[misc]
    """An estimator with ``to_state`` and ``from_state``, see :mod:`trellis.core.persistence`."""

    n_jobs: Any = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file; :func:`trellis.load` reads it. No code is stored in it."""
        persistence.save(self, path)

    def _threads(self) -> int:
        return n_threads(1 if self.n_jobs is None else self.n_jobs)
