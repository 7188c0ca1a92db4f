"""The parameters of estimators, declared once: default, meaning and range.

A declaration is an attribute of the class::

    class Smoother(Model):
        width: int = parameter(default=5, doc="Steps to average over.", constraint=integer(minimum=1))
        weights_: FloatArray = fitted("The weights of the steps.")

The constructor, the sections "Parameters" and "Attributes" of the docstring, the check of values at the
beginning of ``fit``, the options of the command line and the fields of a model file all follow from these
lines. This module loads neither NumPy nor scikit-learn, so that ``--help`` can read declarations cheaply.
"""

from __future__ import annotations

import inspect
import math
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal

from trellis.core.errors import DataError
from trellis.core.foreign_names import translate

REQUIRED: Any = inspect.Parameter.empty
EXAMPLES = "\n\nExamples\n--------\n"  # a section of the docstring of a class; it stays the last one


@dataclass(frozen=True)
class Range:
    """A finite number between two bounds; ``none``: whether None is allowed as well."""

    minimum: float = -math.inf
    maximum: float = math.inf
    whole: bool = False
    above: bool = False  # whether the minimum itself is excluded
    below: bool = False  # whether the maximum itself is excluded
    none: bool = False

    def accepts(self, value: Any) -> bool:
        if value is None:
            return self.none
        if isinstance(value, bool) or not isinstance(value, Integral if self.whole else Real):
            return False
        number = float(value)
        low = number > self.minimum if self.above else number >= self.minimum
        high = number < self.maximum if self.below else number <= self.maximum
        return math.isfinite(number) and low and high

    def __str__(self) -> str:
        text = "a whole number" if self.whole else "a finite number"
        if self.minimum > -math.inf:
            text += f" above {self.minimum:g}" if self.above else f" of at least {self.minimum:g}"
        if self.maximum < (sys.maxsize if self.whole else math.inf):
            text += f" and {'below' if self.below else 'at most'} {self.maximum:g}"
        return text + " or None" * self.none


@dataclass(frozen=True)
class Choice:
    """One of some names, or (``others``) something that is no string and is checked where it is used."""

    names: tuple[str, ...]
    others: str = ""

    def accepts(self, value: Any) -> bool:
        return value in self.names if isinstance(value, str) else bool(self.others)

    def __str__(self) -> str:
        names = [repr(name) for name in self.names] + [self.others] * bool(self.others)
        return ", ".join(names[:-1]) + " or " * (len(names) > 1) + names[-1]


@dataclass(frozen=True)
class Flag:
    """True or False; ``none``: whether None is allowed as well."""

    none: bool = False

    def accepts(self, value: Any) -> bool:
        return type(value).__name__ in ("bool", "bool_") or (value is None and self.none)

    def __str__(self) -> str:
        return "True, False or None" if self.none else "True or False"


Constraint = Range | Choice | Flag


def integer(minimum: float = -math.inf, maximum: float = math.inf, *, none: bool = False) -> Range:
    return Range(minimum, maximum, whole=True, none=none)


def number(
    minimum: float = -math.inf,
    maximum: float = math.inf,
    *,
    above: bool = False,
    below: bool = False,
    none: bool = False,
) -> Range:
    return Range(minimum, maximum, above=above, below=below, none=none)


def choice(*names: str, others: str = "") -> Choice:
    return Choice(names, others)


@dataclass(frozen=True)
class Parameter:
    """One parameter of an estimator. Without a constraint it is checked where it is used."""

    default: Any
    doc: str
    constraint: Constraint | None = None
    keyword: bool = True
    name: str = ""

    def check(self, value: Any) -> None:
        if self.constraint is not None and not self.constraint.accepts(value):
            raise DataError(f"{self.name} is {value!r}; give {self.constraint}")


@dataclass(frozen=True)
class FittedField:
    """An attribute that learning sets; ``saved``: whether a model file keeps it."""

    doc: str
    saved: bool = True


def parameter(
    *,
    default: Any = REQUIRED,
    doc: str | None = None,
    constraint: Constraint | None = None,
    kw_only: bool = True,
) -> Any:
    """Declare a parameter, or reuse a shared declaration (a :class:`Parameter`) with another ``doc``."""
    if isinstance(default, Parameter):
        return replace(default, keyword=kw_only, doc=default.doc if doc is None else doc)
    return Parameter(default, doc or "", constraint, kw_only)


