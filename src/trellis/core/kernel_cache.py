"""Compiled kernels on disk, keyed by the content of their sources.

Numba's own cache looks at the time stamp of the file that holds a kernel, and not at the kernels that it
calls. Here the key of a kernel is a digest of its file and of every kernel file that it imports, directly or
not, so an edit anywhere below recompiles exactly what it touches, and equal sources share what is compiled
wherever they lie. The folder is ``NUMBA_CACHE_DIR`` if that is set, otherwise the user's cache folder. Where
nothing can be written, kernels are compiled in memory, once per process, and a warning says so.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from numba.core import caching
from numba.misc.appdirs import AppDirs

PACKAGE = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(r"^\s*from trellis((?:\.\w+)*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


def kernel_folder() -> Path:
    """Where compiled kernels are kept."""
    given = os.environ.get("NUMBA_CACHE_DIR")
    return Path(given) if given else Path(AppDirs("trellis", False).user_cache_dir) / "kernels"


@cache
def folder_is_writable() -> bool:
    folder = kernel_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        _warn_once(error.strerror)
        return False
    return True


@cache
def _warn_once(reason: str | None) -> None:
    warnings.warn(
        f"compiled kernels cannot be kept in {kernel_folder()} ({reason}): they are compiled anew in every "
        "process; set NUMBA_CACHE_DIR to a folder that can be written",
        RuntimeWarning,
        stacklevel=3,
    )


def _imported_files(text: str) -> list[Path]:
    """The modules of this package that a source imports."""
    found = []
    for dotted, names in _IMPORT.findall(text):
        base = PACKAGE.joinpath(*dotted.split(".")[1:])
        if base.with_suffix(".py").exists():
            found.append(base.with_suffix(".py"))
        for name in re.findall(r"\w+", names):
            if (base / f"{name}.py").exists():
                found.append(base / f"{name}.py")
    return found


@cache
def _file_digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


@cache
def source_key(path: Path) -> str:
    """A digest of a kernel file and of all that it imports; of other modules only their constants count."""
    seen: dict[Path, bytes] = {}
    todo = [path]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen[file] = _file_digest(file)
            if file == path or file.name.endswith("_kernels.py"):
                todo += _imported_files(file.read_text(encoding="utf-8"))
    digest = hashlib.sha256()
    for file in sorted(seen):
        # with its name: compiled code names the modules of its records, so a moved file is another one
        place = file.relative_to(PACKAGE) if file.is_relative_to(PACKAGE) else Path(file.name)
        digest.update(place.as_posix().encode() + seen[file])
    return digest.hexdigest()[:16]


class _Locator(caching._CacheLocator):
    """Where Numba finds the compiled form of one function."""

    def __init__(self, function: Callable[..., Any], path: Path) -> None:
        self._key = source_key(path)
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(kernel_folder())

    def get_source_stamp(self) -> str:
        return self._key

    def get_disambiguator(self) -> str:
        return f"{self._line}-{self._key}"

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_func, Path(py_file).resolve())


class _Files(caching.CompileResultCacheImpl):
    _locator_classes = (_Locator,)


class _Index(caching.IndexDataCacheFile):
    """The signatures that are compiled. One that names a record which has since moved is as good as none."""

    def _load_index(self) -> dict[Any, Any]:
        try:
            index: dict[Any, Any] = super()._load_index()
        except (ImportError, AttributeError):
            return {}
        return index


class KernelCache(caching.FunctionCache):
    """Numba's cache of one function, with our keys."""

    _impl_class = _Files

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file = _Index(
            self._cache_path, self._impl.filename_base, self._impl.locator.get_source_stamp()
        )

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function; a disk that is full by now costs the file, not the answer."""
        try:
            super().save_overload(sig, data)
        except OSError as error:
            _warn_once(error.strerror)
