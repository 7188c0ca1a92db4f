"""Shattering: known VC dimensions up to 6, growth functions in closed form, and the questions on the disc."""

from __future__ import annotations

import math
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError, UnsupportedError
from trellis.report.theory_figures import draw_witness
from trellis.theory import (
    Boxes,
    Discs,
    Finite,
    HalfPlanes,
    Intervals,
    Rectangles,
    Sinusoids,
    Trees,
    growth,
    labellings,
    parametrised,
    sauer_bound,
    shatters,
    vc_dimension,
)

PLANE = np.random.default_rng(0).normal(size=(7, 2))
CROSS = np.array([[0, 1], [1, 0], [0, -1], [-1, 0], [0.1, 0.2], [2.0, 2.0]])


def cube(n: int) -> np.ndarray:
    return np.array(list(product((0, 1), repeat=n)), dtype=float)


def cross(d: int) -> np.ndarray:
    return np.concatenate([np.eye(d), -np.eye(d), np.zeros((1, d))])


@pytest.mark.parametrize(
    ("family", "points", "dimension"),
    [
        (lambda points, labels: not labels.any(), np.arange(4.0), 0),
        (
            lambda points, labels: all(labels[points[:, 0] >= points[labels, 0].min(initial=9)]),
            np.arange(4.0),
            1,
        ),
        (Discs("with"), [[0, 0], [1, 0], [0, 2], [3, 3]], 1),
        (Discs("without"), [[0, 0], [1, 0], [0, 2], [3, 3]], 1),
        (Discs("either"), [[0, 0], [1, 0], [0, 2], [3, 3]], 2),
        (Discs("either"), [[1, 0], [0, 2], [3, 3]], 1),
        (Intervals(), np.arange(7.0), 2),
        (HalfPlanes(), np.arange(6.0), 2),
        (HalfPlanes(), PLANE, 3),
        (HalfPlanes(), np.column_stack([np.arange(6.0), np.arange(6.0)]), 2),  # on one line
        (HalfPlanes(), cross(3), 4),
        (HalfPlanes(), np.concatenate([np.eye(5), np.zeros((1, 5)), np.full((1, 5), 0.2)]), 6),
        (Rectangles(), CROSS, 4),
        (Boxes(), cross(3), 6),
        (Trees(0), PLANE, 1),
        (Trees(1), np.arange(6.0), 2),
        (Trees(1), cube(3), 3),  # 000, 011, 101: the attributes and their complements, and the constants
        (Trees(None), cube(2), 4),
        (Trees(2), cube(2), 4),
        (Trees(None), [[0.0], [0.0], [1.0]], 2),  # equal points cannot be told apart
        (Sinusoids(), [10.0**-i for i in range(1, 7)], 6),
        (Sinusoids(), [1, 2, 3, 4], 3),
    ],
)
def test_known_dimensions(family: Any, points: Any, dimension: int) -> None:
    found = vc_dimension(family, points)
    assert found.dimension == int(found) == dimension
    if dimension:
        assert shatters(family, found.witness_points)
    assert found.growth <= sauer_bound(dimension, len(points))


def test_unlimited_trees_are_all_boolean_functions() -> None:
    """n binary attributes: |H| = 2^(2^n), and all 2^n points are shattered."""
    for n in (1, 2, 3):
        assert growth(Trees(None), cube(n)) == growth(Trees(n), cube(n)) == 2 ** (2**n)
        assert vc_dimension(Trees(None), cube(n)).dimension == 2**n
    assert growth(Trees(2), cube(3)) < 2**8  # the parity of three attributes needs depth 3


