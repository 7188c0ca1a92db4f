"""``make bench`` goes on past benchmarks that cannot be measured or fail, and sums up at the end; the scripts
themselves still fit the library (mypy reads them all, see ``files`` in pyproject.toml)."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
ALL = CHECKOUT / "benchmarks" / "_all.py"


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


def test_types_are_checked_wherever_there_is_code() -> None:
    """A folder of scripts that no tool reads breaks unseen when the library changes. (Tests are run.)"""
    options = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    tracked = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    ).stdout.split()
    folders = {path.split("/")[0] for path in tracked or ["src/", "benchmarks/", "examples/", "scripts/"]}
    assert folders - {"tests"} == set(options["tool"]["mypy"]["files"])


@pytest.mark.parametrize("script", sorted(p.name for p in ALL.parent.glob("[a-z]*.py")))
def test_every_benchmark_takes_the_options_of_the_runner(script: str) -> None:
    assert "parser(__doc__)" in (ALL.parent / script).read_text(encoding="utf-8")


def test_the_comparison_with_crfsuite_on_a_miniature_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every part of it that runs in this process, with its own checks: the same features, the same objective
    at CRFsuite's weights, the same tags."""
    pytest.importorskip("pycrfsuite")
    monkeypatch.syspath_prepend(ALL.parent)
    for name in ("_common", "_crfsuite", "_memory", "conll2000"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    conll2000 = importlib.import_module("conll2000")
    rng = np.random.default_rng(0)
    tags = {"DT": "B-NP", "NN": "I-NP", "VB": "O"}
    for name in ("train.txt", "test.txt"):
        lines = []
        for _ in range(12):
            for pos in rng.choice(list(tags), int(rng.integers(2, 6))):
                lines.append(f"{pos.lower()}{rng.integers(4)} {pos} {tags[pos]}")
            lines.append("")
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    corpus = conll2000.Corpus.read(tmp_path / "train.txt", tmp_path / "test.txt")
    conll2000.evaluation(corpus, tmp_path, 4).print()
    conll2000.training(corpus, tmp_path / "lbfgs.crf").print()
    conll2000.perceptron(corpus, tmp_path).print()
    conll2000.tagging(corpus, tmp_path / "lbfgs.crf").print()
    assert "tags that differ" in capsys.readouterr().out
