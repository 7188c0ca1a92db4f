"""Pictures: the layout's promises, and files of each kind."""

from __future__ import annotations

import shutil
import sys
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from small_networks import random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.drawing.layered_layout import layered_layout
from trellis.core.errors import DataError, MissingExtraError


@pytest.fixture
def without_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)


@given(seeds)
def test_arrows_point_down_and_nodes_keep_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, int(rng.integers(1, 15)))
    n = len(net.names)
    arrows = [(p, i) for i in range(n) for p in net.parent_indices[i]]
    widths = rng.uniform(0.5, 2.0, size=n).tolist()
    layout = layered_layout(widths, arrows)
    for (tail, head), route in zip(arrows, layout.routes, strict=True):
        assert route[0] == layout.places[tail]
        assert route[-1] == layout.places[head]
        assert all(below[1] == above[1] - 1 for above, below in pairwise(route))
    for i in range(n):
        for j in range(i):
            (x1, y1), (x2, y2) = layout.places[i], layout.places[j]
            assert y1 != y2 or abs(x1 - x2) >= (widths[i] + widths[j]) / 2 + 0.4


def test_a_tree_is_drawn_without_crossings() -> None:
    arrows = [(0, 4), (0, 1), (4, 5), (1, 2), (4, 6), (1, 3)]
    x = [place[0] for place in layered_layout([1.0] * 7, arrows).places]
    assert (max(x[5], x[6]) < min(x[2], x[3])) == (x[4] < x[1])
    assert not min(x[2], x[3]) < x[5] < max(x[2], x[3])


@pytest.mark.parametrize("kind", ["png", "svg", "pdf", "dot"])
def test_each_kind_of_file_is_the_same_every_time(tmp_path: Path, kind: str) -> None:
    net = BayesianNetwork({"A": [0, 1], 'B "b"': [0, 1], "C": [0, 1]}, {"C": ["A", 'B "b"']})
    net.draw(tmp_path / f"1.{kind}", observed="C")
    net.draw(tmp_path / f"2.{kind}", observed="C")
    content = (tmp_path / f"1.{kind}").read_bytes()
    assert content == (tmp_path / f"2.{kind}").read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "dot": b"digraph"}[kind]
    assert content.startswith(start)
    if kind == "dot":
        assert b'1 [label="B \\"b\\""' in content
        assert b"1 -> 2" in content


def test_factor_graphs_too(tmp_path: Path) -> None:
    graph = FactorGraph([2, 2], [([0, 1], np.ones((2, 2))), ([0], [1, 1])])
    graph.draw(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert text.count("dir=none") == 3
    assert text.count("shape=square") == 2
    graph.draw(tmp_path / "graph.png")
    assert (tmp_path / "graph.png").stat().st_size > 1000


def test_factor_graphs_have_as_many_rows_as_steps(tmp_path: Path) -> None:
    pair = np.ones((2, 2))
    FactorGraph([2] * 3, [([0, 1], pair), ([2, 1], pair)]).draw(tmp_path / "chain.dot")
    lines = [line.split("[")[0].strip() for line in (tmp_path / "chain.dot").read_text().splitlines()]
    assert {"0 -> 3", "3 -> 1", "1 -> 4", "4 -> 2"} <= set(lines)  # from x0 to x2, by the factors 3 and 4


def test_nodes_without_arrows_fill_rows() -> None:
    places = layered_layout([1.0] * 203, [(200, 201), (201, 202)]).places
    wide = max(x for x, _ in places) - min(x for x, _ in places)
    high = max(y for _, y in places) - min(y for _, y in places)
    assert high >= 5
    assert wide < 50
    assert places[200][1] - 2 == places[201][1] - 1 == places[202][1]


@pytest.mark.parametrize(
    "name", ["WWWWWWWWWWWWMMMMMMMM", "iiiiiiiiiiiiiiiiiiii", "$\\frac{$", "two\nlines", "\\"]
)
def test_names_of_any_kind_fit_into_their_ellipses(name: str, tmp_path: Path, without_dot: None) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from trellis.bayesnet.drawing import matplotlib_drawing as picture

    BayesianNetwork({name: [0, 1]}).draw(tmp_path / "net.png")
    text = Figure(dpi=720).text(0, 0, name, fontsize=9, parse_math=False)
    FigureCanvasAgg(text.figure)
    drawn = text.get_window_extent().width / 720 / 0.85
    assert picture._width(name) == pytest.approx(drawn, abs=0.05)


def test_settings_of_the_user_change_no_picture(tmp_path: Path, without_dot: None) -> None:
    """A layout engine that is on by default would warn of axes that it cannot arrange."""
    from matplotlib import rc_context

    net = BayesianNetwork({"A": [0, 1], "B": [0, 1]}, {"B": ["A"]})
    net.draw(tmp_path / "plain.png")
    with warnings.catch_warnings(), rc_context({"figure.constrained_layout.use": True}):
        warnings.simplefilter("error")
        net.draw(tmp_path / "set.png")
    assert (tmp_path / "plain.png").read_bytes() == (tmp_path / "set.png").read_bytes()


def test_flat_lines_pass_above_the_neighbours() -> None:
    """A fan of 40: no arrow crosses the ellipse of another node of its row."""
    from trellis.bayesnet.drawing import matplotlib_drawing as picture

    size = (1.0, 0.42)
    layout = layered_layout([1.0] * 41, [(0, i) for i in range(1, 41)])
    for route in layout.routes:
        (x0, y0), (x1, y1) = picture._rim(route[0], route[1], size), picture._rim(route[1], route[0], size)
        for x, y in layout.places[1:]:
            if min(x0, x1) < x < max(x0, x1) and (x, y) != route[1]:
                at = y0 + (y1 - y0) * (x - x0) / (x1 - x0)
                assert at > y + 0.42 / 2 * 0.75


def test_other_endings_and_missing_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = BayesianNetwork({"A": [0, 1]})
    with pytest.raises(DataError, match=r"net\.gif: the file must end with one of"):
        net.draw(tmp_path / "net.gif")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match="need Graphviz"):
        net.draw(tmp_path / "net.png")
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(MissingExtraError, match="needs networkx"):
        net.to_networkx()
    assert list(tmp_path.iterdir()) == []


def test_graphviz_is_used_if_it_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "dot"
    program.write_text('#!/bin/sh\nprintf "picture %s: " "$1"; cat\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    BayesianNetwork({"A": [0, 1]}).draw(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text().startswith("picture -Tsvg: digraph {")
    program.write_text('#!/bin/sh\necho "no such font" >&2; exit 1\n')
    with pytest.raises(DataError, match="Graphviz could not draw this network: no such font"):
        BayesianNetwork({"A": [0, 1]}).draw(tmp_path / "net.svg")
