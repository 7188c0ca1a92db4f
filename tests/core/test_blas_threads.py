"""One BLAS thread also in libraries that are loaded after the code that asks for it."""

from __future__ import annotations

import subprocess
import sys

CODE = """
from threadpoolctl import threadpool_info
from trellis.core.blas_threads import one_blas_thread


@one_blas_thread()
def threads():
    return {one["filepath"]: one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


first = threads()
import scipy.linalg
second = threads()
after = {one["filepath"]: one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}
print(len(first), len(second), set(second.values()), set(after.values()))
"""


def test_libraries_that_are_loaded_later_have_one_thread_as_well() -> None:
    environment = {"OPENBLAS_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", "import os\nos.environ.update(" + repr(environment) + ")\n" + CODE],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, later, limited, free = done.stdout.split()
    assert int(before) <= int(later)
    assert (limited, free) == ("{1}", "{2}")
