"""``make bench`` goes on past benchmarks that cannot be measured or fail, and sums up at the end; the scripts
themselves still fit the library (mypy reads them all, see ``files`` in pyproject.toml)."""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
ALL = CHECKOUT / "benchmarks" / "_all.py"


STUBS = {
    "_common": "raise SystemExit('no benchmark')",
    "a": "print('not measured: x is not there; name it by --data')",
    "b": "1 / 0",
    "c": "import sys; print('1.5 s', *sys.argv[1:])",
    "d": "import a_library_that_nobody_has",
    "e": "import json, os, pathlib; pathlib.Path(os.environ['TRELLIS_BENCH_FIGURES']).write_text(json.dumps("
    "{'title': 'T', 'name': 'an|other', 'columns': ['ours', 'peer', 'ratio', 'target', 'met', 'MB'], "
    "'cells': ['1 s', '2 s', '2.00x', '', '[green]yes[/]', '7']}))",
    "f": "import os; os.kill(os.getpid(), 9)",
    "g": "import time; time.sleep(60)",
    "h": "from trellis.core.errors import MissingExtraError; raise MissingExtraError('x needs y; get it')",
}


def test_every_benchmark_is_run_and_summed_up(tmp_path: Path) -> None:
    """Whatever becomes of one: no data, no library, an error, a crash, no end."""
    shutil.copy(ALL, tmp_path)
    for name, code in STUBS.items():
        (tmp_path / f"{name}.py").write_text(code)
    command = [
        sys.executable,
        str(tmp_path / "_all.py"),
        "--table",
        str(tmp_path / "out" / "t.md"),
        "--quick",
    ]
    done = subprocess.run([*command, "--limit", "3"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "1.5 s --quick" in done.stdout
    summary = re.sub(r" \(\d+ s\)$", "", done.stdout.split("== summary\n")[1], flags=re.MULTILINE)
    ends = dict(line.split(maxsplit=1) for line in summary.splitlines()[:-1])
    killed = ends.pop("f.py"), ends.pop("g.py")
    assert all(end.startswith("failed with exit code") for end in killed)
    assert killed[1].endswith("stopped after 3 s")
    assert ends == {
        "a.py": "not measured: x is not there; name it by --data",
        "b.py": "failed with exit code 1: ZeroDivisionError: division by zero",
        "c.py": "measured",
        "d.py": "not measured: a_library_that_nobody_has is not installed",
        "e.py": "measured",
        "h.py": "not measured: x needs y; get it",
    }
    table = (tmp_path / "out" / "t.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in table if line.startswith("| ")][2:]
    assert [row.split(" | ")[0] for row in rows] == [f"| {name}.py" for name in "abcdefgh"]
    assert re.match(r"Minutes: 0\.\d in all; a\.py 0\.0, b\.py", table[-1])
    assert rows[4] == r"| e.py | T: an\|other (MB 7) | 1 s | 2 s | 2.00x |  | yes |"
    for name in "bfg":
        (tmp_path / f"{name}.py").unlink()
    done = subprocess.run(
        [*command, "--only", "e", "--only", "a"], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0
    assert re.findall(r"^== (\w\.py)", done.stdout, re.MULTILINE) == ["a.py", "e.py"]
    done = subprocess.run([*command, "--only", "z"], check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "there is no benchmark 'z'" in done.stderr


def test_figures_are_added_to_the_table_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ALL.parent)
    monkeypatch.delitem(sys.modules, "_common", raising=False)
    common, runner = importlib.import_module("_common"), importlib.import_module("_all")
    assert common.FIGURES == runner.FIGURES
    monkeypatch.setenv(common.FIGURES, str(tmp_path / "f"))
    figures = common.Figures("a title")
    figures.times("one pass", 0.5, 2.0, at_least=3.0)
    figures.print()
    kept = [json.loads(line) for line in (tmp_path / "f").read_text(encoding="utf-8").splitlines()]
    text = runner.table({"x.py": runner.End("measured", 1.0, kept)}, ["--quick"])
    assert text.splitlines()[-3] == "| x.py | a title: one pass | 500 ms | 2 s | 4.00x | \u2265 3x | yes |"


def test_what_takes_hours_comes_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ALL.parent)
    runner = importlib.import_module("_all")
    found = [path.stem for path in runner.in_order(ALL.parent.glob("[a-z]*.py"))]
    assert found[-len(runner.LAST) :] == list(runner.LAST)


def test_types_are_checked_wherever_there_is_code() -> None:
    """A folder of scripts that no tool reads breaks unseen when the library changes. (Tests are run.)"""
    options = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    tracked = subprocess.run(
        ["git", "ls-files", "*.py"], cwd=CHECKOUT, capture_output=True, text=True, check=False
    ).stdout.split()
    folders = {
        path.split("/")[0] for path in tracked or ["src/", "benchmarks/", "docs/", "examples/", "scripts/"]
    }
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
