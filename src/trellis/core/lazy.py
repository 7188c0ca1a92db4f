"""Public names that are imported on first use, so that importing a package stays cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_exports(
    package: str, exports: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of a package.

    ``exports`` maps a module (relative to the package) to the public names that it defines, separated by
    blanks; ``modules`` maps a public name to the module that it stands for. Type checkers do not see these
    tables: the package repeats them as imports under ``TYPE_CHECKING``.
    """
    source = {name: f"{package}.{module}" for module, names in exports.items() for name in names.split()}
    whole = {name: f"{package}.{module}" for name, module in (modules or {}).items()}
    public = sorted(source | whole)

    def resolve(name: str) -> Any:
        if name in whole:
            value: Any = import_module(whole[name])
        elif name in source:
            value = getattr(import_module(source[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    return resolve, lambda: public, public
