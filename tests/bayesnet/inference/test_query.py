"""The one call for inference: exact methods against enumeration, textbooks and each other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from small_networks import joint, random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet import NetworkBuilder
from trellis.bayesnet.inference import cutset_conditioning as conditioning
from trellis.bayesnet.inference.query import log_partition
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError

YES = ["yes", "no"]
EXACT = ["auto", "junction_tree", "elimination", "conditioning"]


@pytest.fixture(scope="module")
def clinic() -> BayesianNetwork:
    """The chest clinic of Lauritzen and Spiegelhalter (1988)."""
    return (
        NetworkBuilder()
        .variable("asia", YES, [0.01, 0.99])
        .variable("smoke", YES, [0.5, 0.5])
        .variable("tub", YES, {"yes": [0.05, 0.95], "no": [0.01, 0.99]}, given="asia")
        .variable("lung", YES, {"yes": [0.1, 0.9], "no": [0.01, 0.99]}, given="smoke")
        .variable("bronc", YES, {"yes": [0.6, 0.4], "no": [0.3, 0.7]}, given="smoke")
        .variable(
            "either",
            YES,
            {(t, c): [0, 1] if t == c == "no" else [1, 0] for t in YES for c in YES},
            given=["tub", "lung"],
        )
        .variable("xray", YES, {"yes": [0.98, 0.02], "no": [0.05, 0.95]}, given="either")
        .variable(
            "dysp",
            YES,
            {
                ("yes", "yes"): [0.9, 0.1],
                ("yes", "no"): [0.8, 0.2],
                ("no", "yes"): [0.7, 0.3],
                ("no", "no"): [0.1, 0.9],
            },
            given=["bronc", "either"],
        )
        .build()
    )


@pytest.mark.parametrize("method", EXACT)
def test_the_chest_clinic(clinic: BayesianNetwork, method: str) -> None:
    """Published answers: no evidence, and a patient who was in Asia and is short of breath."""
    prior = clinic.query(None, method=method)
    published = {"tub": 0.0104, "lung": 0.055, "bronc": 0.45, "either": 0.064828, "xray": 0.11029004}
    for name, value in published.items():
        assert prior[name]["yes"] == pytest.approx(value, abs=1e-8)
    seen = {"asia": "yes", "dysp": "yes"}
    assert clinic.query("lung", seen, method=method)["yes"] == pytest.approx(0.09952515, abs=1e-8)
    assert clinic.query("bronc", seen, method=method)["yes"] == pytest.approx(0.8114021, abs=1e-7)
    assert np.exp(clinic.log_probability(seen)) == pytest.approx(0.004501375, abs=1e-9)


@given(seeds, st.booleans())
def test_all_exact_methods_agree_with_enumeration(seed: int, directed: bool) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 7))
    model: BayesianNetwork | FactorGraph
    model = random_network(rng, n, zeros=True) if directed else random_graph(rng, n, 6)
    target, other, seen, *_ = [*rng.permutation(n).tolist(), 0]
    soft = {model.names[other]: rng.random(model.cardinalities[other]) + 0.1}
    whole = joint(model) * soft[model.names[other]].reshape([-1 if a == other else 1 for a in range(n)])
    evidence: dict[str, str] = {}
    if n > 2:
        support = np.flatnonzero(whole.sum(axis=tuple(a for a in range(n) if a != seen)))
        evidence = {model.names[seen]: model.states[seen][int(rng.choice(support))]}
        whole = np.take(whole, [model.variables.encode(evidence)[seen]], axis=seen)
    expected = whole.sum(axis=tuple(a for a in range(n) if a != target))
    for method in EXACT:
        found = model.query(model.names[target], evidence, likelihoods=soft, method=method)
        np.testing.assert_allclose(found.values, expected / expected.sum(), atol=1e-12)
        assert not found.approximate
    both = whole.sum(axis=tuple(a for a in range(n) if a not in (target, other)))
    both = both if target < other else both.T
    names = [model.names[target], model.names[other]]
    np.testing.assert_allclose(
        model.query(names, evidence, likelihoods=soft).values, both / both.sum(), atol=1e-12
    )
    assert log_partition(model, evidence, likelihoods=soft) == pytest.approx(np.log(whole.sum()), abs=1e-10)
    best = model.mpe(evidence, likelihoods=soft)
    assert best.log_probability == pytest.approx(np.log(whole.max()), abs=1e-10)
    assert best.log_posterior == pytest.approx(np.log(whole.max() / whole.sum()), abs=1e-10)
    codes = model.variables.encode(dict(best))
    place = tuple(0 if v == seen and evidence else codes[v] for v in range(n))
    assert whole[place] == pytest.approx(whole.max())
    for name, state in evidence.items():
        assert best[name] == state


def test_observed_targets_are_certain(clinic: BayesianNetwork) -> None:
    for method in EXACT:
        assert clinic.query("asia", {"asia": "no"}, method=method).as_dict() == {"yes": 0.0, "no": 1.0}
    pair = clinic.query(["asia", "tub"], {"asia": "yes"})
    np.testing.assert_allclose(pair.values, [[0.05, 0.95], [0, 0]])


def test_answers_have_names(clinic: BayesianNetwork) -> None:
    pair = clinic.query(["tub", "asia"])
    assert pair.targets == ("tub", "asia")
    assert pair["yes", "yes"] == pytest.approx(0.0005)
    assert pair.best == ("no", "no")
    assert sum(pair.as_dict().values()) == pytest.approx(1.0)
    with pytest.raises(KeyError, match="one state for each of tub, asia"):
        pair["yes"]
    one = clinic.query("smoke", {"lung": "yes"}, likelihoods={"tub": {"yes": 1, "no": 0.5}})
    assert str(one).splitlines() == ["P(smoke | lung=yes, tub~)", "  yes  0.909091", "  no   0.0909091"]
    assert one.best == "yes"
    best = clinic.mpe({"dysp": "yes"})
    assert str(best).startswith("asia=no, smoke=yes")
    assert len(best) == 8


def test_a_tree_is_planned_once(clinic: BayesianNetwork) -> None:
    clinic.junction_trees.clear()
    clinic.query("tub", {"xray": "yes"})
    (tree,) = clinic.junction_trees.values()
    clinic.query("lung", {"asia": "yes"})
    assert list(clinic.junction_trees.values()) == [tree]


def test_impossible_evidence_is_an_error(clinic: BayesianNetwork) -> None:
    never = {"either": "no", "tub": "yes"}
    for method in EXACT:
        with pytest.raises(InfeasibleError, match="probability zero: either=no, tub=yes"):
            clinic.query("smoke", never, method=method)
    with pytest.raises(InfeasibleError, match="either=no"):
        clinic.mpe(never)
    assert clinic.log_probability(never) == -np.inf
    nothing = FactorGraph([2], [((0,), [1.0, 0.0]), ((0,), [0.0, 1.0])])
    with pytest.raises(InfeasibleError, match="zero everywhere"):
        nothing.query("x0")


def test_the_probability_of_evidence_in_a_factor_graph() -> None:
    graph = FactorGraph([2, 3, 2], [((0, 1), [[1, 2, 3], [4, 5, 6]])])
    assert graph.log_probability({"x0": "1"}) == pytest.approx(np.log(15 / 21))
    assert log_partition(graph) == pytest.approx(np.log(2 * 21))  # x2 is in no factor: two states


def grid(side: int) -> FactorGraph:
    rng = np.random.default_rng(1)
    edges = [(r * side + c, r * side + c + 1) for r in range(side) for c in range(side - 1)]
    edges += [(r * side + c, (r + 1) * side + c) for r in range(side - 1) for c in range(side)]
    return FactorGraph([2] * side**2, [(edge, rng.random((2, 2)) + 0.1) for edge in edges])


def test_conditioning_fits_where_the_tree_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = grid(6)
    exact = graph.query(None)
    limit = graph.forecast().bytes / 2
    with pytest.raises(UnsupportedError, match=r"width .*method='conditioning'"):
        graph.query(None, memory_limit=limit)
    found = graph.query(None, memory_limit=limit, method="conditioning")
    for name, answer in found.items():
        np.testing.assert_allclose(answer.values, exact[name].values, atol=1e-12)
    with pytest.raises(UnsupportedError, match=r"no cutset|joint states"):
        graph.query(None, memory_limit=10.0, method="conditioning")
    monkeypatch.setattr(conditioning, "MAX_ASSIGNMENTS", 1)
    with pytest.raises(UnsupportedError, match="joint states"):
        graph.query(None, memory_limit=limit, method="conditioning")


def test_a_joint_state_whose_tree_is_too_large_is_parted_further(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = grid(6)
    exact = graph.query(None, {"x3": 1})
    monkeypatch.setattr(conditioning, "cutset", lambda tree, observed: [])
    limit = graph.forecast().bytes / 2
    found = graph.query(None, {"x3": 1}, memory_limit=limit, method="conditioning")
    for name, answer in found.items():
        np.testing.assert_allclose(answer.values, exact[name].values, atol=1e-12)


def test_refusal_before_running() -> None:
    graph = grid(5)
    for question in (
        lambda: graph.query("x0", memory_limit=100.0),
        lambda: graph.query(["x0", "x7"], memory_limit=100.0),
        lambda: graph.mpe(memory_limit=100.0, method="junction_tree"),
        lambda: log_partition(graph, memory_limit=100.0),
    ):
        with pytest.raises(UnsupportedError, match=r"GiB|MiB|KiB|bytes.*limit is 100 bytes"):
            question()


def test_orders_of_the_user(clinic: BayesianNetwork) -> None:
    reference = clinic.query("dysp", {"asia": "yes"})
    for order in ("min_fill", "weighted_min_fill", "min_weight", list(reversed(clinic.names))):
        for method in ("junction_tree", "elimination"):
            found = clinic.query("dysp", {"asia": "yes"}, method=method, order=order)
            np.testing.assert_allclose(found.values, reference.values, atol=1e-12)
    with pytest.raises(DataError, match="leaves out"):
        clinic.query("dysp", order=["asia"], method="elimination")
    with pytest.raises(DataError, match="leaves out"):
        clinic.query("dysp", order=["asia"], method="junction_tree")


def test_approximate_methods_are_reached_and_marked(clinic: BayesianNetwork) -> None:
    exact = clinic.query("bronc", {"smoke": "yes"})["yes"]
    for method in ("loopy", "rejection", "likelihood_weighting"):
        options = {} if method == "loopy" else {"random_state": 0, "n_samples": 20_000}
        found = clinic.query("bronc", {"smoke": "yes"}, method=method, **options)
        assert found.approximate
        assert found["yes"] == pytest.approx(exact, abs=0.03)


def test_what_is_wrong_is_named(clinic: BayesianNetwork) -> None:
    with pytest.raises(DataError, match=r"method is 'magic'; give 'auto', 'junction_tree', .* or 'gibbs'"):
        clinic.query("tub", method="magic")
    with pytest.raises(DataError, match="method='gibbs' has no option 'n_samples'; its options are n_chains"):
        clinic.query("tub", method="gibbs", n_samples=10)
    with pytest.raises(DataError, match="has no option 'burn_in'; its options are order, memory_limit"):
        clinic.mpe(burn_in=3)
    for limit in ("much", -1.0):
        with pytest.raises(DataError, match=f"memory_limit is {limit!r}; give a positive number of bytes"):
            clinic.query("tub", memory_limit=limit)
    with pytest.raises(UnsupportedError, match="elimination"):
        clinic.query(["tub", "lung"], method="junction_tree")
    with pytest.raises(DataError, match="no targets"):
        clinic.query([])
    with pytest.raises(DataError, match="'dsyp'; did you mean 'dysp'"):
        clinic.query("dsyp")
    with pytest.raises(DataError, match="no state 'maybe'"):
        clinic.query("tub", {"asia": "maybe"})
