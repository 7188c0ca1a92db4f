"""The house itself: what the documents and the configuration say is true of the package."""

from __future__ import annotations

import ast
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import trellis
from trellis import objectives, registry, solvers
from trellis.core.registration import find_record, record_name
from trellis.losses.labelings import LOSSES
from trellis.objectives import OBJECTIVES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "trellis"
SOURCES = sorted(PACKAGE.rglob("*.py"))
KERNEL_FILES = [path for path in SOURCES if path.name.endswith("_kernels.py")]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]


# folders that may have more modules than others, and why
CROWDED = {
    "trellis.core": "what every room stands on: small modules with nothing in common but that",
}
MODULES_PER_FOLDER = 15
PROSE_WIDTH = 120
# a command's file has the command's name, whatever group of commands it belongs to
SAME_NAMES_ALLOWED = PACKAGE / "cli"


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def _dotted(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def _module(name: str) -> ModuleType:
    return importlib.import_module(name)


def test_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == trellis.__version__
    assert f"## {trellis.__version__} " in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("page", [*PAGES, ROOT / "benchmarks" / "README.md"], ids=_name)
def test_lines_of_prose_are_short(page: Path) -> None:
    """At most ``PROSE_WIDTH`` characters, except for tables and code."""
    text = re.sub(
        r"^```.*?^```",
        lambda block: "\n" * block[0].count("\n"),
        page.read_text(encoding="utf-8"),
        flags=re.M | re.S,
    )
    for number, line in enumerate(text.splitlines(), 1):
        table_or_code = line.startswith(("|", "    "))
        assert table_or_code or len(line) <= PROSE_WIDTH, f"{page}:{number} has {len(line)} characters"


@pytest.mark.parametrize(
    "path", [path for path in SOURCES if "= lazy_exports(" in path.read_text()], ids=_name
)
def test_lazy_names_are_there(path: Path) -> None:
    """What is imported on first use is what type checkers see, and can be imported."""
    package = _module(_dotted(path))
    for name in package.__all__:
        value = getattr(package, name)
        assert isinstance(value, ModuleType) or value.__name__ == name
    (typed,) = (node for node in ast.parse(path.read_text()).body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert sorted(alias.asname or "" for node in imports for alias in node.names) == package.__all__
    for node in imports:
        for alias in node.names:
            assert getattr(package, alias.name) is _resolve(f"{node.module}.{alias.name}")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", registry.KINDS)
def test_every_kind_of_model_file_has_its_class(name: str) -> None:
    kind = getattr(_module(registry.KINDS[name]), name)
    assert kind.__name__ == name
    assert callable(kind.to_state)
    assert callable(kind.from_state)


@pytest.mark.parametrize("name", registry.RECORDS)
def test_every_record_of_the_registry_is_found(name: str) -> None:
    record = find_record(name)
    assert record_name(record) == name
    assert record.__module__ == registry.RECORDS[name]


def test_objectives_losses_and_solvers_have_their_names() -> None:
    for name in solvers.SOLVERS:
        solver = solvers.get_solver(name)
        assert solver.name == name
        assert registry.RECORDS[f"solvers.{type(solver).__name__}"] == type(solver).__module__
    for name in OBJECTIVES:
        assert objectives.get_objective(name).name == name
    for name, loss in LOSSES.items():
        assert loss.name == name


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


def test_a_name_of_a_module_is_used_once() -> None:
    names = Counter(
        path.name for path in SOURCES if path.name != "__init__.py" and SAME_NAMES_ALLOWED not in path.parents
    )
    assert [name for name, times in names.items() if times > 1] == []


def test_folders_stay_small() -> None:
    sizes = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    crowded = {_dotted(folder) for folder, size in sizes.items() if size > MODULES_PER_FOLDER}
    assert crowded == set(CROWDED)


def test_tests_mirror_the_sources() -> None:
    for path in (ROOT / "tests").rglob("test_*.py"):
        folder = path.parent.relative_to(ROOT / "tests")
        if folder == Path("fuzz"):  # about every room
            continue
        assert (PACKAGE / folder).is_dir(), f"{_name(path)}: there is no src/trellis/{folder}"


def _resolve(dotted: str) -> Any:
    """The module, or the attribute of one, that a dotted name stands for."""
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            value: Any = _module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            value = getattr(value, part) if hasattr(value, part) else value.__annotations__[part]
        return value
    raise AttributeError(dotted)


REFERENCE = re.compile(r":(?:mod|class|func|data|meth):`~?\.?([\w.]+)`")
DOTTED = re.compile(r"(?<![\w./-])trellis(?:\.[a-zA-Z_]\w*)+")


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=_name)
def test_what_the_words_refer_to_is_there(path: Path) -> None:
    text = path.read_text()
    for name in DOTTED.findall(text):
        try:
            _resolve(name)
        except (AttributeError, KeyError):
            pytest.fail(f"{name} is mentioned, but does not exist")
    if path.suffix != ".py":
        for name in re.findall(r"`((?:\w+/)+\w+\.py)`", text):
            assert any((root / name).exists() for root in (ROOT, ROOT / "src", PACKAGE)), name
        return
    module = _module(_dotted(path))
    package = module if path.name == "__init__.py" else _module(module.__package__ or "")
    known = {**vars(package), **vars(module)}
    known |= {file.stem: file for file in path.parent.glob("*.py")}
    for owner in [value for value in vars(module).values() if isinstance(value, type)]:
        known |= {name: getattr(owner, name, None) for name in dir(owner)}
    for name in REFERENCE.findall(text):
        first = name.split(".")[0]
        assert first in known or first in sys.modules, f"{name} is mentioned, but does not exist"


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


def test_every_variable_of_the_makefile_is_set() -> None:
    """In it, by make, by the system, or in a command of its user: an empty one installs and runs nothing."""
    makefile = (ROOT / "Makefile").read_text()
    used = set(re.findall(r"\$\((\w+)\)", makefile))
    known = set(re.findall(r"^(?:export )?(\w+) *[:?]?=", makefile, re.MULTILINE))
    assert used - known == {"CURDIR", "MAKE", "MAKEFILE_LIST", "OPTIONS", "OS", "TARGETS", "TESTS"}


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)
    assert targets is not None
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert all(f"make {target} " in shown for target in targets[1].split())
