"""The reference: every public name has a docstring and an example, and the examples print what they show."""

from __future__ import annotations

import doctest
import importlib.util
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch", reason="public names of trellis.neural: pip install 'trellis-learn[torch]'")

from trellis.core import registration
from trellis.objectives import OBJECTIVES

ROOT = Path(__file__).resolve().parent.parent
BUILD_SECONDS = (
    600  # an hour-glass for a machine that others use; the build itself takes less than one minute
)


def _public_api() -> ModuleType:
    spec = importlib.util.spec_from_file_location("public_api", ROOT / "docs" / "public_api.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


API = _public_api()
NAMES = {f"{module}.{name}": value for module, name, value in API.public_names()}
DOCUMENTED = {name: value for name, value in NAMES.items() if API.documented_in(value)}
# a name that several modules export is run once
RUN = {id(value): (name, value) for name, value in reversed(DOCUMENTED.items())}.values()


@pytest.fixture
def registers() -> Iterator[None]:
    """What an example registers is forgotten."""
    kept = [(register, dict(register)) for register in (OBJECTIVES, registration._RECORDS)]
    yield
    for register, before in kept:
        register.clear()
        register.update(before)


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_public_name_has_a_docstring_and_an_example(name: str) -> None:
    text = inspect.getdoc(DOCUMENTED[name]) or ""
    assert len(text.partition("Examples\n--------")[0].strip()) > 10, "it does not say what it is"
    assert ">>> " in text, "it has no example"
    own = vars(DOCUMENTED[name]).get("__doc__") if isinstance(DOCUMENTED[name], type) else text
    assert own, "its docstring is that of its base"


def test_a_section_of_parameters_has_nothing_else() -> None:
    for name, value in DOCUMENTED.items():
        text = (inspect.getdoc(value) or "").partition("Parameters\n----------\n")[2]
        lines = re.split(r"\n\n[A-Z][\w ]*\n---", text)[0].splitlines()
        prose = [line for line in lines if line and not re.match(r" |[\w*, ]+( :|$)", line)]
        assert not prose, f"{name}: prose belongs before the section: {prose}"


@pytest.mark.parametrize(("name", "value"), RUN, ids=[name for name, _ in RUN])
@pytest.mark.usefixtures("registers")
def test_examples_print_what_they_show(
    name: str, value: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # without globals of the module: an example imports what it uses, as a reader must
    example = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", {}, name, None, None)
    printed: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=printed.append)
    assert result.attempted
    assert not result.failed, "".join(printed)


def test_sections_hold_every_exported_name() -> None:
    for module, _, listed in API.SECTIONS:
        exported = getattr(importlib.import_module(module), "__all__", None)
        if exported is not None and not listed:
            assert set(exported) <= {
                name.rsplit(".", 1)[1] for name in NAMES if name.startswith(f"{module}.")
            }
    listed_pages = (ROOT / "docs/api/index.md").read_text(encoding="utf-8").split()
    for module, _, _ in API.SECTIONS:
        stars = [f"{module.rsplit('.', n)[0]}.*" for n in range(1, module.count(".") + 1)]
        assert module in listed_pages or set(stars) & set(listed_pages), module


@pytest.mark.site
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    for needed in (
        "sphinx",
        "myst_parser",
        "numpydoc",
        "pydata_sphinx_theme",
        "sphinx_design",
        "sphinx_copybutton",
        "sphinx_gallery",
    ):
        pytest.importorskip(needed)
    # every page and docstring is read and every link resolved, but nothing is drawn and no gallery is run
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "dummy"]
    command += ["-d", str(tmp_path / "doctrees"), "docs", str(tmp_path / "out")]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "GALLERY": "0"},
        capture_output=True,
        text=True,
        timeout=BUILD_SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
