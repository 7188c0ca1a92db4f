"""Where compiled kernels are kept: a folder that came with the package, and the user's own.

A wheel may bring kernels that were compiled for a common level of processors. They are used on machines that
have this level; the sources, Python and Numba must match as well, which the keys of the cache see to
(:mod:`trellis.core.kernel_cache`). Everything else is kept in ``NUMBA_CACHE_DIR`` if that is set, otherwise
in the user's cache folder.

What is in these folders is executed, so a folder counts only if nobody else can write to it.
"""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

from numba.core import config
from numba.misc.appdirs import AppDirs

PACKAGE = Path(__file__).resolve().parent.parent


class Level(NamedTuple):
    """Processors that kernels are shipped for: LLVM's name, and the features that code may use."""

    name: str
    features: str

    def suits_this_machine(self) -> bool:
        from llvmlite.binding import get_host_cpu_features

        host = get_host_cpu_features()
        return all(host.get(feature.lstrip("+"), False) for feature in self.features.split(","))


_X86 = Level("x86-64-v3", "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse4.2")
LEVELS = {"x86_64": _X86, "AMD64": _X86}  # by platform.machine()


def shipped_level() -> Level | None:
    """The level of processors that kernels for this kind of machine are shipped for, if any are."""
    return LEVELS.get(platform.machine())


def shipped_name(level: Level) -> str:
    """The folder, below ``trellis/_kernels``, of this Python, platform and level."""
    return f"{sys.implementation.cache_tag}-{sysconfig.get_platform()}-{level.name}"


@cache
def shipped_folder() -> Path | None:
    """The kernels that came with the package, if this machine can run them."""
    level = shipped_level()
    if level is None or config.CPU_NAME is not None:  # a processor that the user has named is not this one
        return None
    folder = PACKAGE / "_kernels" / shipped_name(level)
    if not folder.is_dir() or not only_we_write(folder, trusted_owner=PACKAGE.stat().st_uid):
        return None
    return folder if level.suits_this_machine() else None


def kernel_folder() -> Path:
    """Where kernels are kept that this machine compiles."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return Path(given) if given else Path(AppDirs("trellis", False).user_cache_dir) / "kernels"


@cache
def user_folder() -> Path | None:
    """:func:`kernel_folder`, made if need be; None, with a warning, if it cannot be used."""
    folder = kernel_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            warn_not_kept("it cannot be written")
            return None
    except OSError as error:
        warn_not_kept(error.strerror)
        return None
    if not only_we_write(folder):
        warn_not_kept("another user can write there")
        return None
    return folder


def only_we_write(folder: Path, trusted_owner: int | None = None) -> bool:
    """Whether a folder belongs to us (or to root, or to ``trusted_owner``), and nobody else can write to it.

    A group that can is accepted if it is its owner's private one, which has the number of the owner.
    """
    if os.name == "nt":  # folders of a profile are private there, and modes say nothing
        return True
    found = folder.stat()
    if found.st_uid not in {0, os.getuid(), trusted_owner}:
        return False
    group_is_private = found.st_gid == found.st_uid
    return not found.st_mode & (0o002 if group_is_private else 0o022)


@cache
def warn_not_kept(reason: str | None) -> None:
    """Say once that kernels have to be compiled in every process."""
    warnings.warn(
        f"compiled kernels cannot be kept in {kernel_folder()} ({reason}), so every process compiles them "
        "again; set NUMBA_CACHE_DIR to a folder that only you can write to",
        RuntimeWarning,
        stacklevel=3,
    )
