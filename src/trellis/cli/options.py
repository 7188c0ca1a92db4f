"""Options of commands, from the declarations of the estimators' parameters."""

from __future__ import annotations

import math
from typing import Any

import typer

from trellis.core.parameters import Parameter, Range


def option(*names: str, metavar: str | None = None, **settings: Any) -> Any:
    return typer.Option(*names, metavar=metavar, **settings)


def declared_option(declared: Parameter, *names: str, metavar: str, doc: str | None = None) -> Any:
    """The option of a declared parameter: its bounds, and its meaning unless ``doc`` says it for the command
    line."""
    bounds: dict[str, Any] = {}
    if isinstance(declared.constraint, Range):
        low, high = declared.constraint.minimum, declared.constraint.maximum
        bounds = {"min": low} if low > -math.inf else {}
        bounds |= {"max": high} if high < math.inf else {}
    return typer.Option(*names, metavar=metavar, help=declared.doc if doc is None else doc, **bounds)
