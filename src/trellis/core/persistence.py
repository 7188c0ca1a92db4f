"""Saving and loading models: one file with parameters and names as JSON, large parts as arrays, and no code.

A model class has ``to_state() -> (meta, arrays)`` and a class method ``from_state(meta, arrays)``, which
checks everything that it reads. The name of the class is the ``kind`` of the file;
:data:`trellis.registry.KINDS` lists them.
"""

from __future__ import annotations

import json
import os
from importlib import import_module
from typing import Any, Protocol

from trellis.core import storage
from trellis.core.codec import State
from trellis.core.errors import ModelFileError, TrellisError, UnsupportedError
from trellis.core.file_checks import limit_sizes
from trellis.core.output_files import Target
from trellis.registry import KINDS

# what values that are not as saved lead to, where no check has found them
_DAMAGE = (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError)


class SavedModel(Protocol):
    """A model that can be saved; its class also has the class method ``from_state``."""

    def to_state(self) -> State: ...


def save(model: SavedModel, path: Target, extra: dict[str, Any] | None = None) -> None:
    """Write a fitted model; ``extra`` (JSON values) is kept beside it, in ``extra_`` of the loaded model."""
    meta, arrays = model.to_state()
    kept = getattr(model, "extra_", {}) if extra is None else extra
    kind = next((c.__name__ for c in type(model).__mro__ if c.__name__ in KINDS), None)
    if kind is None:
        raise UnsupportedError(
            f"a {type(model).__name__} cannot be saved; the models that can are {', '.join(KINDS)}"
        )
    storage.save(path, kind, {**meta, "extra": kept}, arrays)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a model that ``save`` wrote. Reading executes nothing that the file contains.

    Examples
    --------
    >>> import trellis
    >>> X, y = [["the", "cat"], ["a", "dog"]], [["D", "N"], ["D", "N"]]
    >>> trellis.SequenceLabeler("log").fit(X, y).save("tagger.trellis")
    >>> trellis.load("tagger.trellis").predict([["a", "cat"]])
    [['D', 'N']]
    """
    kind, meta, arrays = storage.read(path)
    if kind not in KINDS:
        raise ModelFileError(
            f"{os.fspath(path)}: this is a model of kind {kind!r}, which cannot be loaded here; update "
            "trellis"
        )
    model_class = getattr(import_module(KINDS[kind]), kind)
    try:
        with limit_sizes(sum(array.nbytes for array in arrays.values()) + len(json.dumps(meta))):
            model = model_class.from_state(meta, arrays)
        model.extra_ = meta["extra"]
    except MemoryError as error:
        raise ModelFileError(
            f"{os.fspath(path)}: the model needs more memory than is available; the file is damaged, or use "
            "a larger machine"
        ) from error
    except _DAMAGE as error:
        reason = str(error) if isinstance(error, TrellisError) else f"{type(error).__name__}: {error}"
        raise ModelFileError(
            f"{os.fspath(path)}: the model file is damaged or incomplete ({reason}); train it again"
        ) from error
    return model
