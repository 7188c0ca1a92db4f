"""Say that kernels are being compiled: a line on a terminal while it lasts, one log line in a script.

Compiling happens once for a machine, and takes seconds. Where nothing is compiled, nothing is said.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

from numba.core import event
from numba.core.dispatcher import Dispatcher

from trellis.core.kernel_cache import KernelCache
from trellis.core.kernel_folders import kernel_folder
from trellis.core.progress import a_bar_is_shown

_LOG = logging.getLogger("trellis")


class CompileNotice(event.Listener):  # type: ignore[misc]
    """Hears of every function that Numba compiles, and speaks of our kernels."""

    def __init__(self) -> None:
        self.compiled = 0  # kernels of this process, those that others call included
        self._depth = 0
        self._before = 0  # kernels that earlier calls had compiled
        self._expected = 0
        self._line_is_shown = False

    def on_start(self, event: Any) -> None:
        dispatcher = event.data["dispatcher"]
        if not isinstance(dispatcher._cache, KernelCache):
            return
        if self._depth == 0:
            self._before = self.compiled
            self._expected = len(_waiting(dispatcher))
            if self._before == 0:
                _LOG.info("compiling kernels for this machine, once; kept in %s", kernel_folder())
        self._depth += 1
        self.compiled += 1
        self._show()

    def on_end(self, event: Any) -> None:
        if not isinstance(event.data["dispatcher"]._cache, KernelCache):
            return
        self._depth -= 1
        if self._depth == 0 and self._line_is_shown:
            self._write("\r\x1b[K")
            self._line_is_shown = False

    def _show(self) -> None:
        if a_bar_is_shown() or not (sys.stderr is not None and sys.stderr.isatty()):
            return
        number = self.compiled - self._before
        self._line_is_shown = True
        self._write(
            f"\rcompiling for this machine, once: {number} of {max(number, self._expected)}\x1b[K",
        )

    @staticmethod
    def _write(text: str) -> None:
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # a terminal that has gone away costs the line, not the answer
            pass


def _waiting(dispatcher: Any) -> set[Any]:
    """A kernel and those below it that have no compiled form in this process."""
    found: set[Any] = set()
    todo = [dispatcher]
    while todo:
        one = todo.pop()
        if one not in found and not one.overloads and not getattr(one, "linkable", None):
            found.add(one)
            function = one.py_func
            named = (function.__globals__.get(name) for name in function.__code__.co_names)
            todo += [other for other in named if isinstance(other, Dispatcher)]
    return found


notice = CompileNotice()
event.register("numba:compile", notice)
