"""What every Numba kernel of the library shares: the decorators and their floating-point contract.

``kernel`` compiles once and caches on disk, releases the GIL (so that threads over shards run in parallel),
and lets LLVM re-associate sums and contract multiply-adds for SIMD. It does *not* assume away infinities
and NaNs: ``-inf`` is how Trellis says "forbidden", and kernels may test for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types

from trellis.core import compile_notice as compile_notice
from trellis.core.kernel_cache import KernelCache


def _compiled(function: Callable[..., Any], fastmath: set[str]) -> Any:
    dispatcher: Any = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
    dispatcher._cache = KernelCache(dispatcher.py_func)
    _forget_constants(dispatcher)
    return dispatcher


def _forget_constants(dispatcher: Any) -> None:
    """Compile one form of a kernel for all numbers that its callers write as constants; Numba would compile
    one for each, and LLVM still sees them where it inlines."""
    resolve = dispatcher.get_call_template

    def get_call_template(args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        return resolve(
            tuple(types.unliteral(one) for one in args),
            {name: types.unliteral(one) for name, one in kws.items()},
        )

    dispatcher.get_call_template = get_call_template


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of arrays and numbers."""
    return _compiled(function, {"contract", "reassoc", "nsz", "arcp"})


def max_kernel(function: Callable[..., Any]) -> Any:
    """Compile a max-plus recursion: scores are never NaN there (-inf plus -inf is -inf), which lets LLVM use
    SIMD maxima. Sums keep their order."""
    return _compiled(function, {"contract", "nsz", "nnan"})