def test_the_centre_of_the_disc() -> None:
    """With its centre a disc always holds it, without never; both kinds together can do either."""
    points = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]])
    kept = {tuple(row) for row in labellings(Discs("with"), points).tolist()}
    lost = {tuple(row) for row in labellings(Discs("without"), points).tolist()}
    assert kept == {(True, False, False), (True, True, False), (True, True, True)}
    assert lost == {(False, False, False), (False, True, False), (False, True, True)}
    both = {tuple(row) for row in labellings(Discs("either"), points).tolist()}
    assert both == kept | lost
    found = vc_dimension(Discs("either"), points)
    assert found.witness[0] == 0  # only with the centre are two points shattered


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_growth_in_closed_form(n: int) -> None:
    rng = np.random.default_rng(n)
    assert growth(Intervals(), np.arange(float(n))) == math.comb(n + 1, 2) + 1
    assert growth(HalfPlanes(), np.arange(float(n))) == 2 * n
    assert growth(HalfPlanes(), rng.normal(size=(n, 2))) == n * n - n + 2
    assert growth(Discs(), np.arange(1.0, n + 1)) == n + 1
    assert growth(Trees(1), np.arange(float(n))) == 2 * n


matrices = st.integers(1, 5).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=20)
)


@given(matrices)
def test_finite_families_against_all_subsets(rows: list[list[bool]]) -> None:
    matrix = np.array(rows)
    n = matrix.shape[1]
    largest = max(
        k
        for k in range(n + 1)
        for chosen in combinations(range(n), k)
        if len({tuple(row) for row in matrix[:, chosen].tolist()}) == 2**k
    )
    found = vc_dimension(matrix)
    assert found.dimension == largest
    assert found.growth == len({tuple(row) for row in rows}) <= sauer_bound(largest, n)
    functions = [lambda i, row=row: row[int(i)] for row in rows]
    assert vc_dimension(functions, np.arange(n)).dimension == largest
    by_predicate = vc_dimension(
        lambda p, y: (matrix[:, p[:, 0].astype(int)] == y).all(axis=1).any(), np.arange(n)
    )
    assert by_predicate.growth == found.growth


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=6), st.integers(0, 2))
def test_trees_against_enumeration(pairs: list[tuple[int, int]], depth: int) -> None:
    points = np.array(pairs, dtype=float)

    def trees(level: int) -> set[tuple[bool, ...]]:
        n = len(points)
        found = {(False,) * n, (True,) * n}
        if level:
            for j, cut in product(range(2), range(4)):
                left = points[:, j] <= cut
                for a, b in product(trees(level - 1), repeat=2):
                    found.add(tuple(np.where(left, a, b).tolist()))
        return found

    assert {tuple(row) for row in labellings(Trees(depth), points).tolist()} == trees(depth)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=4, unique=True))
def test_sinusoids_against_a_fine_grid(points: list[int]) -> None:
    found = {tuple(row) for row in labellings(Sinusoids(), points).tolist()}
    for t in np.arange(0, 2, 1 / 480):  # in units of pi; changes of sign are multiples of 1/60
        phase = np.remainder(np.round(480 * t) * np.array(points), 960)
        assert tuple((phase <= 480).tolist()) in found
    assert len(found) <= 2 ** len(points)


def test_hypotheses_do_what_they_say() -> None:
    for family in (Discs("either"), HalfPlanes(), Rectangles()):
        points = np.concatenate([PLANE[:5], np.zeros((1, 2))])
        for labels in labellings(family, points):
            chosen = family.hypothesis(points, labels)
            assert chosen is not None
            assert (chosen(points) == labels).all()


def test_half_planes_of_any_scale() -> None:
    for scale, shift in [(1e-9, 0.0), (1e9, 0.0), (1e-3, 1e5)]:
        assert growth(HalfPlanes(), scale * PLANE + shift) == 7 * 6 + 2


def test_a_parametrised_builder() -> None:
    family = parametrised(lambda a, b: lambda x: a <= x <= b, range(6), range(6))
    found = vc_dimension(family, np.arange(6.0))
    assert isinstance(family, Finite)
    assert (found.dimension, found.growth) == (2, math.comb(7, 2) + 1)


