"""The house itself: what the documents and the configuration say is true of the package."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import trellis

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "src" / "trellis").rglob("*.py"))
KERNEL_FILES = [path for path in SOURCES if path.name.endswith("_kernels.py")]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == trellis.__version__
    assert f"## {trellis.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_every_public_name_is_there() -> None:
    for name in trellis.__all__:
        assert getattr(trellis, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = trellis.nothing


def test_importing_the_package_is_cheap() -> None:
    heavy = "numpy", "numba", "sklearn"
    code = f"import sys, trellis, trellis.cli.app; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_sources_keep_the_house_rules(path: Path) -> None:
    tree = ast.parse(path.read_text())
    if tree.body:
        assert ast.get_docstring(tree), "a module says what it is for"
    for node in ast.walk(tree):
        assert not isinstance(node, ast.Assert), (
            f"line {node.lineno}: user input is checked by errors, not asserts"
        )
        if isinstance(node, ast.ExceptHandler):
            assert node.type is not None, f"line {node.lineno}: a bare except"
            caught = ast.unparse(node.type)
            assert caught != "Exception", f"line {node.lineno}: a broad except"


@pytest.mark.parametrize("path", KERNEL_FILES, ids=_name)
def test_kernels_share_one_decorator(path: Path) -> None:
    text = path.read_text()
    assert "njit" not in text
    assert "parallel=True" not in text


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets is not None
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"make {target} " in shown for target in targets[1].split())
