"""Pictures: the layout's promises, and files of each kind."""

from __future__ import annotations

import shutil
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from small_networks import random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.layout import layered
from trellis.errors import DataError, MissingExtraError


@given(seeds)
def test_arrows_point_down_and_nodes_keep_apart(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, int(rng.integers(1, 15)))
    n = len(net.names)
    arrows = [(p, i) for i in range(n) for p in net.parents(i)]
    widths = rng.uniform(0.5, 2.0, size=n).tolist()
    layout = layered(widths, arrows)
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
    x = [place[0] for place in layered([1.0] * 7, arrows).places]
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


def test_other_endings_and_missing_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = BayesianNetwork({"A": [0, 1]})
    with pytest.raises(DataError, match=r"net\.gif: a picture ends with one of"):
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
