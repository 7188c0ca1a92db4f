"""Pages with long names, many labels, long sequences and text from right to left: what is shown, and how."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from browser import BROWSER, DRIVER, MISSING, show_page
from page_checks import LOOKS, page_words
from trellis import Graph
from trellis.bayesnet import NetworkBuilder
from trellis.report.alignment_page import alignment_page
from trellis.report.label_statistics import confusion
from trellis.report.model_report import report_page
from trellis.report.pages.page_parts import heat_table, isolated, page, table
from trellis.report.pages.sections.error_articles import MOST_ITEMS, error_articles, near_errors
from trellis.report.pages.sections.graph_errors import GraphAnswers, graph_errors
from trellis.report.pages.sections.label_sections import MOST_LABELS, shown_labels
from trellis.report.pages.sections.state_sections import block_means, matrix_table
from trellis.speech.audio.recordings import Recording
from trellis.speech.formats.alignment import Alignment

in_browser = pytest.mark.skipif(BROWSER is None or DRIVER is None, reason=MISSING)

NAMES = [f"B-Location_of_the_incident_or_event_{k}" for k in range(20)]
SHORT = NetworkBuilder().variable("Rain", ["yes", "no"], [0.2, 0.8]).build()
RAIN, FLOOD = "גשם", "مطر"


def _crowded_page() -> str:
    """A wide table with cells of every shade, and a menu with long names."""
    shares = np.linspace(-1.0, 1.0, 400).reshape(20, 20).tolist()
    cells = [[(f"{share:.2f}", share) for share in row] for row in shares]
    gold, predicted = [NAMES[:2]], [NAMES[1::-1]]
    halves = [np.array([0.5, 0.5])]
    menu = error_articles(
        "sequence", gold, predicted, halves, halves, confusion(gold, predicted), lambda chosen: {0: "text"}
    )
    sections = [("a", "Table", heat_table("All", "", NAMES, NAMES, cells)), ("b", "Errors", menu)]
    return page("Crowded", "", sections, styles=["labeler.css"], scripts=["labeler.js"])


CONTRASTS = """
const full = text => (text.startsWith("color(") ? 1 : 255);
const levels = text => text.match(/[\\d.]+/g).slice(0, 3).map(x => Number(x) / full(text));
const light = text => levels(text).map(x => (x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4))
  .reduce((sum, x, i) => sum + x * [.2126, .7152, .0722][i], 0);
