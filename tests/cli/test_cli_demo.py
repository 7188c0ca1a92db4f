"""``trellis demo`` in its small form: every chapter is told, and the page needs no other file."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

from trellis.cli.app import app
from trellis.cli.demo import diagnosis, heart_monitor, recording
from trellis.cli.demo.heart_monitor import ARRHYTHMIA, MISS, NORMAL, costs, record
from trellis.cli.demo.story import QUICK, Picture


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("demo")
    done = CliRunner().invoke(app, ["demo", "--quick", "--jobs", "1", "-o", str(folder)])
    assert done.exit_code == 0, done.output
    return done.output, folder


def test_the_story_has_its_chapters_and_names_the_page(told: tuple[str, Path]) -> None:
    text, folder = told
    for number, words in enumerate(("heart monitor", "night's sleep", "two causes", "aligned"), 1):
        assert re.search(rf"^{number}\. .*{words}", text, re.MULTILINE)
    assert "index.html" in text
    assert (folder / "index.html").is_file()
    assert (folder / "alignment.html").is_file()


def test_the_page_needs_nothing_else(told: tuple[str, Path]) -> None:
    page = (told[1] / "index.html").read_text("utf-8")
    sources = re.findall(r'(?:src|href)="([^"]*)"', page)
    loaded = [s for s in re.findall(r'src="([^"]*)"', page) if not s.startswith("data:")]
    assert loaded == []
    assert set(sources) - set(loaded) >= {"alignment.html", "#c1", "#c4"}
    assert "prefers-color-scheme: dark" in page
    pictures = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(pictures) == 7
    for picture in pictures:
        ET.fromstring(picture)  # well formed
        assert "nan" not in picture


def test_costs_are_those_that_the_story_tells() -> None:
    gold = [ARRHYTHMIA, NORMAL, NORMAL]
    loss = heart_monitor.measure_losses([gold], [[NORMAL, ARRHYTHMIA, NORMAL]], costs())
    assert loss.value == MISS + 1.0


def test_artefacts_are_as_many_as_the_title_says() -> None:
    readings = [abs(x).max(axis=1) for x in record(400, 3, heart_monitor.ARTEFACTS).X]
    far = sum((r > 5.0).sum() for r in readings) / sum(len(r) for r in readings)
    # of a pair of normal variables with a deviation of 12, one is beyond 5 in 90 % of the cases
    assert far == pytest.approx(0.9 * heart_monitor.ARTEFACTS, abs=0.01)


def test_the_answers_of_the_network_are_right() -> None:
    """By Bayes' rule on the two diseases."""
    rows = diagnosis.tell().parts[1].rows  # type: ignore[union-attr]
    cancer, tuberculosis = 0.5 * 0.1 + 0.5 * 0.01, 0.01 * 0.05 + 0.99 * 0.01
    either = 1 - (1 - cancer) * (1 - tuberculosis)
    shadow = 0.98 * either + 0.05 * (1 - either)
    assert float(rows[0][1]) == pytest.approx(100 * cancer, abs=0.051)
    assert float(rows[1][1]) == pytest.approx(100 * 0.98 * cancer / shadow, abs=0.051)
    assert float(rows[3][1]) == pytest.approx(10.0, abs=0.051)  # tuberculosis explains it: a smoker's chance


def test_without_sound_the_chapter_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(recording, "find_spec", lambda name: None)
    chapter = recording.tell(QUICK, tmp_path)
    assert "trellis-learn[speech]" in str(chapter.parts[0])
    assert not any(isinstance(part, Picture) for part in chapter.parts)


def test_tables_and_pictures_of_the_page_scroll_by_keyboard(told: tuple[str, Path]) -> None:
    page = (told[1] / "index.html").read_text("utf-8")
    assert page.count("<table") == page.count('<div class="scroll" tabindex="0" role="group"') > 0
    assert page.count("<figure") == page.count('<figure tabindex="0">') > 0
    assert not re.search(r"<th[^>]*></th>|<th>", page)