def test_the_witness_is_drawn(tmp_path: Path) -> None:
    for i, found in enumerate(
        [vc_dimension(HalfPlanes(), PLANE), vc_dimension(Intervals(), [0, 1]), vc_dimension(Trees(1), PLANE)]
    ):
        draw_witness(tmp_path / f"{i}.png", found)
        assert (tmp_path / f"{i}.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UnsupportedError, match="64 labellings are too many to draw"):
        draw_witness(tmp_path / "p.png", vc_dimension(Sinusoids(), [10.0**-i for i in range(6)]))
    with pytest.raises(UnsupportedError, match="3 dimensions cannot be drawn"):
        draw_witness(tmp_path / "p.png", vc_dimension(Boxes(), cross(3)))
    with pytest.raises(DataError, match="no point is shattered"):
        draw_witness(tmp_path / "p.png", vc_dimension(lambda p, y: not y.any(), PLANE))


def test_the_answer_in_words() -> None:
    text = str(vc_dimension(Discs("either"), [[0, 0], [1, 0], [0, 2]]))
    assert text == (
        "discs about the origin, with and without their centre: VC dimension 2 on 3 points, which are "
        "labelled in 6 ways; shattered: (0, 0), (1, 0)"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vc_dimension(Intervals()), "give the points"),
        (lambda: vc_dimension(Intervals(), []), "no points were given"),
        (lambda: vc_dimension(Intervals(), [math.nan]), "finite numbers"),
        (lambda: vc_dimension(lambda p, y: False, [1.0]), "no labelling at all"),
        (lambda: vc_dimension(np.eye(3), [5]), "columns of the matrix, 0 to 2"),
        (lambda: vc_dimension("discs", [1.0]), "a family is one of"),
        (
            lambda: growth(Trees(None), np.arange(30.0), limit=1000),
            "more than 1,000 labellings of the first 10",
        ),
        (lambda: growth(Sinusoids(), [math.pi, math.e]), "too many digits"),
        (lambda: growth(Sinusoids(), PLANE), "on the line"),
        (lambda: Discs("some"), "give 'with', 'without' or 'either'"),  # type: ignore[arg-type]
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises((DataError, UnsupportedError), match=message):
        call()


def test_half_planes_of_coordinates_of_different_sizes() -> None:
    """Three points in general position are shattered, however flat their triangle; on a line, 2 n ways."""
    assert growth(HalfPlanes(), [[0, 0], [1, 1e-9], [2, 0]]) == 8
    assert growth(HalfPlanes(), [1e-12, 2e-12, 1.0]) == 6
    assert growth(HalfPlanes(), [[0, 0], [1, 0], [2, 0]]) == 6
    assert growth(HalfPlanes(), [[0, 0.1], [1, 0.1], [2, 0.1]]) == 6


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
def test_discs_of_any_size(unit: float) -> None:
    points = unit * np.array([[0, 1], [2, 0], [3, 4], [5, 0]])
    assert growth(Discs(), points[:3]) == 4
    assert vc_dimension(Discs("either"), points).dimension == 1  # none of them is the centre


@pytest.mark.parametrize(
    ("family", "points"), [(Intervals(), [[0, 1]]), (Rectangles(), [1, 2]), (Sinusoids(), [[0, 1]])]
)
def test_families_of_the_line_and_of_the_plane(family: Any, points: Any) -> None:
    with pytest.raises(DataError, match=r"points lie (on the line|in the plane)"):
        growth(family, points)


@pytest.mark.parametrize("depth", [-1, 0.5])
def test_a_depth_is_a_whole_number(depth: Any) -> None:
    with pytest.raises(DataError, match="give a whole number of at least 0"):
        Trees(depth)


def test_points_that_are_no_numbers() -> None:
    for family in (Intervals(), np.eye(3) > 0):
        with pytest.raises(DataError, match="give a number"):
            growth(family, ["a"])
