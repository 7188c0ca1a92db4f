"""How something goes away: it works for one more minor version, with a warning that says what to use instead.

    warn_deprecated("HMM.score_samples", since="0.3", removed_in="0.4", use="HMM.posterior")

Once the package has the version ``removed_in`` this raises instead, so what was promised to go cannot stay:
the tests of the release find every place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from trellis import __version__

_P = ParamSpec("_P")
_R = TypeVar("_R")


def warn_deprecated(name: str, *, since: str, removed_in: str, use: str, stacklevel: int = 2) -> None:
    """Warn the caller's caller (``stacklevel`` 2: the code that called what is deprecated)."""
    if release(removed_in) <= release(since):
        raise ValueError(f"{name}: removed_in {removed_in} must be later than since {since}")
    if release(__version__) >= release(removed_in):
        raise RuntimeError(f"{name} was to be removed in trellis {removed_in}, and this is {__version__}")
    warnings.warn(
        f"{name} is deprecated since trellis {since} and will be removed in {removed_in}; use {use}",
        DeprecationWarning,
        stacklevel=stacklevel + 1,
    )


def deprecated(*, since: str, removed_in: str, use: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """The same for a whole function or method."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(function)
        def warned(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            warn_deprecated(function.__qualname__, since=since, removed_in=removed_in, use=use)
            return function(*args, **kwargs)

        return warned

    return decorate


def release(version: str) -> tuple[int, ...]:
    """The numbers of the minor version: (0, 3) of ``0.3.1``."""
    return tuple(int(part) for part in version.split(".")[:2])
