"""Checks of what model files hold, before it is used: types by annotations, sizes by the size of the file.

Kernels index without bounds checks, so nothing that a file says is trusted. The types of fitted attributes
and of the fields of records are those of their annotations (``weights_: FloatArray`` is a float64 array);
shapes, ranges of indices and what else must fit together is checked by the classes themselves.
"""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np

from trellis.core.errors import ModelFileError

_file_size: ContextVar[float] = ContextVar("file_size", default=float("inf"))


@contextmanager
def limit_sizes(size: int) -> Iterator[None]:
    """Within the block, :func:`check_size` knows how large the file is."""
    token = _file_size.set(size)
    try:
        yield
    finally:
        _file_size.reset(token)


def check_size(name: str, size: int) -> None:
    """Raise a ``ModelFileError`` if a file states a size that it cannot hold.

    Each state, weight or cell takes at least a byte in its file, so a larger number is damage; it is refused
    before any memory is asked for. Outside of reading there is no limit.
    """
    if not 0 <= size <= _file_size.get():
        raise ModelFileError(f"{name} is {size}, more than a file of {_file_size.get():g} bytes can hold")


def check_array(name: str, array: Any, shape: tuple[int, ...], dtype: Any = np.float64) -> None:
    """Raise a ``ModelFileError`` unless an array from a file has this shape and type and is finite."""
    fits = isinstance(array, np.ndarray) and (array.dtype, array.shape) == (dtype, shape)
    if not fits or not np.isfinite(array).all():
        raise ModelFileError(f"{name} should be a finite {np.dtype(dtype)} array of shape {shape}")


def check_type(name: str, array: Any, axes: int, dtype: Any) -> None:
    """Raise a ``ModelFileError`` unless a value from a file is an array of so many axes and this type."""
    if not isinstance(array, np.ndarray) or (array.ndim, array.dtype) != (axes, dtype):
        raise ModelFileError(f"{name} should be a {np.dtype(dtype)} array with {axes} axes")


def check_indices(name: str, array: Any, n: int) -> None:
    """Raise a ``ModelFileError`` unless an array of whole numbers indexes ``n`` things; -1 is none."""
    if array.size and not (int(array.min()) >= -1 and int(array.max()) < n):
        raise ModelFileError(f"{name} should hold numbers below {n}")


def check_fields(owner: type, values: Mapping[str, Any]) -> None:
    """Raise a ``ModelFileError`` unless each value is of the type that ``owner`` annotates its name with."""
    declared = annotated_types(owner)
    for name, value in values.items():
        if not matches(value, declared.get(name, Any)):
            what = f"{value.dtype} array" if isinstance(value, np.ndarray) else type(value).__name__
            raise ModelFileError(f"{name} of its {owner.__name__} should not be a {what}")


@cache
def annotated_types(owner: type) -> dict[str, Any]:
    """The annotations of a class and its bases as types; what is known to type checkers only is ``Any``."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        known = vars(sys.modules[base.__module__])
        for name, annotation in inspect.get_annotations(base).items():
            if isinstance(annotation, typing.ForwardRef):  # as named tuples keep them
                annotation = annotation.__forward_arg__
            if isinstance(annotation, str):
                try:
                    annotation = eval(annotation, dict(known), dict(vars(base)))
                except NameError:
                    annotation = Any
            found[name] = annotation
    return found


def matches(value: Any, annotation: Any) -> bool:
    """Whether a value is what an annotation says. An annotation that says nothing testable allows all."""
    annotation = _resolved(annotation)
    if annotation is Any:
        return True
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return any(matches(value, part) for part in parts)
    if origin is typing.Annotated or origin is typing.ClassVar:
        return matches(value, parts[0])
    if origin is typing.Literal:
        return value in parts
    if annotation is None or annotation is types.NoneType:
        return value is None
    if origin is np.ndarray:
        if isinstance(value, float):  # what is left of an array without axes after arithmetic
            return _has_type(np.dtype(np.float64), parts[1])
        return isinstance(value, np.ndarray) and _has_type(value.dtype, parts[1])
    if annotation is float:
        if isinstance(value, Integral) and abs(int(value)) > sys.float_info.max:
            return False
        return isinstance(value, Real) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if origin is Callable or annotation is Callable:
        return callable(value)
    kind = origin or annotation
    if not isinstance(kind, type) or getattr(kind, "_is_protocol", False):
        return True
    return isinstance(value, kind) and _holds(value, kind, parts)


def _resolved(annotation: Any) -> Any:
    """What an alias stands for: since NumPy 2.5, ``NDArray[float64]`` is one."""
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    while hasattr(annotation, "__value__") or hasattr(origin, "__value__"):
        annotation = origin.__value__[parts] if parts else annotation.__value__
        origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    return annotation


def _has_type(dtype: np.dtype[Any], annotation: Any) -> bool:
    (scalar,) = typing.get_args(annotation) or (Any,)
    return scalar is Any or not isinstance(scalar, type) or np.issubdtype(dtype, scalar)


def _holds(value: Any, kind: type, parts: tuple[Any, ...]) -> bool:
    """Whether the items of a container are what its annotation says."""
    if not parts:
        return True
    if issubclass(kind, tuple) and parts[-1] is not Ellipsis:
        return len(value) == len(parts) and all(map(matches, value, parts))
    if issubclass(kind, Mapping) and len(parts) == 2:
        return all(matches(key, parts[0]) and matches(item, parts[1]) for key, item in value.items())
    if issubclass(kind, Sequence | set | frozenset) and not isinstance(value, str):
        return all(matches(item, parts[0]) for item in value)
    return True
