"""The parameters of an estimator as JSON values, and back.

Plain values stay as they are. The rest becomes ``{"@": kind, ...}``: objectives, losses and solvers by name
and options, tuples and dictionaries by their items. Python functions are not stored: what is loaded in their
place raises an error that says so, as soon as it is called. Nor are data (a hold-out set) and templates,
which belong to the encoder.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, NoReturn

import numpy as np

from trellis import solvers
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.losses.labelings import LOSSES, Custom
from trellis.objectives.records import OBJECTIVES

_LOSSES = {**LOSSES, Custom.name: Custom}


def _solver_class(name: str) -> type[Any] | None:
    return type(solvers.get_solver(name)) if name in solvers.SOLVERS else None


# kind -> the class of options with a given name
_RECORDS: dict[str, Callable[[str], type[Any] | None]] = {
    "objective": OBJECTIVES.get,
    "loss": _LOSSES.get,
    "solver": _solver_class,
}


def parameters_to_json(parameters: dict[str, Any]) -> dict[str, Any]:
    """What :func:`parameters_from_json` reads."""
    kept = dict(parameters)
    kept["template"] = None
    if isinstance(kept.get("holdout"), tuple):
        kept["holdout"] = "auto"
    if not isinstance(kept.get("random_state", 0), int | np.integer):
        kept["random_state"] = None  # a stream of random numbers has no beginning to go back to
    return {name: _to_json(value, name) for name, value in kept.items()}


def parameters_from_json(stored: dict[str, Any]) -> dict[str, Any]:
    return {name: _from_json(value) for name, value in stored.items()}


def function_not_stored(*_: Any) -> NoReturn:
    """Stands for a Python function of the model that was saved."""
    raise UnsupportedError(
        "a loss (or position weight) of this model was a Python function, which model files do not store; "
        "set it again with model.set_params(loss=...)"
    )


def _to_json(value: Any, name: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return {"@": "array", "items": value.tolist()}
    if isinstance(value, dict):
        return {"@": "dict", "items": [[_to_json(k, name), _to_json(v, name)] for k, v in value.items()]}
    if isinstance(value, tuple | list | set | frozenset):
        return {"@": "tuple", "items": [_to_json(v, name) for v in value]}
    for kind, known in _RECORDS.items():
        name_of_class = getattr(value, "name", "")
        if is_dataclass(value) and type(value) is known(name_of_class):
            options = {f.name: _to_json(getattr(value, f.name), f.name) for f in fields(value)}
            return {"@": kind, "name": name_of_class, "options": options}
    if callable(value):
        return {"@": "function"}
    raise DataError(
        f"the parameter {name} holds {value!r} of type {type(value).__name__}, which cannot be saved; "
        "use plain values, tuples and dictionaries"
    )


def _from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kind = value["@"]
    if kind == "array":
        return np.array(value["items"], dtype=np.float64)
    if kind == "dict":
        return {_from_json(k): _from_json(v) for k, v in value["items"]}
    if kind == "tuple":
        return tuple(_from_json(v) for v in value["items"])
    if kind == "function":
        return function_not_stored
    record = _RECORDS[kind](value["name"]) if kind in _RECORDS else None
    if record is None:
        raise ModelFileError(f"it has a parameter of the unknown kind {kind!r}")
    return record(**{k: _from_json(v) for k, v in value["options"].items()})
