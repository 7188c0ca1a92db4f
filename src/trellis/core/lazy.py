"""Public names that are imported on first use, so that importing a package stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, exports: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    ``exports`` maps a public name to the module that defines it; a value that starts with ``module:`` stands
    for that module itself.
    """

    def resolve(name: str) -> Any:
        if name not in exports:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        where = exports[name]
        if where.startswith("module:"):
            value: Any = import_module(where.removeprefix("module:"))
        else:
            value = getattr(import_module(where), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted(exports)

    return resolve, names
