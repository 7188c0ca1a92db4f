"""Emissions to and from files: a record is its class by name, JSON values and arrays.

A file can name only classes that were registered by code that runs anyway, so that reading executes nothing
that the file contains.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from numpy.typing import NDArray

from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.hmm.emissions.emission import Emission

_CLASSES: dict[str, type[Emission]] = {}

E = TypeVar("E", bound=type[Emission])


def register(kind: E) -> E:
    """Let files name this class. Use it as a decorator; models that use the class can then be saved and
    loaded."""
    known = _CLASSES.setdefault(kind.__name__, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise DataError(f"there is an emission named {kind.__name__!r} already; choose another name")
    _CLASSES[kind.__name__] = kind  # a notebook cell that is run again defines its class again
    return kind


def emission_to_state(emission: Emission) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """JSON values, with the name of the class under ``"class"``, and arrays."""
    name = type(emission).__name__
    if _CLASSES.get(name) is not type(emission):
        raise UnsupportedError(
            f"{name} is not registered, so a file with it could not be read; write @emissions.register "
            f"above it"
        )
    meta, arrays = emission.to_state()
    return {**meta, "class": name}, arrays


def emission_from_state(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Emission:
    """The record that :func:`emission_to_state` described."""
    name = meta["class"]
    if name not in _CLASSES:
        raise ModelFileError(
            f"its emission is a {name}, which is not known here; import the module that defines and "
            f"registers it"
        )
    options = {key: value for key, value in meta.items() if key != "class"}
    return _CLASSES[name].from_state(options, arrays)
