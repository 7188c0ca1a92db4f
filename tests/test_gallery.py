"""Every script of the gallery runs by itself and draws something; CONTRIBUTING.md has the rules."""

from __future__ import annotations

import ast
import re
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
GALLERY = ROOT / "examples" / "gallery"
SCRIPTS = sorted(GALLERY.rglob("*.py"))
LINES = 100
SECTIONS = sorted(path for path in GALLERY.iterdir() if path.is_dir() and path.name != "__pycache__")


def _name(path: Path) -> str:
    return path.relative_to(GALLERY).as_posix()


def _imports(tree: ast.Module) -> set[str]:
    """The libraries that a script imports."""
    names = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {name.split(".")[0] for name in names} - {"__future__"}


def _cut_off(axes: Any) -> list[str]:
    """Titles and labels of axes that are partly outside their picture."""
    room = axes.figure.bbox.padded(1)
    written = [axes.title, axes._left_title, axes._right_title, axes.xaxis.label, axes.yaxis.label]
    boxes = [(text.get_text(), text.get_window_extent()) for text in written if text.get_text()]
    return [text for text, box in boxes if not (room.contains(*box.min) and room.contains(*box.max))]


@pytest.mark.parametrize("section", SECTIONS, ids=_name)
def test_every_section_has_its_words_and_its_place(section: Path) -> None:
    assert (section / "GALLERY_HEADER.rst").exists()
    assert f'"{section.name}"' in (ROOT / "docs" / "conf.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("script", SCRIPTS, ids=_name)
def test_scripts_keep_their_form(script: Path) -> None:
    text = script.read_text(encoding="utf-8")
    assert script.parent in SECTIONS
    assert script.stem.startswith("plot_")
    assert text.count("\n") <= LINES
    title, line, _, words = (ast.get_docstring(ast.parse(text)) or "").split("\n", 3)
    assert re.fullmatch(r"=+", line)
    assert len(line) == len(title)
    assert len(words) > 80
    assert "\n# %%\n" in text


@pytest.mark.site
@pytest.mark.parametrize("script", SCRIPTS, ids=_name)
def test_scripts_draw_and_print(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for library in sorted({"matplotlib", *_imports(ast.parse(script.read_text(encoding="utf-8")))}):
        pytest.importorskip(library)
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.setattr(sys, "argv", [str(script)])
    with mpl.rc_context():
        mpl.use("Agg")
        from gallery_style import use_style

        use_style()
        try:
            runpy.run_path(str(script), run_name="__main__")
            drawn = [
                axes for number in plt.get_fignums() for axes in plt.figure(number).axes if axes.has_data()
            ]
            assert drawn, "a script ends with a picture"
            for axes in drawn:
                words = [axes.get_title(location) for location in ("left", "center", "right")]
                words += [axes.get_xlabel(), axes.get_ylabel()]
                assert any(words), "axes have a title or labels"
            for number in plt.get_fignums():
                plt.figure(number).canvas.draw()
            for axes in drawn:
                assert not _cut_off(axes), "what is written beside axes is inside the picture"
        finally:
            plt.close("all")
    assert re.search(r"\d", capsys.readouterr().out), "a script prints what it found, with a figure"
    assert not list(tmp_path.iterdir()), "a script leaves nothing behind"
