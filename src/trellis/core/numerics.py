"""What every Numba kernel of the library shares: the decorators and their floating-point contract.

``kernel`` compiles once and caches on disk, releases the GIL (so that threads over shards run in parallel),
and lets LLVM re-associate sums and contract multiply-adds for SIMD. It does *not* assume away infinities
and NaNs: ``-inf`` is how Trellis says "forbidden", and kernels may test for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import jit

from trellis.core import compile_notice as compile_notice
from trellis.core.kernel_cache import NUMBA_IS_KNOWN, KernelCache
from trellis.core.kernel_compiler import KernelDispatcher


def _compiled(function: Callable[..., Any], fastmath: set[str]) -> Any:
    options = {"nopython": True, "nogil": True, "error_model": "numpy", "fastmath": fastmath}
    if NUMBA_IS_KNOWN:
        return KernelDispatcher(function, targetoptions=options)
    dispatcher: Any = jit(**options)(function)
    dispatcher._cache = KernelCache(function)
    return dispatcher


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function of arrays and numbers."""
    return _compiled(function, {"contract", "reassoc", "nsz", "arcp"})


def max_kernel(function: Callable[..., Any]) -> Any:
    """Compile a max-plus recursion: scores are never NaN there (-inf plus -inf is -inf), which lets LLVM use
    SIMD maxima. Sums keep their order."""
    return _compiled(function, {"contract", "nsz", "nnan"})


def optimized_alone(dispatcher: Any) -> Any:
    """Optimise a kernel before others link it, which costs as much again as optimising these.

    For the few whose loops LLVM vectorises worse in the midst of their caller's."""
    dispatcher.optimized_alone = True
    return dispatcher
