"""What notebooks show: well-formed, escaped, with what it should contain, and scikit-learn not imported."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from trellis import BayesianNetwork, Graph, SequenceLabeler
from trellis.core.notebook import history_curve
from trellis.speech.formats.alignment import Alignment

SVG = "{http://www.w3.org/2000/svg}"
NASTY = "<script>&\"'"


class Opened(HTMLParser):
    """The tags of a page, which must all be closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag not in ("input", "meta", "br", "img", "link"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(html: str) -> ET.Element:
    return ET.fromstring(html)


def test_a_fitted_estimator_shows_its_status_and_its_history() -> None:
    model = SequenceLabeler(max_iter=4, verbose=False)
    assert "<svg" not in model._repr_html_()
    html = model.fit([["a", "b"]] * 4, [["A", "B"]] * 4)._repr_html_()
    page = Opened(html)
    assert not page.open
    assert str(model.status_) in html
    assert re.search(r"<p>fit took [\d.]+ (µs|ms|s): encoding", html)
    assert "objective: from" in html
    assert "seconds" not in html.split(str(model.status_))[1]


def test_without_scikit_learn_the_parameters_stand_there() -> None:
    code = (
        "import sys\nfrom trellis import SequenceLabeler\n"
        "print(SequenceLabeler(solver='<lbfgs>')._repr_html_())\nassert 'sklearn' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert parsed(done.stdout).find("pre").text == "SequenceLabeler(solver='<lbfgs>')"  # type: ignore[union-attr]


@settings(max_examples=30)
@given(st.lists(st.floats(), max_size=6))
@example([-1.7e308, 1.7e308, float("inf")])
@example([5e-324, 0.0])
def test_a_curve_has_a_point_for_each_finite_number(values: list[float]) -> None:
    drawn = history_curve(NASTY, values)
    finite = [v for v in values if np.isfinite(v)]
    if len(finite) < 2:
        assert drawn == ""
        return
    line = parsed(drawn).find(f"{SVG}polyline")
    assert line is not None
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    assert len(points) == len(finite)
    assert all(0 <= x <= 150 and 0 <= y <= 64 for x, y in points)
    heights = np.array([y for _, y in points])
    assert heights[np.argmax(finite)] == heights.min()  # larger numbers lie higher


def test_networks_alignments_and_graphs_draw_themselves() -> None:
    states = {NASTY: ["a", "b"], "B": ["a", "b"], "C": ["a", "b"]}
    network = BayesianNetwork(states, {"C": [NASTY, "B"]}, "uniform")
    page = parsed(network._repr_html_())
    assert len(page.findall(f".//{SVG}ellipse")) == 3
    heads = [one.attrib["points"].split() for one in page.iter(f"{SVG}polygon")]
    assert len(heads) == 2
    for head in heads:
        (ax, ay), (bx, by), (cx, cy) = (map(float, corner.split(",")) for corner in head)
        assert abs((bx - ax) * (cy - ay) - (by - ay) * (cx - ax)) == pytest.approx(42.0, rel=0.1)
    assert {one.text for one in page.iter(f"{SVG}text")} == set(states)
    alignment = Alignment.from_starts([0.0, 0.1, 0.4], ["a", NASTY, "b"], 0.6, source="x.wav")
    page = parsed(alignment._repr_html_())
    boxes = page.findall(f".//{SVG}rect")
    assert len(boxes) == 3
    widths = [float(box.attrib["width"]) for box in boxes]
    assert widths == pytest.approx([50.0, 150.0, 100.0])
    assert NASTY in "".join(page.itertext())
    graph = Graph.grid(np.zeros((2, 3, 1)))
    page = parsed(graph._repr_html_())
    assert len(page.findall(f".//{SVG}circle")) == 6
    assert len(page.findall(f".//{SVG}polyline")) == len(graph.edges)
    ring = parsed(Graph(np.zeros((3, 1)), [[0, 1], [1, 2]])._repr_html_())
    assert len(ring.findall(f".//{SVG}polyline")) == 2
    large = Graph(np.zeros((500, 1)))
    assert parsed(large._repr_html_()).find(f".//{SVG}svg") is None
    assert "500 nodes" in large._repr_html_()
