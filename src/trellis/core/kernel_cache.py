"""Compiled kernels on disk, keyed by the content of their sources.

Numba's own cache looks at the file that holds a kernel, and not at the kernels that it calls. Here the key of
a kernel is a digest of its file and of every kernel file that it imports, directly or not, so an edit
anywhere below recompiles exactly what it touches, and equal sources share what is compiled wherever they lie.

A kernel is looked for among those that came with the package, then in the user's folder
(:mod:`trellis.core.kernel_folders`), and compiled if it is in neither. Where nothing can be written, it is
compiled in memory, once per process, and a warning says so.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
from numba.core import caching
from numba.core.compiler import CompileResult
from numba.core.environment import lookup_environment
from numba.core.runtime import rtsys

from trellis.core.kernel_folders import (
    PACKAGE,
    kernel_folder,
    shipped_folder,
    shipped_level,
    user_folder,
    warn_not_kept,
)

# Short cuts through Numba that were tested with this version; others take the long way.
NUMBA_IS_KNOWN = numba.__version__.startswith("0.68.")
LINKABLE = ".link"  # in the names of files for kernels that call this one (trellis.core.kernel_compiler)
_HOW_KERNELS_ARE_MADE = [PACKAGE / "core" / name for name in ("kernel_cache.py", "kernel_compiler.py")]
_IMPORT = re.compile(r"^\s*from trellis((?:\.\w+)*) import (\([^)]*\)|[^\n]*)", re.MULTILINE)


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
def _read(path: Path) -> tuple[bytes, list[Path]]:
    """The digest of a source, and the modules that it imports if it holds kernels."""
    content = path.read_bytes()
    imported = _imported_files(content.decode()) if path.name.endswith("_kernels.py") else []
    return hashlib.sha256(content).digest(), imported


@cache
def source_key(path: Path) -> str:
    """A digest of a kernel file, of all that it imports (of other modules only their constants count), and of
    the code that compiles and keeps kernels."""
    seen: dict[Path, bytes] = {}
    todo = [path, *_imported_files(path.read_text(encoding="utf-8")), *_HOW_KERNELS_ARE_MADE]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen[file], imported = _read(file)
            todo += imported
    digest = hashlib.sha256()
    for file in sorted(seen):
        # with its name: compiled code names the modules of its records, so a moved file is another one
        place = file.relative_to(PACKAGE) if file.is_relative_to(PACKAGE) else Path(file.name)
        digest.update(place.as_posix().encode() + seen[file])
    return digest.hexdigest()[:16]


class _Locator(caching._CacheLocator):
    """How Numba names the compiled form of one function."""

    def __init__(self, function: Callable[..., Any], path: Path) -> None:
        self._key = source_key(path)
        self._line = function.__code__.co_firstlineno
        self._py_file = str(path)  # named in a warning of Numba's

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

    def reduce(self, data: Any) -> Any:
        """What a file holds: Numba's description, and the Python objects that compiled code looks up."""
        environments = [data.environment, *data._find_referenced_environments()]
        return super().reduce(data), {one.env_name: list(one.consts) for one in environments}

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        """A compiled function from what its file holds: machine code, or LLVM's bitcode for kernels that are
        compiled later and call this one."""
        payload, objects = payload
        for name, wanted in objects.items():
            # another file may have brought the same table, without what the wrapper adds to it
            known = lookup_environment(name).consts
            known.extend(wanted[len(known) :])
        (name, kind, code), function, *rest = payload
        if kind == "linkable":
            return self._linkable(target_context, name, code, function, *rest)
        if not NUMBA_IS_KNOWN or kind != "object":
            return super().rebuild(target_context, payload)
        engine = target_context.codegen()._engine
        engine._defined_symbols.add(function.llvm_cpython_wrapper_name)  # else Numba learns it from bitcode
        machine_code = (name, kind, (code[0], _empty_bitcode()))
        return super().rebuild(target_context, (machine_code, function, *rest))

    @staticmethod
    def _linkable(context: Any, name: str, bitcode: bytes, function: Any, *rest: Any) -> Any:
        from trellis.core.kernel_compiler import LazyLibrary

        environment, signature, objectmode, lifted, annotation, reload_init, environments = rest
        for initialise in reload_init:
            initialise()
        return CompileResult(
            typing_context=context.typing_context,
            target_context=context,
            entry_point=None,
            typing_error=None,
            type_annotation=annotation,
            signature=signature,
            objectmode=objectmode,
            lifted=lifted,
            fndesc=function,
            library=LazyLibrary.from_bitcode(context.codegen(), name, bitcode),
            call_helper=None,
            environment=environment,
            metadata=None,
            reload_init=reload_init,
            referenced_envs=environments,
        )


