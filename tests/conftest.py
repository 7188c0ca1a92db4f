"""Shared test set-up.

Numba's disk cache checks only the file that holds a kernel, not the kernels it calls. Keying the cache
folder by all kernel sources keeps an edited kernel from being served stale inside its callers, and still
compiles only once per version.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings

_SOURCE = Path(__file__).resolve().parent.parent / "src" / "trellis"
_digest = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(_SOURCE.rglob("*_kernels.py")))).hexdigest()[
    :16
]
_root = os.environ.get(
    "TRELLIS_TEST_CACHE", os.path.join(tempfile.gettempdir(), f"trellis-numba-{os.getuid()}")
)
os.environ["NUMBA_CACHE_DIR"] = os.path.join(_root, _digest)

settings.register_profile(
    "trellis", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("trellis")