return [...document.querySelectorAll(".heat tbody td")].map(cell => {
  const look = getComputedStyle(cell), [a, b] = [light(look.color), light(look.backgroundColor)];
  return (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
});
"""
HEADS = (
    "return [...document.querySelectorAll('.heat thead th')].map(head => head.getBoundingClientRect().width)"
)


@in_browser
@pytest.mark.parametrize(("width", "dark"), [(390, False), (390, True), (1440, True)])
def test_long_names_fit_and_cells_are_legible(driver: Any, tmp_path: Path, width: int, dark: bool) -> None:
    show_page(driver, tmp_path / "page.html", _crowded_page(), width=width, dark=dark)
    *_, wide, room = driver.execute_script(LOOKS)
    assert wide <= room == min(width, room)
    assert min(driver.execute_script(CONTRASTS)) >= 4.5
    assert max(driver.execute_script(HEADS)) < 100  # they stand upright
    assert driver.get_log("browser") == []


def test_what_scrolls_is_no_landmark_and_no_head_is_empty() -> None:
    text = table("Two", ["", "a"], [("x", 1)]) + matrix_table("One", np.eye(2), ["x", "y"])
    assert not re.search(r"<th[^>]*>(<span>)?</", text)
    assert 'role="region"' not in text
    assert text.count('role="group"') == 2


def test_tables_say_what_they_leave_out() -> None:
    assert "One, the first 30 of 40 columns" in matrix_table("One", np.ones((2, 40)), ["x", "y"])
    assert "first" not in matrix_table("One", np.ones((2, 30)), ["x", "y"])


def test_of_many_labels_the_frequent_are_shown_in_their_order() -> None:
    names = [f"{kind}-{k:02}" for kind in "BI" for k in range(20)]
    frequent = [name for pair in zip(names[:20], names[20:], strict=True) for name in pair]
    shown = [names[i] for i in shown_labels(names, frequent)]
    assert shown == sorted(frequent[:MOST_LABELS])
    assert shown_labels(names[:MOST_LABELS], []) == list(range(MOST_LABELS))


def test_a_long_sequence_shows_each_frequent_confusion() -> None:
    gold = ["a"] * 1000
    predicted = ["b" if t % 3 == 0 and t < 900 else "a" for t in range(1000)]
    predicted[990] = "c"
    shown = near_errors(gold, predicted, confusion([gold], [predicted]))
    assert shown == sorted(set(shown))
    assert len(shown) <= MOST_ITEMS
    assert {0, 988, 989, 990, 991, 992} <= set(shown)
    assert near_errors(gold[:60], predicted[:60], confusion([gold], [predicted])) == list(range(60))


def test_a_large_graph_says_how_many_errors_it_leaves_out() -> None:
    n = 100
    graph = Graph.tree([-1, *range(n - 1)], np.zeros((n, 1)))
    halves = np.full((n, 2), 0.5)
    answers = GraphAnswers([graph], [["a"] * n], [["b"] * n], [halves], ["a", "b"])
    text = graph_errors(answers, [halves[:, 1]], confusion(answers.gold, answers.predicted))
    assert "48 more nodes, 48 of them wrong" in page_words(text)
    assert "Not shown: 40 more nodes, 40 of them wrong." in page_words(text)


def test_of_a_graph_what_is_near_errors_is_seen_at_once_and_the_rest_unfolds() -> None:
    n = 40
    graph = Graph.tree([-1, *range(n - 1)], np.zeros((n, 1)))
    halves = np.full((n, 2), 0.5)
    gold, predicted = ["a"] * n, ["a"] * n
    predicted[30], gold[35] = "b", None  # a wrong node, and one whose label is not known
    answers = GraphAnswers([graph], [gold], [predicted], [halves], ["a", "b"])
    known = [row[0] for row in (answers.of_known([gold]), answers.of_known([predicted]))]
    pairs = confusion([known[0]], [known[1]])
    seen, _, folded = graph_errors(answers, [halves[1:, 0]], pairs).partition("<details>")
    nodes = [[int(t) for t in re.findall(r">node (\d+)<", part)] for part in (seen, folded)]
    assert nodes[0] == [*range(9), 29, 30, 31]
    assert sorted(nodes[0] + nodes[1]) == list(range(n))
    assert "28 more nodes, right" in folded


def test_of_a_graph_each_frequent_confusion_is_seen_at_once() -> None:
    n = 50
    graph = Graph.tree([-1, *range(n - 1)], np.zeros((n, 1)))
    predicted = ["b"] * n
    predicted[45] = "c"
    answers = GraphAnswers([graph], [["a"] * n], [predicted], [np.full((n, 3), 1 / 3)], ["a", "b", "c"])
    text = graph_errors(answers, [np.full(n, 1 / 3)], confusion(answers.gold, answers.predicted))
    assert ">node 45<" in text.partition("<details>")[0]


def test_means_over_blocks_are_those_of_their_steps() -> None:
    values = np.random.default_rng(0).random((1003, 2))
    means, every = block_means(values, 400)
    assert every == 3
    expected = [values[first : first + 3].mean(axis=0) for first in range(0, 1003, 3)]
    np.testing.assert_allclose(means, expected)


def test_only_names_from_right_to_left_are_isolated() -> None:
    assert isolated("Rain <b>") == "Rain <b>"
    assert isolated(RAIN) == f"\u2068{RAIN}\u2069"
    assert isolated(f"B-{FLOOD}") == f"\u2068B-{FLOOD}\u2069"


PLACES = """
const text = document.querySelector("#paths b").firstChild, range = document.createRange();
return arguments[0].map(part => {
  const at = text.data.indexOf(part);
  range.setStart(text, at); range.setEnd(text, at + part.length);
  return range.getBoundingClientRect().left;
});
"""


@in_browser
def test_paths_between_names_from_right_to_left_read_from_left_to_right(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.support.select import Select

    alone = "An exceptionally long name of a variable, as tools export them"
    net = (
        NetworkBuilder()
        .variable(alone, ["yes", "no"], [0.5, 0.5])
        .variable(RAIN, ["yes", "no"], [0.2, 0.8])
        .variable(FLOOD, ["כן", "no"], [[0.9, 0.1], [0.2, 0.8]], given=RAIN)
        .build()
    )
    show_page(driver, tmp_path / "net.html", report_page(net), width=390)
    *_, wide, room = driver.execute_script(LOOKS)
    assert wide <= room  # the menus have long names
    show_page(driver, tmp_path / "short.html", report_page(SHORT))
    assert driver.find_element("id", "x").rect["width"] < 120  # and one of short names is no wider than they
    show_page(driver, tmp_path / "net.html", report_page(net), width=390)
    assert driver.find_element("css selector", ".node h3[title]").get_attribute("title") == alone
    seen = "const a = nodes[1].getBoundingClientRect(), b = board.getBoundingClientRect();"
    assert driver.execute_script(f"{seen} return b.left < a.left && a.right < b.right")
    Select(driver.find_element("id", "x")).select_by_value("1")
    Select(driver.find_element("id", "y")).select_by_value("2")
    first, arrow, second = driver.execute_script(PLACES, [RAIN, "->", FLOOD])
    assert first < arrow < second
    assert driver.get_log("browser") == []


@in_browser
def test_a_phone_that_is_pressed_keeps_the_focus(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    recording = Recording(np.sin(np.arange(16000) / 5.0), 16000)
    text = alignment_page(recording, Alignment.from_starts([0.0, 0.4], ["a", "b"], 1.0), title="t")
    show_page(driver, tmp_path / "page.html", text)
    driver.find_element("css selector", "[data-start='0.4']").send_keys(Keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("data-start") == "0.4"
    frame = f'<iframe style="width:0" srcdoc="{escape(text)}"></iframe>'
    show_page(driver, tmp_path / "frame.html", f"<!DOCTYPE html><title>f</title>{frame}")
    assert driver.get_log("browser") == []  # a frame without width draws nothing, and breaks nothing
