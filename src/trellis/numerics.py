"""What every Numba kernel of the library shares: the decorator and its floating-point contract.

``kernel`` compiles once and caches on disk, releases the GIL (so that threads over shards run in parallel),
and lets LLVM re-associate sums and contract multiply-adds for SIMD. It does *not* assume away infinities
and NaNs: ``-inf`` is how Trellis says "forbidden", and kernels may test for it.
"""

from __future__ import annotations

from typing import Any

from numba import njit

kernel: Any = njit(
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"contract", "reassoc", "nsz", "arcp"},
)

# For max-plus recursions: scores are never NaN there (-inf plus -inf is -inf), which lets LLVM use SIMD
# maxima. Sums keep their order.
max_kernel: Any = njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "nsz", "nnan"})
