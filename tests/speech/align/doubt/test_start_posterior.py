"""Posteriors of starts over every path of a lattice, against enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.speech.align.doubt.start_posterior import share_within, start_posterior
from trellis.speech.corpus.phone_lattice import Lattice, phone_lattice, word_lattice
from trellis.structures.segments.scores.segment_graph import BEGIN, SegmentGraph, SegmentPath
from trellis.structures.segments.scores.segment_scores import SegmentScores

TWO_WAYS = {"x": [["a", "b"], ["a", "c", "b"]], "y": [["b"], ["b", "b"]]}
LATTICES = {
    "silence at the ends": phone_lattice(["a", "b"], True),
    "one phone": phone_lattice(["a"], True),
    "chain": phone_lattice(["sil", "a", "a", "sil"]),
    "pronunciations": word_lattice(["x", "y"], TWO_WAYS),
}


def node_sequences(lattice: Lattice) -> Iterator[list[int]]:
    def follow(path: list[int]) -> Iterator[list[int]]:
        here = path[-1] if path else BEGIN
        if path and lattice.final[here]:
            yield path
        for i, before in enumerate(lattice.predecessors):
            if here in before and (path or BEGIN in before):
                yield from follow([*path, i])

    return follow([])


def every_path(lattice: Lattice, n_frames: int) -> Iterator[SegmentPath]:
    for nodes in node_sequences(lattice):
        for cut in combinations(range(1, n_frames), len(nodes) - 1):
            yield SegmentPath(np.array(nodes), np.array([0, *cut]), n_frames)


def random_scores(lattice: Lattice, n_frames: int, seed: int, forbid: bool) -> SegmentScores:
    rng, n = np.random.default_rng(seed), lattice.n_nodes
    graph = SegmentGraph.of(
        np.ones(n, np.int64), np.full(n, n_frames), lattice.predecessors, lattice.final, np.ones(n)
    )
    boundary = 2.0 * rng.normal(size=(n, n_frames + 1))
    if forbid:
        boundary[rng.random(boundary.shape) < 0.1] = -np.inf
        boundary[:, 0] = 0.0
    prefix = np.cumsum(np.c_[np.zeros(n), rng.normal(size=(n, n_frames))], axis=1)
    return SegmentScores.of(graph, prefix, boundary, rng.normal(size=(n, n_frames + 1)))


@given(st.sampled_from(sorted(LATTICES)), st.integers(5, 7), st.integers(0, 10**6), st.booleans(), st.data())
def test_the_posterior_is_the_mass_of_all_paths_on_which_the_phone_starts_there(
    name: str, n_frames: int, seed: int, forbid: bool, data: st.DataObject
) -> None:
    lattice = LATTICES[name]
    scores = random_scores(lattice, n_frames, seed, forbid)
    paths = list(every_path(lattice, n_frames))
    mass = np.exp([scores.of_path(path) for path in paths])
    if not mass.any():
        return
    answer = data.draw(st.sampled_from(paths))
    expected = np.zeros((len(answer.nodes), n_frames + 1))
    for path, weight in zip(paths, mass / mass.sum(), strict=True):
        for node, start in zip(path.nodes, path.starts, strict=True):
            same = lattice.occurrences[answer.nodes] == lattice.occurrences[node]
            expected[same, start] += weight
    found = start_posterior(scores, lattice.occurrences, answer.nodes)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (found.sum(axis=1) <= 1.0 + 1e-9).all()


@pytest.mark.parametrize("name", sorted(LATTICES))
def test_no_path_meets_the_same_phone_twice(name: str) -> None:
    lattice = LATTICES[name]
    for nodes in node_sequences(lattice):
        met = lattice.occurrences[nodes].tolist()
        assert len(set(met)) == len(met)


def test_a_phone_is_the_same_after_silence_and_in_another_pronunciation() -> None:
    lattice = LATTICES["pronunciations"]
    phones: dict[int, set[tuple[str, int]]] = {}
    for i, number in enumerate(lattice.occurrences.tolist()):
        phones.setdefault(number, set()).add((lattice.labels[i], lattice.word_index[i]))
    assert all(len(kinds) == 1 for kinds in phones.values())
    # three silences; a, b and c of the first word; two b of the second
    assert len(phones) == 8


def test_a_silence_left_out_makes_the_first_start_as_doubtful_as_the_silence() -> None:
    lattice = phone_lattice(["a"], True)
    n = 9
    scores = random_scores(lattice, n, 4, False)
    first = next(
        i for i, before in enumerate(lattice.predecessors) if BEGIN in before and lattice.labels[i] == "a"
    )
    paths = list(every_path(lattice, n))
    mass = np.exp([scores.of_path(path) for path in paths])
    without = sum(m for path, m in zip(paths, mass, strict=True) if path.nodes[0] == first) / mass.sum()
    posterior = start_posterior(scores, lattice.occurrences, np.array([first]))
    assert share_within(posterior, np.array([0.0]), 0.5)[0] == pytest.approx(without)
    assert 0.01 < without < 0.99


@given(st.integers(0, 10**6), st.floats(0.0, 11.0), st.floats(0.1, 5.0))
def test_the_share_is_the_part_of_the_histogram_within_the_tolerance(
    seed: int, answer: float, tolerance: float
) -> None:
    q = np.random.default_rng(seed).dirichlet(np.ones(12))
    q[0] = 0.0
    times = (np.arange(120_00) + 0.5) / 1000.0 - 0.5  # fine steps through all frames
    inside = np.abs(times - answer) <= tolerance
    expected = np.sum(q[np.rint(times).astype(int)] * inside) / 1000.0
    assert share_within(q[None], np.array([answer]), tolerance)[0] == pytest.approx(expected, abs=2e-3)


def test_without_tolerance_the_nearest_frame_counts() -> None:
    q = np.array([[0.0, 0.25, 0.5, 0.25]])
    assert share_within(q, np.array([1.9]), 0.0)[0] == 0.5
    assert share_within(np.array([[0.7, 0.3]]), np.array([0.4]), 0.5)[0] == pytest.approx(0.7 + 0.3 * 0.4)
