"""``make bench`` goes on past benchmarks that cannot be measured or fail, and sums up at the end."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ALL = Path(__file__).resolve().parent.parent / "benchmarks" / "_all.py"


def test_every_benchmark_is_run_and_summed_up(tmp_path: Path) -> None:
    shutil.copy(ALL, tmp_path)
    (tmp_path / "_common.py").write_text("raise SystemExit('no benchmark')")
    (tmp_path / "a.py").write_text("print('not measured: x is not there; name it by --data')")
    (tmp_path / "b.py").write_text("1 / 0")
    (tmp_path / "c.py").write_text("import sys; print('1.5 s', *sys.argv[1:])")
    done = subprocess.run(
        [sys.executable, str(tmp_path / "_all.py"), "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "1.5 s --quick" in done.stdout
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()[-3:]] == [
        ["a.py", "not measured: x is not there; name it by --data"],
        ["b.py", "failed with exit code 1"],
        ["c.py", "measured"],
    ]
    (tmp_path / "b.py").unlink()
    assert subprocess.run([sys.executable, str(tmp_path / "_all.py")], check=False).returncode == 0