@cache
def _empty_bitcode() -> Any:
    return llvm.parse_assembly("").as_bitcode()


class _Index(caching.IndexDataCacheFile):
    """The signatures that are compiled. What cannot be read, or names a record that has since moved, is as
    good as none.

    A file is named after its signature. Numba would number them, and of two processes that write at the same
    time the index of one might name the file of the other.
    """

    _unreadable = (ImportError, AttributeError, EOFError, pickle.UnpicklingError)

    def save(self, key: Any, data: Any) -> None:
        index = self._load_index()
        if key not in index:
            number = int(hashlib.sha256(repr(key).encode()).hexdigest()[:10], 16)
            index[key] = self._data_name(number)
            self._save_index(index)
        self._save_data(index[key], data)

    def _load_index(self) -> dict[Any, Any]:
        try:
            index: dict[Any, Any] = super()._load_index()
        except self._unreadable:
            return {}
        return index

    def load(self, key: Any) -> Any:
        try:
            return super().load(key)
        except self._unreadable:
            return None


class KernelCache(caching.FunctionCache):
    """Numba's cache of one function, with our keys and our folders.

    Nothing is read before the function is first called, so that an import costs no look at the sources.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._py_func = function
        self._name = repr(function)
        self._enabled = True
        self.loaded = 0  # forms of the kernel that were found in a folder

    @cached_property
    def _impl(self) -> _Files:
        return _Files(self._py_func)

    @property
    def _cache_path(self) -> str:
        return str(kernel_folder())

    @property
    def _cache_file(self) -> _Index:
        return self._index_in(kernel_folder())

    def _index_in(self, folder: Path, form: str = "") -> _Index:
        return _Index(str(folder), self._impl.filename_base + form, self._impl.locator.get_source_stamp())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled form of a signature, shipped or our own; None if it has to be compiled.

        Numba would first load all that compiling may need, SciPy included. Compiled code needs the runtime of
        Numba alone, and what is compiled after all loads the rest by itself.
        """
        if NUMBA_IS_KNOWN:
            rtsys.initialize(target_context)
        else:
            target_context.refresh()
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        signature, machine, code = self._index_key(sig, target_context.codegen())
        shipped, level = shipped_folder(), shipped_level()
        data = None
        if shipped is not None and level is not None:
            data = self._index_in(shipped).load((signature, (machine[0], *level), code))
        if data is None and (own := user_folder()) is not None:
            data = self._index_in(own).load((signature, machine, code))
        if data is None:
            return None
        self.loaded += 1
        return self._impl.rebuild(target_context, data)

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a compiled function; a disk that is full by now costs the file, not the answer."""
        self._save(sig, data, "")

    def load_linkable(self, sig: Any, target_context: Any) -> Any:
        """The form that kernels link which call this one; None if it has to be compiled."""
        if (own := user_folder()) is None:
            return None
        with self._guard_against_spurious_io_errors():
            data = self._index_in(own, LINKABLE).load(self._index_key(sig, target_context.codegen()))
        return None if data is None else self._impl.rebuild(target_context, data)

    def save_linkable(self, sig: Any, data: Any) -> None:
        self._save(sig, data, LINKABLE)

    def _save(self, sig: Any, data: Any, form: str) -> None:
        folder = user_folder()
        if folder is None or not self._impl.check_cachable(data):
            return
        try:
            with self._guard_against_spurious_io_errors():
                key = self._index_key(sig, data.codegen)
                self._index_in(folder, form).save(key, self._impl.reduce(data))
        except OSError as error:
            warn_not_kept(error.strerror)
