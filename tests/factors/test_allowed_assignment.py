"""Whether anything is possible: the search against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.factors.allowed_assignment import allowed_assignment
from trellis.factors.best_assignment import best_assignment
from trellis.factors.flat_factors import flatten
from trellis.factors.possible_states import ContradictionError
from trellis.factors.tables import Table, aligned


def random_tables(seed: int, zeros: float) -> tuple[list[int], list[Table]]:
    """Log-tables of one to three variables, finite or -inf."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    sizes = rng.integers(1, 4, size=n).tolist()
    tables = []
    for _ in range(int(rng.integers(0, 2 * n + 2))):
        scope = tuple(rng.choice(n, min(n, int(rng.integers(1, 4))), replace=False).tolist())
        values = rng.normal(size=[sizes[v] for v in scope])
        tables.append(Table(scope, np.where(rng.random(values.shape) < zeros, -np.inf, values)))
    return sizes, tables


def whole(sizes: list[int], tables: list[Table]) -> np.ndarray:
    total = np.zeros(sizes)
    for table in tables:
        total = total + aligned(table, range(len(sizes)))
    return total


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.2, 0.4, 0.6]), st.booleans())
def test_an_assignment_is_found_exactly_where_there_is_one(seed: int, zeros: float, guided: bool) -> None:
    sizes, tables = random_tables(seed, zeros)
    joint = whole(sizes, tables)
    rng = np.random.default_rng(seed)
    prefer = rng.integers(0, sizes) if guided else None
    factors = flatten(sizes, tables)
    if joint.max() == -np.inf:
        with pytest.raises(ContradictionError):
            allowed_assignment(factors, prefer)
        return
    found = allowed_assignment(factors, prefer)
    assert found is not None
    assert joint[tuple(found)] > -np.inf


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.2, 0.4]))
def test_the_bound_holds_and_exact_is_exact(seed: int, zeros: float) -> None:
    sizes, tables = random_tables(seed, zeros)
    joint = whole(sizes, tables)
    if joint.max() == -np.inf:
        with pytest.raises(ContradictionError):
            best_assignment(flatten(sizes, tables), 200, 1e-6)
        return
    found = best_assignment(flatten(sizes, tables), 200, 1e-6)
    assert joint[tuple(found.states)] == pytest.approx(found.value, abs=1e-9)
    assert found.value > -np.inf
    assert found.value <= joint.max() + 1e-9 <= found.bound + 2e-9
    if found.exact:
        assert found.value == pytest.approx(joint.max(), abs=1e-5)


def test_rings_of_odd_length_cannot_alternate() -> None:
    differ = np.where(np.eye(2) > 0, -np.inf, 0.0)
    for n in (3, 5, 51, 501):
        ring = [Table((i, (i + 1) % n), differ) for i in range(n)]
        with pytest.raises(ContradictionError):
            allowed_assignment(flatten([2] * n, ring))
        with pytest.raises(ContradictionError):
            best_assignment(flatten([2] * n, ring), 50, 1e-6)


def test_a_contradiction_in_one_component_needs_no_other_try_of_the_rest() -> None:
    """Forty components of which the last is impossible: going back into the others would take for ever."""
    differ = np.where(np.eye(3) > 0, -np.inf, 0.0)
    tables, first = [], 0
    for _ in range(40):
        tables += [Table((first + i, first + j), differ) for i in range(3) for j in range(i)]
        first += 3
    tables += [Table((first + i, first + j), differ) for i in range(4) for j in range(i)]
    with pytest.raises(ContradictionError):
        allowed_assignment(flatten([3] * (first + 4), tables))


def test_a_search_that_is_given_up_says_nothing() -> None:
    """Pigeons and holes: eleven variables that must all differ, with ten states."""
    differ = np.where(np.eye(10) > 0, -np.inf, 0.0)
    tables = [Table((i, j), differ) for i in range(11) for j in range(i)]
    factors = flatten([10] * 11, tables)
    assert allowed_assignment(factors, budget=20_000) is None
    found = best_assignment(factors, 5, 1e-6)
    assert found.value == -np.inf
    assert not found.exact
    assert "not established" in str(found.status)


def test_a_constant_zero_is_a_contradiction() -> None:
    with pytest.raises(ContradictionError, match="constant"):
        allowed_assignment(flatten([2], [Table((), np.array(-np.inf)), Table((0,), np.zeros(2))]))
    assert allowed_assignment(flatten([], [])).tolist() == []  # type: ignore[union-attr]
