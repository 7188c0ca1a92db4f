"""Puts compiled kernels into a wheel, if the variable TRELLIS_SHIP_KERNELS is set (``make wheel``).

A value that is a folder names kernels which ``trellis warm-up --ship`` has compiled there; any other compiles
them now. The wheel is then one for this Python and platform, and its kernels are compiled for a common level
of processors. It has to be built where Trellis' dependencies are installed, that is, without build isolation.
Every other build is quick, and pure Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShippedKernels(BuildHookInterface):
    """Compiles in a temporary folder, which the wheel includes as ``trellis/_kernels``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        asked = os.environ.get("TRELLIS_SHIP_KERNELS")
        if not asked or version == "editable":
            return
        build_data["force_include"][asked if os.path.isdir(asked) else self._compile()] = "trellis/_kernels"
        build_data["pure_python"] = False
        build_data["infer_tag"] = True

    def _compile(self) -> str:
        self._folder = tempfile.TemporaryDirectory()
        source = Path(self.root) / "src"
        path = os.pathsep.join(filter(None, [str(source), os.environ.get("PYTHONPATH")]))
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from trellis.cli import main; main()",
                "warm-up",
                "--ship",
                self._folder.name,
            ],
            env={**os.environ, "PYTHONPATH": path},
            stdout=sys.stderr,  # stdout belongs to the build frontend
            check=True,
        )
        return self._folder.name

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if hasattr(self, "_folder"):
            self._folder.cleanup()
