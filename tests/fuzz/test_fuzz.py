"""A short run of the fuzzer and of the kills; ``make fuzz`` and ``make soak`` run them for minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fuzz_models import MODELS
from fuzz_readers import READERS

from trellis import registry
from trellis.speech.formats import FORMATS

HERE = Path(__file__).resolve().parent


def _run(script: str, *arguments: str, cwd: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / script), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        cwd=cwd,
    )
    assert done.returncode == 0, done.stdout[-5000:]


def test_every_kind_of_file_has_its_target() -> None:
    assert set(MODELS) == set(registry.KINDS)
    assert set(FORMATS) <= set(READERS)


@pytest.mark.parametrize("targets", [READERS, MODELS], ids=["readers", "models"])
def test_changed_files_are_read_or_refused(targets: dict[str, object], tmp_path: Path) -> None:
    if targets is MODELS:
        pytest.importorskip("torch")
    cases = "60" if targets is READERS else "30"
    _run("fuzz.py", *targets, "--cases", cases, "--seconds", "3600", cwd=tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="there is no fork")
def test_a_few_kills(tmp_path: Path) -> None:
    _run("soak.py", "--kills", "6", cwd=tmp_path)
