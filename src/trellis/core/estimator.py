"""The base of estimators: scikit-learn's conventions, declared parameters, saving, a number of threads.

A model keeps scikit-learn's protocol (``get_params``, ``set_params``, ``fit``, attributes that end in ``_``,
tags) and so works in its pipelines, searches and validation, without being of its class: to import that takes
more than a second and ninety megabytes, which a first fit has no use for. Whoever uses scikit-learn has
imported it already; what only it asks for imports it here.
"""

from __future__ import annotations

import sys
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, Self, dataclass_transform

import numpy as np

from trellis.core import model_pages, persistence
from trellis.core.codec import Arrays, State, decode, encode, function_not_stored
from trellis.core.errors import DataError
from trellis.core.file_checks import check_fields
from trellis.core.notebook import estimator_html
from trellis.core.output_files import Target
from trellis.core.parameters import (
    FittedField,
    Parameter,
    check_parameters,
    declare,
    fitted,
    parameter,
    what_there_is,
)
from trellis.core.shards import n_threads


def is_fitted(model: object, name: str | None = None) -> bool:
    """Whether the model has the attribute ``name``, or any that ``fit`` makes (they end in ``_``)."""
    if name is not None:
        return hasattr(model, name)
    return any(one.endswith("_") and not one.startswith("__") for one in vars(model))


def check_fitted(model: object, name: str | None = None) -> None:
    """Raise scikit-learn's ``NotFittedError`` unless the model is fitted."""
    if not is_fitted(model, name):
        raise not_fitted(f"this {type(model).__name__} is not fitted yet; call fit first")


def not_fitted(message: str) -> Exception:
    """scikit-learn's ``NotFittedError``, a ``ValueError`` and ``AttributeError``."""
    from sklearn.exceptions import NotFittedError

    error: Exception = NotFittedError(message)
    return error


