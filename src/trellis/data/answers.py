"""Answers for many examples: a list that NumPy joins to others without looking inside.

The answers for sequences of different lengths make no rectangular array, so ``np.concatenate`` of two lists
of them fails, and with it ``cross_val_predict`` of scikit-learn, which joins the answers of its folds in this
way. These lists join to a one-dimensional array of objects, one for each example, whatever the lengths are.
Otherwise they are lists.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


class Answers(list[T]):
    """A list with one item for each example."""

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function is np.concatenate and len(args) == 1 and not kwargs:
            joined = list(chain.from_iterable(args[0]))
            return np.fromiter(joined, object, len(joined))
        # anything else sees plain lists, as arguments or in a list of them
        return function(*map(_plain, args), **{name: _plain(value) for name, value in kwargs.items()})


def _plain(value: Any) -> Any:
    if isinstance(value, Answers):
        return list(value)
    if isinstance(value, list | tuple) and any(isinstance(item, Answers) for item in value):
        return [list(item) if isinstance(item, Answers) else item for item in value]
    return value