def fitted(doc: str = "", *, saved: bool = True, init: Literal[False] = False) -> Any:
    """Declare an attribute that learning sets."""
    return FittedField(doc, saved)


def declare(cls: type) -> None:
    """Turn the declarations in the body of a class, added to those of its bases, into a constructor and
    docstring sections; ``cls.declared_parameters`` and ``cls.fitted_fields`` hold them by name."""
    parameters: dict[str, Parameter] = {}
    fields: dict[str, FittedField] = {}
    for base in reversed(cls.__mro__[1:]):
        inherited = base.__dict__.get("declared_parameters", {})
        parameters = {n: p for n, p in parameters.items() if n not in inherited} | inherited  # in its order
        fields |= base.__dict__.get("fitted_fields", {})
    own = dict(cls.__dict__)
    for name, value in own.items():
        if isinstance(value, Parameter):
            parameters.pop(name, None)
            parameters[name] = replace(value, name=name)
            delattr(cls, name)
        elif isinstance(value, FittedField):
            fields[name] = value
            delattr(cls, name)
    parameters = dict(sorted(parameters.items(), key=lambda item: item[1].keyword))  # as in a call
    target: Any = cls
    target.declared_parameters, target.fitted_fields = parameters, fields
    if any(isinstance(value, Parameter) for value in own.values()) and "__init__" not in own:
        target.__init__ = _constructor(parameters)
    if own.get("__doc__"):
        target.__doc__ = _documented(own["__doc__"], parameters, fields)


def check_parameters(model: Any) -> None:
    """Raise a ``DataError`` for the first parameter whose value is out of its range."""
    for name, declared in type(model).declared_parameters.items():
        declared.check(getattr(model, name))


def _constructor(parameters: dict[str, Parameter]) -> Callable[..., None]:
    kinds = inspect.Parameter
    arguments = [
        kinds(name, kinds.KEYWORD_ONLY if p.keyword else kinds.POSITIONAL_OR_KEYWORD, default=p.default)
        for name, p in parameters.items()
    ]
    signature = inspect.Signature([kinds("self", kinds.POSITIONAL_OR_KEYWORD), *arguments])

    def initialise(self: Any, *args: Any, **kwargs: Any) -> None:
        unknown = next((name for name in kwargs if name not in parameters), None)
        if unknown is not None:
            raise TypeError(
                f"{type(self).__name__} has no parameter {unknown!r}; {what_there_is(unknown, parameters)}"
            )
        try:
            bound = signature.bind(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        bound.apply_defaults()
        for name in parameters:
            setattr(self, name, bound.arguments[name])

    vars(initialise)["__signature__"] = signature
    initialise.__name__ = "__init__"
    return initialise


def what_there_is(unknown: str, parameters: dict[str, Parameter]) -> str:
    """The parameter that was perhaps meant, or all of them."""
    meant = translate(unknown, parameters)
    if meant is None:
        return f"it has {', '.join(parameters)}"
    note = meant.python or meant.conversion
    return f"did you mean {meant.ours!r}{f' ({note})' if note else ''}?"


def _documented(text: str, parameters: dict[str, Parameter], fields: dict[str, FittedField]) -> str:
    about, heading, example = inspect.cleandoc(text).partition(EXAMPLES)
    lines = [about]
    if parameters:
        lines += ["", "Parameters", "----------"]
        for name, p in parameters.items():
            default = "" if p.default is REQUIRED else f", default {p.default!r}"
            kind = f" : {p.constraint}" if p.constraint is not None else " :"
            lines.append((name + kind + default).replace(" :, ", " : "))
            lines.append(textwrap.indent(textwrap.fill(p.doc, 100), "    "))
    documented = {name: field for name, field in fields.items() if field.doc}
    if documented:
        lines += ["", "Attributes", "----------"]
        for name, field in documented.items():
            lines += [name, textwrap.indent(textwrap.fill(field.doc, 100), "    ")]
    return "\n".join(lines) + f"\n{heading}{example}".rstrip("\n") + "\n"
