"""Variable elimination step by step: the worked example, and the same answers as everything else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from small_networks import joint, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet import NetworkBuilder
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError
from trellis.factors.tables import Table, marginalise, ordered, product, reduce

BOTH = ["T", "F"]


@pytest.fixture(scope="module")
def seven() -> BayesianNetwork:
    """A -> B -> C <- D -> E, C -> F <- E, F -> G; random tables."""
    rng = np.random.default_rng(7)
    above = {"A": "", "B": "A", "D": "", "C": "BD", "E": "D", "F": "CE", "G": "F"}
    tables = {name: rng.dirichlet([1, 1], size=[2] * len(parents)) for name, parents in above.items()}
    return BayesianNetwork(
        dict.fromkeys(above, BOTH), {name: list(parents) for name, parents in above.items()}, tables
    )


def test_the_worked_example_in_the_order_of_the_slide(seven: BayesianNetwork) -> None:
    """P(G | A=T) = sum_B P(B|A=T) sum_D P(D) sum_C P(C|B,D) sum_E P(E|D) sum_F P(F|C,E) P(G|F)."""
    shown = seven.explain_elimination("G", {"A": "T"}, order=["F", "E", "C", "D", "B"])
    assert [str(step) for step in shown.steps] == [
        "f1(C, E, G) = sum_F P(F | C, E) P(G | F)",
        "f2(D, C, G) = sum_E P(E | D) f1(C, E, G)",
        "f3(B, D, G) = sum_C P(C | B, D) f2(D, C, G)",
        "f4(B, G) = sum_D P(D) f3(B, D, G)",
        "f5(G) = sum_B P(B | A=T) f4(B, G)",
    ]
    a, b, c, d, e, f, g = (seven.table(name) for name in "ABCDEFG")
    np.testing.assert_allclose(shown.steps[0].factor.values, np.einsum("cef,fg->ceg", f, g))
    second = np.einsum("de,cef,fg->dcg", e, f, g)
    np.testing.assert_allclose(shown.steps[1].factor.values, second)
    third = np.einsum("bdc,dcg->bdg", c, second)
    np.testing.assert_allclose(shown.steps[2].factor.values, third)
    np.testing.assert_allclose(shown.steps[3].factor.values, np.einsum("d,bdg->bg", d, third))
    last = np.einsum("b,d,bdg->g", b[0], d, third)
    np.testing.assert_allclose(shown.steps[4].factor.values, last)
    # The division that the slide leaves out: the joint is P(A=T) f5(G), and its sum is P(A=T).
    np.testing.assert_allclose(shown.joint, a[0] * last)
    assert shown.evidence_probability == pytest.approx(a[0])
    np.testing.assert_allclose(shown.posterior.values, last)


def test_it_prints_every_step(seven: BayesianNetwork) -> None:
    text = str(seven.explain_elimination("G", {"A": "T"}, order=["F", "E", "C", "D", "B"]))
    lines = text.splitlines()
    assert lines[0] == (
        "P(G, A=T) = sum_{B, D, C, E, F} P(A=T) P(B | A=T) P(D) P(C | B, D) P(E | D) P(F | C, E) P(G | F)"
    )
    assert "1. f1(C, E, G) = sum_F P(F | C, E) P(G | F)" in lines
    assert "P(G, A=T) = P(A=T) f5(G)" in lines
    assert f"divided by its sum, P(A=T) = {seven.table('A')[0]:.6g}:" in lines
    assert "P(G | A=T)" in lines
    value = seven.query("G", {"A": "T"})["F"]
    assert lines[-1] == f"  F  {value:.6g}"


def test_variables_that_cannot_matter_are_left_out(seven: BayesianNetwork) -> None:
    shown = seven.explain_elimination("C")
    assert shown.dropped == ("E", "F", "G")
    assert "left out" in str(shown)
    assert {step.variable for step in shown.steps} == {"A", "B", "D"}


def test_a_factor_graph_is_shown_too() -> None:
    graph = FactorGraph(
        [2, 2, 2], [((0, 1), [[1, 2], [3, 4]]), ((1, 2), [[1, 0], [2, 5]])], names=list("abc")
    )
    shown = graph.explain_elimination("c", {"a": "1"})
    assert [str(step) for step in shown.steps] == ["f1(c) = sum_b g0(a=1, b) g1(b, c)"]
    np.testing.assert_allclose(shown.joint, [3 * 1 + 4 * 2, 4 * 5])


@given(seeds)
def test_any_order_gives_the_posterior(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    net = random_network(rng, n)
    target, observed, *rest = rng.permutation(n).tolist()
    evidence = {net.names[observed]: net.states[observed][0]}
    order = [net.names[v] for v in rest]
    shown = net.explain_elimination(net.names[target], evidence, order=order)
    whole = joint(net)[(slice(None),) * observed + (slice(0, 1),)]
    expected = whole.sum(axis=tuple(v for v in range(n) if v != target))
    np.testing.assert_allclose(shown.joint, expected, atol=1e-14)
    np.testing.assert_allclose(shown.posterior.values, expected / expected.sum(), atol=1e-12)
    again = net.query(net.names[target], evidence, method="elimination", order=order)
    np.testing.assert_allclose(again.values, shown.posterior.values, atol=1e-12)


def test_what_is_wrong_is_named(seven: BayesianNetwork) -> None:
    with pytest.raises(DataError, match="leaves out 'C'"):
        seven.explain_elimination("G", {"A": "T"}, order=["F", "E", "D", "B"])
    with pytest.raises(DataError, match="twice"):
        seven.explain_elimination("G", {"A": "T"}, order=["F", "F", "E", "C", "D", "B"])
    with pytest.raises(DataError, match="no unobserved targets"):
        seven.explain_elimination("A", {"A": "T"})
    never = (
        NetworkBuilder()
        .variable("X", BOTH, [1, 0])
        .variable("Y", BOTH, {"T": [1, 0], "F": [0, 1]}, given="X")
    )
    with pytest.raises(InfeasibleError, match="probability zero: Y=F"):
        never.build().explain_elimination("X", {"Y": "F"})
    wide = FactorGraph([2] * 24, [((0, i), np.ones((2, 2))) for i in range(1, 24)])
    with pytest.raises(UnsupportedError, match="too many to show"):
        wide.explain_elimination("x1", order=[f"x{i}" for i in range(24) if i != 1])


# -- the algebra of factors ---------------------------------------------------------------------------------


def test_products_and_sums_by_einsum() -> None:
    rng = np.random.default_rng(0)
    f, g = Table((2, 0), rng.random((3, 2))), Table((0, 5), rng.random((2, 4)))
    whole = product(f, g)
    assert whole.variables == (2, 0, 5)
    np.testing.assert_allclose(whole.values, np.einsum("ca,af->caf", f.values, g.values))
    np.testing.assert_allclose(marginalise(whole, [0, 9]).values, f.values @ g.values)
    np.testing.assert_allclose(reduce(whole, {5: 3, 0: 1}).values, f.values[:, 1] * g.values[1, 3])
    assert reduce(f, {7: 0}) is f
    np.testing.assert_array_equal(ordered(f, (0, 2)).values, f.values.T)
    with pytest.raises(DataError, match="cannot be ordered"):
        ordered(f, (0, 1))


def test_a_product_covers_variables_that_one_factor_alone_has() -> None:
    one, two = Table((0,), np.array([1.0, 2.0])), Table((1,), np.array([3.0]))
    assert product(one, two).values.shape == (2, 1)
    assert product(Table((), np.array(2.0)), one).values.tolist() == [2.0, 4.0]
