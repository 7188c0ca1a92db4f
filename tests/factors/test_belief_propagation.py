"""Belief propagation against enumeration: exact on forests, whatever the range of the tables."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from trellis.core.logspace import log_sum_exp, softmax
from trellis.core.logspace_kernels import MAX, SUM
from trellis.factors.belief_propagation import BeliefPropagation
from trellis.factors.flat_factors import flatten, merge_nested
from trellis.factors.forest_order import forest_order
from trellis.factors.possible_states import ContradictionError
from trellis.factors.tables import Table, aligned

EXTREME = np.log(1e300)


def log_joint(sizes: list[int], tables: list[Table]) -> np.ndarray:
    """The sum of log-tables over all variables."""
    total = np.zeros(sizes)
    for table in tables:
        total = total + aligned(table, range(len(sizes)))
    return total


@st.composite
def forests(draw: st.DrawFn) -> tuple[list[int], list[Table]]:
    """Log-tables of one to four variables that make no cycle, of values from 1e-300 to 1e300, or zero."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 7))
    sizes = rng.integers(1, 4, size=n).tolist()
    reach = draw(st.sampled_from([1.0, 30.0, EXTREME]))
    zeros = draw(st.sampled_from([0.0, 0.2]))
    tables, joined = [], 1
    scopes = [(v,) for v in range(n) if rng.random() < 0.5]
    while joined < n:
        new = list(range(joined, min(joined + int(rng.integers(1, 4)), n)))
        if rng.random() < 0.9:  # otherwise another component
            new.append(int(rng.integers(joined)))
        scopes.append(tuple(rng.permutation(new).tolist()))
        joined = max(joined, *new) + 1
    for scope in scopes:
        values = rng.uniform(-reach, reach, size=[sizes[v] for v in scope])
        values[rng.random(values.shape) < zeros] = -np.inf
        tables.append(Table(scope, values))
    return sizes, tables


def propagation(sizes: list[int], tables: list[Table], mode: int) -> BeliefPropagation:
    return BeliefPropagation(flatten(sizes, tables), np.arange(len(sizes)), mode)


@given(forests())
def test_forests_are_exact(given_forest: tuple[list[int], list[Table]]) -> None:
    sizes, tables = given_forest
    whole = log_joint(sizes, tables)
    for mode in (SUM, MAX):
        messages = propagation(sizes, tables, mode)
        assert messages.is_forest
        if whole.max() == -np.inf:
            with pytest.raises(ContradictionError, match="no possible state"):
                messages.run(1, 0.0)
            continue
        status = messages.run(1, 0.0)
        assert status.converged
        assert "exact" in status.reason
        beliefs = messages.variable_beliefs()
        of_factors = messages.factor_beliefs()
        for v in range(len(sizes)):
            others = tuple(u for u in range(len(sizes)) if u != v)
            found = beliefs[messages.cells[v] : messages.cells[v + 1]]
            if mode == SUM:
                assert_allclose(np.exp(found), softmax(log_sum_exp(whole, others)), atol=1e-9)
            else:
                assert_allclose(found, whole.max(axis=others) - whole.max(), rtol=1e-10, atol=1e-9)
        for f, table in enumerate(tables):
            others = tuple(u for u in range(len(sizes)) if u not in table.variables)
            wanted = log_sum_exp(whole, others) - log_sum_exp(whole, None)
            wanted = wanted if mode == SUM else whole.max(axis=others) - whole.max()
            wanted = wanted.transpose(np.argsort(np.argsort(table.variables)))
            start, end = messages.factors.value_start[f : f + 2]
            found = of_factors[start:end].reshape(table.values.shape)
            assert_allclose(np.exp(found), np.exp(wanted), atol=1e-9)
        if mode == SUM:
            wanted = float(log_sum_exp(whole, None))
            assert messages.log_partition() == pytest.approx(wanted, rel=1e-11, abs=1e-9)


def test_two_passes_whatever_the_order_of_the_variables() -> None:
    """A chain of 3,000 variables that are numbered at random; the end of it is observed."""
    rng = np.random.default_rng(0)
    n = 3000
    name = rng.permutation(n)
    pairs = [Table((int(name[i]), int(name[i + 1])), rng.normal(size=(2, 2))) for i in range(n - 1)]
    tables = [*pairs, Table((int(name[-1]),), np.array([0.0, -np.inf]))]
    messages = propagation([2] * n, tables, SUM)
    messages.run(1, 0.0)
    assert messages.residuals == [0.0]
    backward = np.array([0.0, -np.inf])
    for table in reversed(pairs):
        backward = log_sum_exp(table.values + backward, 1)
    first = messages.cells[name[0]]
    assert_allclose(np.exp(messages.variable_beliefs()[first : first + 2]), softmax(backward), rtol=1e-9)
    assert messages.log_partition() == pytest.approx(float(log_sum_exp(backward)), rel=1e-12)


def test_cycles_are_never_called_exact() -> None:
    rng = np.random.default_rng(1)
    tables = [Table((i, (i + 1) % 4), rng.normal(size=(3, 3))) for i in range(4)]
    messages = propagation([3] * 4, tables, SUM)
    assert not messages.is_forest
    status = messages.run(1, 0.0)
    assert not status.converged
    assert status.n_iter == 1
    assert f"still change by {messages.residuals[-1]:.2g}" in status.reason
    status = messages.run(500, 1e-10, 0.3)
    assert status.converged
    assert len(messages.residuals) == status.n_iter
    beliefs = np.exp(messages.variable_beliefs()).reshape(4, 3)
    of_factors = np.exp(messages.factor_beliefs()).reshape(4, 3, 3)
    for i in range(4):  # at a fixed point beliefs agree
        assert_allclose(of_factors[i].sum(axis=1), beliefs[i], atol=1e-9)
        assert_allclose(of_factors[i].sum(axis=0), beliefs[(i + 1) % 4], atol=1e-9)


def test_contradictions_around_a_cycle_are_found() -> None:
    differ = np.log(np.array([[1e-300, 1.0], [1.0, 1e-300]]))
    differ[[0, 1], [0, 1]] = -np.inf
    tables = [Table((i, (i + 1) % 4), differ) for i in range(4)]
    known = [Table((0,), np.array([0.0, -np.inf])), Table((2,), np.array([-np.inf, 0.0]))]
    for mode in (SUM, MAX):
        with pytest.raises(ContradictionError, match="no possible state"):
            propagation([2] * 4, [*tables, *known], mode).run(100, 0.0)


def test_nested_factors_are_merged() -> None:
    tables = [Table((0, 1), np.ones((2, 2))), Table((1, 0), np.full((2, 2), 3.0)), Table((), np.array(2.0))]
    merged, log_scale = merge_nested(tables)
    assert [table.variables for table in merged] == [(0, 1)]
    assert log_scale == pytest.approx(np.log(6.0))


def test_forest_orders() -> None:
    order = forest_order(5, np.array([3, 4, 1]), np.array([1, 0, 4]))
    assert order is not None
    assert order.tolist() == [0, 2, 4, 1, 3]
    assert forest_order(3, np.array([0, 1, 2]), np.array([1, 2, 0])) is None
    assert forest_order(0, np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []  # type: ignore[union-attr]
