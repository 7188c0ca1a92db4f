"""Requests to stop that can wait for the end of an iteration, so that it is stored before the program ends.

Who handles a signal calls :func:`ask_to_stop`. A loop that stores its iterations listens
(:func:`listening`), looks at :func:`stop_was_asked` between two of them, and ends by ``KeyboardInterrupt``.
Where nobody listens, the program stops at once, as it always did.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_listeners = 0
_asked = False


@contextmanager
def listening() -> Iterator[None]:
    """The block looks at :func:`stop_was_asked` now and then; a request that it did not see ends it."""
    global _listeners
    _listeners += 1
    try:
        yield
    finally:
        _listeners -= 1
    if _listeners == 0 and _asked:
        raise KeyboardInterrupt


def ask_to_stop() -> bool:
    """Whether somebody listens; otherwise, and when asked for the second time, nobody will stop."""
    global _asked
    again, _asked = _asked, True
    return _listeners > 0 and not again


def stop_was_asked() -> bool:
    return _asked


def forget_requests() -> None:
    """For a new program in the same process."""
    global _asked
    _asked = False
