"""The search on frames against enumeration, in blocks of any size and in corridors of any width."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.core.arrays import Float32Array, IntArray
from trellis.core.errors import InfeasibleError, UnsupportedError
from trellis.speech.align.search import coarse_search, frame_search
from trellis.speech.align.search.coarse_search import coarse_frame_path
from trellis.speech.align.search.frame_search import best_frame_path
from trellis.speech.align.search.lattice_moves import LatticeMoves
from trellis.speech.corpus.phone_lattice import Lattice, phone_lattice, word_lattice

WORDS = {"a": [["x", "y"], ["x"]], "b": [["z"], ["y", "z"], ["w", "x", "z"]], "c": [["y"]]}


def walks(lattice: Lattice, n_frames: int) -> list[tuple[int, ...]]:
    """Every sequence of nodes, one for each frame, from a first node to a final one."""
    ways: list[tuple[int, ...]] = [(i,) for i in lattice.first_nodes]
    for _ in range(n_frames - 1):
        ways = [
            (*way, i)
            for way in ways
            for i, before in enumerate(lattice.predecessors)
            if i == way[-1] or way[-1] in before
        ]
    return [way for way in ways if lattice.final[way[-1]]]


def fits(way: tuple[int, ...], longest: IntArray | None, shortest: int) -> bool:
    """Whether no node has more or fewer frames than it may have: a path visits each at most once."""
    return all(shortest <= way.count(i) and (longest is None or way.count(i) <= longest[i]) for i in set(way))


def total(evidence: Float32Array, codes: IntArray, path: IntArray | tuple[int, ...]) -> float:
    return float(sum(evidence[t, codes[i]] for t, i in enumerate(path)))


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=2),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([None, 1, 3]),
    st.booleans(),
    st.integers(0, 1000),
)
def test_the_best_path_of_frames(
    words: list[str], n_frames: int, block: int, shortest: int, corridor: int | None, limited: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    lattice = word_lattice(words, WORDS)
    codes = rng.integers(0, 4, lattice.n_nodes)
    evidence = rng.normal(size=(n_frames, 4)).astype(np.float32) * 3
    if seed % 3 == 0:
        evidence = np.round(evidence)  # ties
    longest = rng.integers(1, n_frames + 2, lattice.n_nodes) if limited else None
    ways = [way for way in walks(lattice, n_frames) if fits(way, longest, shortest)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_search, "BLOCK", block)
        if corridor is not None:  # repeated with wider ones until nothing is gained
            patch.setattr(frame_search, "EXACT_CELLS", 0.0)
            patch.setattr(frame_search, "CORRIDOR", corridor)
        if not ways:
            with pytest.raises(InfeasibleError, match="too short"):
                best_frame_path(lattice, codes, evidence, longest, shortest=shortest)
            return
        path = best_frame_path(lattice, codes, evidence, longest, shortest=shortest)
    assert tuple(path.tolist()) in set(ways)
    best = max(total(evidence, codes, way) for way in ways)
    found = total(evidence, codes, path)
    if corridor is not None:
        assert found <= best + 1e-5
    else:
        assert found == pytest.approx(best, abs=1e-5)


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=3),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(0, 3),
    st.integers(0, 1000),
)
def test_the_best_path_of_sums(
    words: list[str], n_sums: int, step: int, block: int, near: int, seed: int
) -> None:
    """The coarse search against enumeration; the last sum has the frames that are left, too."""
    rng = np.random.default_rng(seed)
    lattice = word_lattice(words, WORDS)
    codes = rng.integers(0, 4, lattice.n_nodes)
    n_frames = n_sums * step + int(rng.integers(0, step))
    evidence = rng.normal(size=(n_frames, 4)).astype(np.float32) * 3
    moves = LatticeMoves.of(lattice, codes, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coarse_search, "BLOCK", block)
        patch.setattr(coarse_search, "NEAR", near)
        path = coarse_frame_path(moves, evidence, step)
    lengths = np.full(n_sums, step)
    lengths[-1] += n_frames - n_sums * step
    ways = [tuple(np.repeat(way, lengths).tolist()) for way in walks(lattice, n_sums)]
    if path is None:
        assert not ways
        return
    assert tuple(path.tolist()) in set(ways)
    best = max(total(evidence, codes, way) for way in ways)
    assert total(evidence, codes, path) == pytest.approx(best, abs=1e-5)


def badly_heard(
    rng: np.random.Generator, n_words: int, limited: bool
) -> tuple[Lattice, IntArray, Float32Array, IntArray]:
    """A recording whose phones often sound like others, and whose pauses often sound like phones: paths that
    run ahead of what is said are better than the right one for long."""
    lattice = word_lattice([*rng.choice(list("abc"), n_words)], WORDS)
    codes = np.array(["wxyz".find(label) + 1 for label in lattice.labels])  # 0: silence
    chain = [i for i in range(lattice.n_nodes) if codes[i] == 0 or rng.random() < 0.7]
    sound = np.repeat(codes[chain], rng.integers(3, 12, len(chain)))
    wrong = rng.random(len(sound)) < 0.4
    sound[wrong] = rng.integers(0, 5, wrong.sum())
    evidence = np.where(np.eye(5)[sound] > 0, 2.0, -1.0) + rng.normal(size=(len(sound), 5))
    evidence[:, 1:] += rng.uniform(0.0, 1.5)  # phones are dearer than silence: they pay at once
    longest = rng.integers(8, 40, lattice.n_nodes) if limited else np.full(lattice.n_nodes, len(sound))
    longest[codes == 0] = len(sound)
    return lattice, codes, evidence.astype(np.float32), longest


@settings(max_examples=40)
@given(st.integers(30, 80), st.integers(1, 4), st.booleans(), st.integers(0, 1000))
def test_a_corridor_finds_what_an_exact_search_finds(
    n_words: int, shortest: int, limited: bool, seed: int
) -> None:
    lattice, codes, evidence, longest = badly_heard(np.random.default_rng(seed), n_words, limited)
    exact = best_frame_path(lattice, codes, evidence, longest, shortest=shortest)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_search, "EXACT_CELLS", 0.0)
        patch.setattr(frame_search, "BLOCK", 70)
        found = best_frame_path(lattice, codes, evidence, longest, shortest=shortest)
    assert total(evidence, codes, found) == pytest.approx(total(evidence, codes, exact), rel=1e-6)


def test_too_many_pronunciations_are_a_sentence() -> None:
    many = {"a": [["x", f"p{i}"] for i in range(300)], "b": [["x"]]}
    lattice = word_lattice(["a", "b"], {**many, "b": [["x"], ["y"]]}, silence=False)
    joined = Lattice(
        (*lattice.labels, "z"),
        (*lattice.predecessors, tuple(range(lattice.n_nodes))),
        np.append(lattice.final, True),
        (*lattice.word_index, 1),
        (*lattice.prior, 0.0),
        lattice.words,
    )
    codes = np.zeros(joined.n_nodes, dtype=np.int64)
    with pytest.raises(UnsupportedError, match="fewer pronunciations"):
        best_frame_path(joined, codes, np.zeros((9, 1), np.float32), source="long.wav")


def test_the_path_ends_at_the_end_though_something_else_fits_better() -> None:
    """Evidence for the first phone alone: a search with a free end would never leave it."""
    lattice = phone_lattice(["x", "y", "z"])
    evidence = np.tile(np.array([[0.0, -5.0, -5.0]], dtype=np.float32), (10, 1))
    path = best_frame_path(lattice, np.arange(3), evidence)
    assert path[-1] == 2
    assert (path == 0).sum() == 8


def test_a_phone_that_sounds_like_the_noise_does_not_sit_in_a_pause() -> None:
    """Pause and noise are told apart only by how long a phone may be."""
    lattice = phone_lattice(["x", "sil", "y"])
    evidence = np.full((100, 3), -4.0, dtype=np.float32)
    evidence[:10, 0] = evidence[90:, 2] = 0.0
    evidence[10:90] = [-1.0, -2.0, -3.0]  # x, sil, y
    free = best_frame_path(lattice, np.arange(3), evidence)
    assert (free == 0).sum() == 89
    limited = best_frame_path(lattice, np.arange(3), evidence, np.array([15, 100, 15]))
    assert [(limited == i).sum() for i in range(3)] == [15, 75, 10]
