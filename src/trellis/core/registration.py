"""Records: the classes whose objects files may hold, by name; :mod:`trellis.core.codec` stores them.

This module loads neither NumPy nor scikit-learn, so that the command line can list records cheaply.
"""

from __future__ import annotations

from dataclasses import is_dataclass
from importlib import import_module
from typing import Any, TypeVar

from trellis import registry
from trellis.core.errors import DataError, ModelFileError, UnsupportedError

Class = TypeVar("Class", bound=type)

_RECORDS: dict[str, type] = {}


def register(record: Class) -> Class:
    """Let files hold objects of this class. Use it as a decorator.

    A dataclass or a named tuple is stored by its fields and made again by its constructor, which checks
    them. Another class (or one whose fields are not what should be stored) has ``to_state()``, which gives a
    dictionary of values, and a class method ``from_state(state)``.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> from trellis.hmm.emissions import Poisson, register
    >>> @register
    ... @dataclass(frozen=True, eq=False)
    ... class Clicks(Poisson):
    ...     pass
    ...
    >>> Clicks.__name__
    'Clicks'
    """
    if not (is_dataclass(record) or hasattr(record, "_asdict") or hasattr(record, "to_state")):
        raise UnsupportedError(
            f"{record.__name__} cannot be saved by its fields; make it a dataclass, or implement to_state() "
            "and from_state(state)"
        )
    name = record_name(record)
    known = _RECORDS.setdefault(name, record)
    if (known.__module__, known.__qualname__) != (record.__module__, record.__qualname__):
        raise DataError(f"a record named {name!r} already exists; choose another name")
    _RECORDS[name] = record  # a notebook cell that is run again defines its class again
    return record


def record_name(record: type) -> str:
    """The name in files: ``room.Class`` for classes of this package, the name of the class for others."""
    package, *rooms = record.__module__.split(".")
    return f"{rooms[0]}.{record.__name__}" if package == "trellis" and rooms else record.__name__


def is_registered(record: type) -> bool:
    return _RECORDS.get(record_name(record)) is record


def find_record(name: Any) -> type:
    """The class that a file names."""
    if isinstance(name, str) and name not in _RECORDS and name in registry.RECORDS:
        import_module(registry.RECORDS[name])
    if not isinstance(name, str) or name not in _RECORDS:
        raise ModelFileError(
            f"it contains a record of unknown kind {name!r}; update trellis, or import the module that "
            "registers it"
        )
    return _RECORDS[name]
