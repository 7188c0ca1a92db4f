"""Graphs in files: what is written is read again, and damage is one sentence."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis import Graph
from trellis.core.errors import DataError
from trellis.structures.graph import read_graphs, write_graphs


@st.composite
def graphs_with_labels(draw: st.DrawFn) -> tuple[list[Graph], list[np.ndarray]]:
    """Any graphs of two node and three edge features: images, no edges, a single node."""
    graphs, labels = [], []
    text = draw(st.booleans())
    for _ in range(draw(st.integers(1, 4))):
        rng = np.random.default_rng(draw(st.integers(0, 1000)))
        if draw(st.booleans()):
            pixels = rng.normal(size=(draw(st.integers(1, 3)), draw(st.integers(1, 4)), 2))
            graph = Graph.grid(pixels, edge_features="difference")
        else:
            n = draw(st.integers(1, 5))
            pairs = np.argwhere(np.triu(rng.random((n, n)) < 0.5, 1))
            types = rng.integers(0, 3, len(pairs))
            graph = Graph(rng.normal(size=(n, 2)), pairs, rng.normal(size=(len(pairs), 3)), types)
        codes = rng.integers(-2, 3, graph.n_nodes)
        own = codes.astype(str) if text else codes
        graphs.append(graph)
        labels.append(own if graph.shape is None else own.reshape(graph.shape))
    return graphs, labels


@given(graphs_with_labels())
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, content: tuple) -> None:  # type: ignore[type-arg]
    graphs, labels = content
    path = tmp_path_factory.mktemp("graphs") / "some.npz"
    write_graphs(path, graphs, labels)
    found, known = read_graphs(path)
    assert known is not None
    assert len(found) == len(graphs)
    for a, b, ours, theirs in zip(graphs, found, labels, known, strict=True):
        assert a.shape == b.shape
        for name in ("nodes", "edges", "edge_types"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        if len(a.edges):
            np.testing.assert_array_equal(a.edge_features, b.edge_features)
        assert theirs.tolist() == ours.tolist()


def test_several_files_and_files_without_labels(tmp_path: Path) -> None:
    np.savez(tmp_path / "1.npz", nodes=np.ones((2, 1)), edges=[[0, 1]], labels=[0, 1])
    np.savez(tmp_path / "2.npz", nodes=np.ones((1, 1)))
    graphs, labels = read_graphs(tmp_path)
    assert [graph.n_nodes for graph in graphs] == [2, 1]
    assert labels is None
    assert read_graphs(tmp_path / "1.npz")[1][0].tolist() == [0, 1]  # type: ignore[index]


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    nodes = np.ones((3, 1))
    for arrays, message in (
        ({"X": nodes}, "there is no array nodes"),
        ({"nodes": nodes, "node_counts": [1, 1]}, "add up to 2, but nodes has 3 rows"),
        ({"nodes": nodes, "node_counts": [1, 2]}, "a row for each graph"),
        ({"nodes": nodes, "node_counts": [-1, 4], "edge_counts": [0, 0]}, "some.npz"),
        ({"nodes": nodes, "edges": [[0, 9]]}, "some.npz: graph 0"),
        ({"nodes": nodes, "shapes": [[2, 2]]}, "does not have 3 pixels"),
        ({"nodes": nodes, "labels": [0, 1]}, "add up to 3, but labels has 2 rows"),
    ):
        np.savez(tmp_path / "some.npz", **arrays)
        with pytest.raises(DataError, match=message):
            read_graphs(tmp_path / "some.npz")
    graph = Graph(nodes)
    for labels in ([[0, 1]], [[None, 0, 1]], [["a", "b", "c"], ["a"]]):
        with pytest.raises(DataError, match="one for each node"):
            write_graphs(tmp_path / "new.npz", [graph], labels)
    with pytest.raises(DataError, match="no graphs to write"):
        write_graphs(tmp_path / "new.npz", [])
    assert not (tmp_path / "new.npz").exists()


def test_damaged_files_are_one_sentence(tmp_path: Path) -> None:
    write_graphs(tmp_path / "whole.npz", [Graph.grid(np.ones((2, 3)))], [np.zeros((2, 3), int)])
    content, rng = (tmp_path / "whole.npz").read_bytes(), np.random.default_rng(0)
    for _ in range(1000):
        damaged = bytearray(content)
        damaged[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        if rng.random() < 0.3:
            damaged = damaged[: int(rng.integers(len(content)))]
        (tmp_path / "damaged.npz").write_bytes(damaged)
        with contextlib.suppress(DataError):  # any other error is a defect
            read_graphs(tmp_path / "damaged.npz")