def _is_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    try:
        return type(value) is type(default) and bool(value == default)
    except ValueError:  # arrays
        return False


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter, fitted))
class Model:
    """An estimator whose parameters and fitted attributes are declared (:mod:`trellis.core.parameters`)."""

    declared_parameters: ClassVar[dict[str, Parameter]]
    fitted_fields: ClassVar[dict[str, FittedField]]
    fit_seconds_: dict[str, float] | None = fitted(
        'The seconds that each stage of ``fit`` took, in order, such as ``{"encoding": 0.8, "arranging": '
        '0.1, "training": 3.9}``. Files are read and encoded in one stage, "reading and encoding"; ``trellis '
        'train`` adds its own "reading". A fit that resumes from a checkpoint counts only the time since '
        "then. None if the model was not made by ``fit``, or was saved by an older version."
    )
    if TYPE_CHECKING:
        extra_: dict[str, Any]  # what a file holds beside the model; set by trellis.load
    learned_whole: ClassVar[bool] = True  # whether a model that has one saved attribute has them all

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declare(cls)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; with ``deep``, those of estimators among them, too, as ``name__inner``."""
        found = {name: getattr(self, name) for name in self.declared_parameters}
        if deep:
            for name, value in list(found.items()):
                if hasattr(value, "get_params") and not isinstance(value, type):
                    found |= {f"{name}__{inner}": one for inner, one in value.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, those of an estimator among them as ``name__parameter``."""
        known, inner = self.get_params(deep=False), dict[str, dict[str, Any]]()
        for key, value in params.items():
            name, nested, rest = key.partition("__")
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}; "
                    + what_there_is(name, self.declared_parameters)
                )
            if nested:
                inner.setdefault(name, {})[rest] = value
            else:
                setattr(self, name, value)
        for name, values in inner.items():
            getattr(self, name).set_params(**values)
        return self

    def __repr__(self) -> str:
        """The parameters that are not as by default."""
        changed = [
            f"{name}={getattr(self, name, None)!r}"
            for name, one in self.declared_parameters.items()
            if not _is_default(getattr(self, name, None), one.default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        from sklearn.base import BaseEstimator

        return BaseEstimator().__sklearn_tags__()

    def _repr_html_(self) -> str:
        """What a notebook shows: scikit-learn's diagram where the notebook has imported it, else the
        parameters; and of a fitted model why training stopped, with curves of what was measured."""
        if "sklearn" in sys.modules:
            from sklearn.utils import estimator_html_repr

            diagram = str(estimator_html_repr(self))
        else:
            diagram = f"<pre>{escape(repr(self))}</pre>"
        return estimator_html(
            diagram,
            getattr(self, "status_", None),
            getattr(self, "history_", {}),
            getattr(self, "fit_seconds_", None),
        )

    def __sklearn_is_fitted__(self) -> bool:
        return is_fitted(self)

    report = model_pages.report

    def save(self, path: Target) -> None:
        """Write the model to one file, or to an open binary stream; :func:`trellis.load` reads the file. No
        code is stored in it."""
        persistence.save(self, path)

    def to_state(self) -> State:
        """The fitted model as JSON values and arrays."""
        self._check_fitted()
        arrays: Arrays = {}
        parameters = {
            name: encode(value, arrays, f"parameters.{name}")
            for name, value in self._saved_parameters().items()
        }
        learned = {
            name: encode(getattr(self, name), arrays, name)
            for name, field in self.fitted_fields.items()
            if field.saved and hasattr(self, name)
        }
        return {"parameters": parameters, "fitted": learned}, arrays

    @classmethod
    def from_state(cls, meta: dict[str, Any], arrays: Arrays) -> Self:
        """The inverse of :meth:`to_state`; checks everything that it reads."""
        stored = meta["parameters"].items()
        given = {name: decode(value, arrays, f"parameters.{name}") for name, value in stored}
        check_fields(cls, {name: value for name, value in given.items() if value is not function_not_stored})
        model = cls(**given)
        model._check_parameters()
        learned = {
            name: decode(value, arrays, name)
            for name, value in meta["fitted"].items()
            if name in cls.fitted_fields
        }
        if learned:  # else the parameters are the model
            learned.setdefault("fit_seconds_", None)
        if learned and cls.learned_whole:
            missing = {name for name, field in cls.fitted_fields.items() if field.saved} - learned.keys()
            learned |= dict.fromkeys(missing)  # what may be None may be missing
        check_fields(cls, learned)
        for name, value in learned.items():
            setattr(model, name, value)
        model._check_loaded()
        return model

    def _check_fitted(self) -> None:
        """Raise scikit-learn's ``NotFittedError`` unless the model is fitted."""
        check_fitted(self)

    def _check_loaded(self) -> None:
        """Raise a ``ModelFileError`` unless the parts of a loaded model fit together. Kernels index without
        bounds checks, so nothing that they index with is trusted."""

    def _saved_parameters(self) -> dict[str, Any]:
        """The parameters to save: without data (a hold-out set), a random generator, whose state has moved
        on, and the folder of checkpoints."""
        kept: dict[str, Any] = self.get_params(deep=False)
        if isinstance(kept.get("holdout"), tuple):
            kept["holdout"] = self.declared_parameters["holdout"].default
        if not isinstance(kept.get("random_state", 0), int | np.integer):
            kept["random_state"] = None
        for name in ("checkpoint", "backend", "max_memory"):  # places, which say nothing about the model
            if name in kept:
                kept[name] = None
        return kept

    def _check_unchanged(self, name: str, fitted: Any) -> None:
        """A parameter that fixes the shape of the model must be what it was in ``fit``."""
        if getattr(self, name) != fitted:
            raise DataError(
                f"{name} is {getattr(self, name)!r}, but this {type(self).__name__} was fitted with "
                f"{name}={fitted!r}; set it back, or fit again"
            )

    def _check_parameters(self) -> None:
        check_parameters(self)

    def _finished(self, interrupted: bool) -> Self:
        """What ``fit`` returns once everything that was learned is kept. Where Ctrl-C ended the training, it
        ends the programme (a grid search, a script) as well: the model holds the last complete iteration."""
        if interrupted:
            raise KeyboardInterrupt(f"this {type(self).__name__} keeps what it had learned; see its status_")
        return self

    def _threads(self) -> int:
        n_jobs = getattr(self, "n_jobs", None)
        return n_threads(1 if n_jobs is None else n_jobs)


declare(Model)
