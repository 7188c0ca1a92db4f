"""Any value that a model holds as JSON values and arrays, and back.

Plain values stay as they are. The rest becomes ``{"@": kind, ...}``: tuples, sets, dictionaries, numbers that
JSON lacks, and *records* (:mod:`trellis.core.registration`): objects of a registered class, by name and
fields. Arrays leave the JSON tree; each is stored under the path that leads to it (``layout_.rows.pointer``).

A file can name only registered classes, so reading executes nothing that the file contains. Python functions
are not stored: their replacement raises an error when it is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

import numpy as np

from trellis.core.arrays import AnyArray
from trellis.core.errors import ModelFileError, UnsupportedError
from trellis.core.file_checks import check_fields
from trellis.core.registration import find_record, is_registered, record_name

Arrays = dict[str, AnyArray]
State = tuple[dict[str, Any], Arrays]

_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}


def encode(value: Any, arrays: Arrays, path: str = "") -> Any:
    """``value`` as JSON; its arrays are added to ``arrays``."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"@": "float", "value": repr(value)}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype != object:
        arrays[path] = value
        return {"@": "array"}
    if isinstance(value, list):
        return [encode(item, arrays, f"{path}.{i}") for i, item in enumerate(value)]
    if type(value).__name__ in _SEQUENCES:
        items = [encode(item, arrays, f"{path}.{i}") for i, item in enumerate(value)]
        return {"@": type(value).__name__, "items": items}
    if isinstance(value, Mapping):
        items = [
            [encode(key, arrays, f"{path}.{i}.key"), encode(item, arrays, f"{path}.{_key(key, i)}")]
            for i, (key, item) in enumerate(value.items())
        ]
        return {"@": "dict", "items": items}
    name = record_name(type(value))
    if is_registered(type(value)):
        return {
            "@": name,
            **{k: encode(v, arrays, f"{path}.{k}" if path else k) for k, v in _state(value).items()},
        }
    if callable(value) and not is_dataclass(value):
        return {"@": "function"}
    raise UnsupportedError(
        f"{path or 'a value'} is a {name}, which model files cannot store; use plain values, or register its "
        "class with trellis.core.registration.register"
    )


def decode(value: Any, arrays: Mapping[str, AnyArray], path: str = "") -> Any:
    """The inverse of :func:`encode`; raises ``ModelFileError`` for what it cannot decode."""
    if isinstance(value, list):
        return [decode(item, arrays, f"{path}.{i}") for i, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    kind = value.get("@")
    if kind == "array":
        if path not in arrays:
            raise ModelFileError(f"the array {path} is missing")
        return arrays[path]
    if kind == "float":
        return float(value["value"])
    if kind == "function":
        return function_not_stored
    if kind == "dict":
        decoded = {}
        for i, (stored, item) in enumerate(value["items"]):
            key = decode(stored, arrays, f"{path}.{i}.key")
            decoded[key] = decode(item, arrays, f"{path}.{_key(key, i)}")
        return decoded
    if isinstance(kind, str) and kind in _SEQUENCES:
        items = [decode(item, arrays, f"{path}.{i}") for i, item in enumerate(value["items"])]
        return _SEQUENCES[kind](items)
    record: Any = find_record(kind)
    state = {k: decode(v, arrays, f"{path}.{k}" if path else k) for k, v in value.items() if k != "@"}
    try:
        if hasattr(record, "from_state"):
            return record.from_state(state)
        if record.__module__.startswith("trellis."):  # others check their fields themselves, if they care
            check_fields(record, state)
        return record(**state)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"its {kind} is damaged ({type(error).__name__}: {error})") from error


def function_not_stored(*_: Any) -> NoReturn:
    """Stands for a Python function of a saved model."""
    raise UnsupportedError(
        "a parameter of this model was a Python function, which model files do not store; set it again with "
        "model.set_params(...)"
    )


def _state(value: Any) -> dict[str, Any]:
    if hasattr(value, "to_state"):
        state: dict[str, Any] = value.to_state()
        return state
    if is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in fields(value) if f.init}
    named: dict[str, Any] = value._asdict()
    return named


def _key(key: Any, index: int) -> str:
    return key if isinstance(key, str) else str(index)
