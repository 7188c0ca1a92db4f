"""How the program ends: exit codes, signals, and standard streams that are closed or full.

* 0: done. 1: done in part (``align run``). 2: what the user got wrong, or a disk or memory that is full, in
  one line.
* 130, 143, 129: stopped by Ctrl-C, SIGTERM or SIGHUP. Nothing half-written is left, and old files are kept.
  Where training is stored (``--checkpoint``), SIGTERM waits for the end of the iteration, which is stored.
* 141: who read the output has gone away (``trellis tag ... | head``); silent, as other programs are.

A traceback means a defect of Trellis.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TextIO

from trellis.cli.console import note
from trellis.core.errors import TrellisError
from trellis.core.stop_requests import ask_to_stop, forget_requests

CLOSED_PIPE = 141
_received: list[int] = []  # the signals that asked the program to stop


class Stopped(KeyboardInterrupt):
    """A signal that ends programs; training ends with the last complete iteration, as it does on Ctrl-C."""


def stop_code() -> int | None:
    """The exit code if a signal asked the program to stop, else None."""
    return 128 + _received[0] if _received else None


def run(program: Callable[[], None]) -> int:
    """The exit code of a program."""
    _received.clear()
    forget_requests()
    _usable_streams()
    with _signals(), warnings.catch_warnings():
        warnings.showwarning = _show_warning
        code = _code(program)
    try:
        sys.stdout.flush()
    except OSError as error:
        code = _write_failed(error)
    return code


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """One line, as errors are."""
    note(f"trellis: warning: {message}")


def _code(program: Callable[[], None]) -> int:
    try:
        program()
    except KeyboardInterrupt:
        return stop_code() or 130
    except SystemExit as ended:
        return _exit_code(ended)
    except TrellisError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return CLOSED_PIPE
        note(f"trellis: error: {error}")
        return 2
    except MemoryError as error:
        note(
            f"trellis: error: there is not enough memory{f' ({error})' if str(error) else ''}; use fewer "
            "features or a larger machine; with --checkpoint, the same command resumes where it stopped"
        )
        return 2
    except OSError as error:
        if error.filename is not None:  # it is not about a stream
            raise
        return _write_failed(error)
    return 0


def _exit_code(ended: SystemExit) -> int:
    """The code that a command asks for; what draws help and tables ends with 1 when a pipe closes."""
    if isinstance(ended.__context__, BrokenPipeError):
        return _write_failed(ended.__context__)
    stopped = stop_code()
    if stopped is not None and ended.code in (1, 130):
        return stopped
    return ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1


def _write_failed(error: OSError) -> int:
    # what is still in the buffer would raise the same error once more when Python ends
    nowhere = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    with contextlib.suppress(OSError, ValueError):  # a stream that was closed has no number
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
    sys.stdout = nowhere
    if isinstance(error, BrokenPipeError):
        return CLOSED_PIPE
    note(f"trellis: error: standard output cannot be written ({error.strerror or error})")
    return 2


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Signals that would end the program at once raise an exception instead, so that files are tidied up.
    One that is ignored (``nohup``) stays so."""

    def stop(number: int, frame: FrameType | None) -> None:
        _received.append(number)
        # Ctrl-C means now; a scheduler leaves time to store the iteration
        if number == getattr(signal, "SIGTERM", None) and ask_to_stop():
            return
        raise Stopped

    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _usable_streams() -> None:
    """Streams that the caller closed are None in Python: writing to stdout then fails as it does in other
    programs, and notes go nowhere. A label that the stream cannot encode is shown as an escape."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # else the next file opened would take the place of a standard stream
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Closed()), encoding="utf-8")
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _Closed(io.RawIOBase):
    """A stream that the caller closed."""

    def writable(self) -> bool:
        return True

    def write(self, content: object, /) -> int:
        raise OSError(9, "the stream is closed")
