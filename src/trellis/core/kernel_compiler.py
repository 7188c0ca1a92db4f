"""How kernels are compiled: machine code is made of what Python calls, and of nothing else.

Numba by itself optimises every function, makes machine code of it and a wrapper for calls from Python, even
where only other compiled functions call it; these then optimise their copy of it again. Most of our kernels
are called by kernels alone, so more than a quarter of the time goes there. Here a kernel has two forms:

* the *linkable* form is LLVM's code as Numba's front end writes it, which the kernels that call it link and
  optimise as their own;
* the *callable* form is a wrapper for calls from Python, linked with the linkable form, optimised and
  translated to machine code.

While one is made, Python's collector of cyclic garbage rests: it would walk through millions of objects, all
of them alive, which takes a seventh of the time.

All of this holds for one version of Numba, whose parts it replaces (``NUMBA_IS_KNOWN``); others compile in
their own way.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba import types
from numba.core import compiler, event, sigutils, typing
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.registry import CPUDispatcher

from trellis.core.kernel_cache import KernelCache


class LazyLibrary(JITCodeLibrary):  # type: ignore[misc]
    """LLVM's code of a function and of those that it calls; machine code once somebody needs an address."""

    _machine_code = False
    _code_is_ours = 0  # how many of our compilations are under way

    @classmethod
    def from_bitcode(cls, codegen: Any, name: str, bitcode: bytes) -> LazyLibrary:
        from llvmlite.binding import parse_bitcode

        library = cls(codegen, name)
        library._final_module = parse_bitcode(bitcode)
        library._finalized = True
        return library

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout
        for function in ll_module.functions:
            if not function.is_declaration:  # which Numba would optimise as well
                passes, builder = self._codegen._function_pass_manager()
                passes.run(function, builder)

    def finalize(self) -> None:
        """Link what the function calls; nothing can be added afterwards."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True

    def optimize(self) -> None:
        self._ensure_finalized()
        self._optimize_final_module()

    def make_machine_code(self) -> None:
        if self._machine_code:
            return
        self.optimize()
        self._final_module.verify()
        self._finalize_final_module()
        self._machine_code = True
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name)
            if environment is not None:
                type(self._codegen).set_env(self._codegen, variable.name, environment)

    def get_pointer_to_function(self, name: str) -> int:
        self._ensure_finalized()
        try:
            self._final_module.get_function(name)
        except NameError:  # there is no wrapper: Python never calls this one
            return 0
        self.make_machine_code()
        address: int = super().get_pointer_to_function(name)
        return address

    def _get_module_for_linking(self) -> Any:
        if (
            not LazyLibrary._code_is_ours
        ):  # Numba expects of other code that everything it links has an address
            self.make_machine_code()
        return super()._get_module_for_linking()

    def serialize_using_object_code(self) -> tuple[str, str, Any]:
        self._ensure_finalized()
        if self._machine_code:
            return self.name, "object", (self._get_compiled_object(), b"")
        return self.name, "linkable", self._final_module.as_bitcode()


@contextmanager
def _our_compilation(context: Any) -> Iterator[None]:
    """Functions are compiled to lazy libraries, Numba's own among them, which kernels call like ours.

    The caller holds Numba's lock, so nobody else compiles meanwhile.
    """
    codegen = context.codegen()
    if LazyLibrary._code_is_ours == 0:
        collects = gc.isenabled()
        gc.disable()
        codegen._library_class = LazyLibrary
        codegen.set_env = lambda name, environment: None  # machine code sets its own
    LazyLibrary._code_is_ours += 1
    try:
        yield
    finally:
        LazyLibrary._code_is_ours -= 1
        if LazyLibrary._code_is_ours == 0:
            del codegen._library_class, codegen.set_env
            if collects:
                gc.enable()


class KernelDispatcher(CPUDispatcher):  # type: ignore[misc]
    """A kernel as Python sees it."""

    def __init__(self, py_func: Callable[..., Any], locals: Any = None, targetoptions: Any = None) -> None:
        super().__init__(py_func, locals, targetoptions)
        self._cache = KernelCache(py_func)
        self._compiler._customize_flags = _only_linkable
        self.linkable: dict[tuple[Any, ...], Any] = {}
        self.optimized_alone = False  # see trellis.core.numerics.optimized_alone

    def compile(self, sig: Any) -> Any:
        """The entry point for one signature: loaded, or compiled and kept."""
        with global_compiler_lock:
            args = tuple(sigutils.normalize_signature(sig)[0])
            if args in self.overloads:
                return self.overloads[args].entry_point
            found = self._cache.load_overload(args, self.targetctx)
            if found is None:
                self._cache_misses[args] += 1
                self.targetctx.refresh()  # for the wrapper, also where its kernel is loaded, not compiled
                with _our_compilation(self.targetctx):
                    found = self._callable_form(self._linkable_form(args, keep=False))
                self._cache.save_overload(args, found)
            else:
                self._cache_hits[args] += 1
            self.add_overload(found)
            return found.entry_point

    def get_call_template(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        """How compiled code calls the kernel.

        There is one form for all numbers that callers write as constants. Numba would compile one for each,
        and LLVM still sees them where it inlines.
        """
        pysig, args = self.fold_argument_types(
            tuple(types.unliteral(one) for one in args),
            {name: types.unliteral(one) for name, one in kws.items()},
        )
        with global_compiler_lock, _our_compilation(self.targetctx):
            form = self._linkable_form(tuple(args), keep=True)
        name = self.py_func.__name__
        template = typing.make_concrete_template(
            f"CallTemplate({name})", key=name, signatures=[form.signature]
        )
        return template, pysig, args, {}

    def get_overload(self, sig: Any) -> Any:
        """What Numba knows the linkable form by."""
        return self.linkable[tuple(sigutils.normalize_signature(sig)[0])].library

    def _linkable_form(self, args: tuple[Any, ...], keep: bool) -> Any:
        if args not in self.linkable:
            form = self._cache.load_linkable(args, self.targetctx)
            if form is None:
                details = {"dispatcher": self, "args": args, "return_type": None}
                with self._compiling_counter, event.trigger_event("numba:compile", data=details):
                    form = self._compiler.compile(args, None)
                    if self.optimized_alone:
                        form.library.optimize()
                if keep:
                    self._cache.save_linkable(args, form)
            self.targetctx.insert_user_function(form.library, form.fndesc, [form.library])
            self.linkable[args] = form
        return self.linkable[args]

    def _callable_form(self, form: Any) -> Any:
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        context, function = compiler._make_subtarget(self.targetctx, flags), form.fndesc
        library = context.codegen().create_library(function.qualname)
        library.enable_object_caching()
        context.create_cpython_wrapper(library, function, form.environment, None, release_gil=True)
        library.add_linking_library(form.library)
        entry_point = context.get_executable(library, function, form.environment)
        return form._replace(library=library, entry_point=entry_point, reload_init=list(library._reload_init))


def _only_linkable(flags: Any) -> Any:
    flags.no_cpython_wrapper = flags.no_cfunc_wrapper = flags.no_compile = True
    return flags
