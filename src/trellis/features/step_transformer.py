"""scikit-learn's ``transform`` and ``set_output`` for models that give probabilities of labels at every step.

A transformer of scikit-learn returns one matrix, which ``set_output`` makes a frame. Here the unit is a
sequence: a list of sequences becomes a list of frames, and one frame with ``lengths`` becomes one frame. Rows
keep the index of the pandas frame or series that they come from. What ``predict`` returns never changes.

The choice is kept where scikit-learn's ``clone`` looks for it; its ``set_config(transform_output=...)`` holds
where no choice was made. Neither scikit-learn nor pandas nor polars is imported before it is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from trellis.core.errors import DataError, UnsupportedError
from trellis.data.user_input import as_lists

CONTAINERS = ("default", "pandas", "polars")


class StepTransformer:
    """Adds ``transform``, ``fit_transform`` and ``set_output`` to a model; a subclass gives the numbers."""

    _sklearn_output_config: dict[str, str]  # scikit-learn's name: its clone() copies it

    def _step_probabilities(self, X: Any, lengths: ArrayLike | None) -> Any:
        """(length, K) for each sequence, or one array for all of them."""
        raise NotImplementedError

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns of ``transform``."""
        raise NotImplementedError

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``transform`` and ``fit_transform`` return: "pandas" or "polars" frames whose columns
        are named, or (``"default"``) arrays. None leaves the choice as it is."""
        if transform is None:
            return self
        if transform not in CONTAINERS:
            raise DataError(f"transform is {transform!r}; give one of {', '.join(map(repr, CONTAINERS))}")
        if transform != "default" and find_spec(transform) is None:
            raise UnsupportedError(f"{transform} is not installed; run: pip install {transform}")
        self._sklearn_output_config = {"transform": transform}
        return self

    def transform(self, X: Any, *, lengths: ArrayLike | None = None) -> Any:
        """The probability of each label (of each state, for an HMM) at every step, as features of whatever
        comes next: what ``predict_marginals`` (``smooth``) returns, in the containers of ``set_output``."""
        X = as_lists(X)
        found, container = self._step_probabilities(X, lengths), self._container()
        if container == "default":
            return found
        names = list(self.get_feature_names_out())
        if isinstance(found, Iterator):
            raise UnsupportedError("frames of files would not fit in memory; use predict_marginals or smooth")
        if not isinstance(found, list):
            return _frame(container, found, names, X)
        if lengths is not None:
            return _frame(container, np.concatenate(found), names, X)
        return [_frame(container, rows, names, x) for rows, x in zip(found, X, strict=True)]

    def fit_transform(self, X: Any, y: Any = None, **options: Any) -> Any:
        """``fit(X, y)``, then ``transform(X)``."""
        X = as_lists(X)
        model: Any = self
        return model.fit(X, y, **options).transform(X, lengths=options.get("lengths"))

    def _container(self) -> str:
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        if chosen is not None or "sklearn" not in sys.modules:
            return chosen or "default"
        return str(sys.modules["sklearn"].get_config().get("transform_output", "default"))


def _frame(container: str, rows: NDArray[Any], names: list[str], source: Any) -> Any:
    """The rows as a frame, with the index of the frame or series that they come from."""
    columns = {name: rows[:, k] for k, name in enumerate(names)}
    if container == "pandas":
        index = getattr(source, "index", None) if hasattr(source, "to_numpy") else None
        return import_module("pandas").DataFrame(columns, index=index)
    return import_module(container).DataFrame(columns)
