"""Samplers against exact answers at fixed seeds: chi-square tests, error bars that hold, honest reports."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from small_networks import joint, random_graph, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.inference.estimates import split_r_hat
from trellis.bayesnet.inference.query import ApproximationWarning
from trellis.bayesnet.inference.sampling import gibbs_blocks
from trellis.bayesnet.inference.sampling.forward_sampling import sample_codes
from trellis.bayesnet.inference.sampling.gibbs import BATCHES
from trellis.bayesnet.inference.sampling.uniform_kernels import uniform
from trellis.core.errors import DataError, InfeasibleError, UnsupportedError

SPRINKLER = BayesianNetwork(
    {"Rain": ["yes", "no"], "Sprinkler": ["on", "off"], "Wet": ["yes", "no"]},
    {"Sprinkler": ["Rain"], "Wet": ["Sprinkler", "Rain"]},
    {
        "Rain": [0.2, 0.8],
        "Sprinkler": [[0.01, 0.99], [0.4, 0.6]],
        "Wet": [[[0.99, 0.01], [0.9, 0.1]], [[0.8, 0.2], [0.05, 0.95]]],
    },
)

Model = BayesianNetwork | FactorGraph


def rejection(model: Model, targets: Any = None, evidence: Any = None, **options: Any) -> Any:
    return model.query(targets, evidence, method="rejection", **options)


def likelihood_weighting(model: Model, targets: Any = None, evidence: Any = None, **options: Any) -> Any:
    return model.query(targets, evidence, method="likelihood_weighting", **options)


def gibbs(model: Model, targets: Any = None, evidence: Any = None, **options: Any) -> Any:
    return model.query(targets, evidence, method="gibbs", **options)


def exact(model: BayesianNetwork | FactorGraph, targets: list[int], evidence: dict[int, int]) -> tuple:
    """P(targets | evidence), with the axes in the order of the targets, and P(evidence)."""
    table = joint(model)
    mask = np.zeros(table.shape)
    mask[tuple(evidence.get(i, slice(None)) for i in range(table.ndim))] = 1.0
    table = table * mask
    kept = table.sum(axis=tuple(i for i in range(table.ndim) if i not in targets))
    order = sorted(targets)
    return kept.transpose([order.index(t) for t in targets]) / table.sum(), table.sum()


def named(model: BayesianNetwork | FactorGraph, evidence: dict[int, int]) -> dict[str, str]:
    return model.variables.decode(evidence)


def possible_evidence(model: BayesianNetwork, rng: np.random.Generator, n: int) -> dict[int, int]:
    """States of some variables that can happen together, and not too rarely."""
    row = sample_codes(model, 1, rng)[0]
    return {int(i): int(row[i]) for i in rng.choice(len(row), n, replace=False)}


# -- random numbers and forward samples ---------------------------------------------------------------------


def test_uniform_numbers_are_those_of_splitmix64() -> None:
    mask = 2**64 - 1

    def reference(key: int, counter: int) -> float:
        z = (key + (counter + 1) * 0x9E3779B97F4A7C15) & mask
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) / 2**53

    for key, counter in [(0, 0), (12345, 7), (2**63 - 1, 2**40), (2**64 - 1, 2**62)]:
        assert uniform(np.uint64(key), counter) == reference(key, counter)
    draws = [uniform(np.uint64(99), i) for i in range(20_000)]
    assert stats.kstest(draws, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("seed", range(4))
def test_rows_have_the_joint_distribution(seed: int) -> None:
    network = random_network(np.random.default_rng(seed), 5, zeros=seed % 2 == 1)
    expected = joint(network).ravel()
    codes = sample_codes(network, 40_000, random_state=seed)
    cells = np.ravel_multi_index(tuple(codes.T), tuple(network.cardinalities))
    observed = np.bincount(cells, minlength=expected.size)
    assert not observed[expected == 0].any()  # nothing impossible is ever drawn
    common = expected * len(codes) >= 5
    observed = np.append(observed[common], observed[~common].sum())
    expected = np.append(expected[common], expected[~common].sum()) * len(codes)
    keep = expected > 0
    assert stats.chisquare(observed[keep], expected[keep] * observed.sum() / expected.sum()).pvalue > 1e-3


def test_threads_and_lengths_do_not_change_the_rows() -> None:
    network = random_network(np.random.default_rng(3), 6)
    rows = sample_codes(network, 70_000, random_state=5)
    np.testing.assert_array_equal(rows, sample_codes(network, 70_000, random_state=5, n_jobs=3))
    np.testing.assert_array_equal(rows[:3000], sample_codes(network, 3000, random_state=5))
    assert sample_codes(network, 0).shape == (0, 6)


def test_rows_given_evidence() -> None:
    rows = SPRINKLER.sample(40_000, evidence={"Wet": "yes"}, random_state=1, output="codes")
    assert rows.shape == (40_000, 3)
    assert not rows[:, 2].any()
    truth, _ = exact(SPRINKLER, [0, 1], {2: 0})
    cells = np.bincount(2 * rows[:, 0] + rows[:, 1], minlength=4)
    assert stats.chisquare(cells, 40_000 * truth.ravel()).pvalue > 1e-3
    threads = SPRINKLER.sample(40_000, evidence={"Wet": "yes"}, random_state=1, output="codes", n_jobs=3)
    np.testing.assert_array_equal(rows, threads)
    fewer = SPRINKLER.sample(777, evidence={"Wet": "yes"}, random_state=1, output="codes")
    np.testing.assert_array_equal(rows[:777], fewer)


def test_rows_given_rare_evidence() -> None:
    rare = BayesianNetwork({"A": ["x", "y"]}, tables={"A": [1e-4, 1 - 1e-4]})
    assert rare.sample(100, evidence={"A": "x"}, random_state=0)["A"].tolist() == ["x"] * 100
    never = rare.with_tables([[0.0, 1.0]])
    with pytest.raises(UnsupportedError, match=r"^0 of 1,\d+,\d+ samples agree .* fewer rows"):
        never.sample(1, evidence={"A": "x"}, random_state=0)
    with pytest.raises(UnsupportedError, match="too rare for 1,000,000 by rejection"):
        rare.sample(10**6, evidence={"A": "x"}, random_state=0)


# -- P(targets | evidence) ----------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [rejection, likelihood_weighting])
@settings(max_examples=25)
@given(seed=seeds)
def test_estimates_are_within_their_error_bars(method: object, seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, 6, zeros=bool(seed % 2))
    evidence = possible_evidence(network, rng, 2)
    answer = method(network, None, named(network, evidence), n_samples=50_000, random_state=rng)
    assert list(answer) == [name for i, name in enumerate(network.names) if i not in evidence]
    for name, found in answer.items():
        truth, p_evidence = exact(network, [network.index(name)], evidence)
        assert found.approximate
        assert found.values.sum() == pytest.approx(1.0)
        if len(truth) == 1:
            assert found.standard_errors.tolist() == [0.0]
        else:
            assert (np.abs(found.values - truth) < 5.5 * found.standard_errors).all()
            log_error = found.diagnostics["log_evidence"] - np.log(p_evidence)
            assert abs(log_error) <= 5.5 * found.diagnostics["log_evidence_standard_error"] + 1e-9


@pytest.mark.parametrize("method", [rejection, likelihood_weighting, gibbs])
def test_standard_errors_are_the_spread_over_seeds(method: object) -> None:
    options = {"n_sweeps": 2048, "burn_in": 100} if method is gibbs else {"n_samples": 2000}
    found = [method(SPRINKLER, "Rain", {"Wet": "yes"}, random_state=seed, **options) for seed in range(200)]
    truth = exact(SPRINKLER, [0], {2: 0})[0][0]
    z = np.array([(f.values[0] - truth) / f.standard_errors[0] for f in found])
    # sum of z^2 is about chi-square with 200 degrees of freedom
    assert 0.7 < (z**2).mean() < 1.4


@pytest.mark.parametrize("method", [rejection, likelihood_weighting, gibbs])
def test_joint_targets_keep_their_order(method: object) -> None:
    found = method(SPRINKLER, ["Wet", "Rain"], {"Sprinkler": "off"}, random_state=0)
    truth, _ = exact(SPRINKLER, [2, 0], {1: 1})
    assert found.targets == ("Wet", "Rain")
    assert (np.abs(found.values - truth) < 5 * found.standard_errors).all()
    assert found["no", "yes"] == found.values[1, 0] == found.as_dict()["no", "yes"]
    observed = method(SPRINKLER, ["Sprinkler", "Rain"], {"Sprinkler": "off"}, random_state=0)
    assert observed.values[0].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("method", [rejection, likelihood_weighting, gibbs])
def test_soft_evidence(method: object) -> None:
    """The likelihood of what was seen given Wet, e.g. from a poor sensor."""
    table = joint(SPRINKLER) * np.array([0.6, 0.15])
    truth = table.sum(axis=(1, 2)) / table.sum()
    found = method(SPRINKLER, "Rain", likelihoods={"Wet": [0.6, 0.15]}, random_state=1)
    assert (np.abs(found.values - truth) < 5 * found.standard_errors).all()
    again = method(SPRINKLER, "Rain", likelihoods={"Wet": {"yes": 4.0, "no": 1.0}}, random_state=1)
    np.testing.assert_allclose(again.values, found.values)  # only ratios matter
    with pytest.raises(DataError, match="likelihoods of 'Wet'"):
        method(SPRINKLER, "Rain", likelihoods={"Wet": [0.5]})


def test_the_one_call_leads_here() -> None:
    truth = exact(SPRINKLER, [0], {2: 0})[0][0]
    for method in ("rejection", "likelihood_weighting", "gibbs", "loopy"):
        options = {} if method == "loopy" else {"random_state": 0}
        found = SPRINKLER.query("Rain", {"Wet": "yes"}, method=method, **options)
        assert found.method == method
        assert found["yes"] == pytest.approx(truth, abs=0.03)
    each = SPRINKLER.query(None, {"Wet": "yes"}, method="gibbs", random_state=0)
    assert list(each) == ["Rain", "Sprinkler"]


def test_rejection_tells_how_much_was_rejected() -> None:
    found = rejection(SPRINKLER, "Rain", {"Wet": "yes"}, n_samples=20_000, random_state=0)
    p = exact(SPRINKLER, [0], {2: 0})[1]
    accepted = found.diagnostics["n_accepted"]
    assert accepted == pytest.approx(20_000 * p, abs=5 * np.sqrt(20_000 * p * (1 - p)))
    assert found.diagnostics["rejected"] == pytest.approx(1 - accepted / 20_000)
    assert found.diagnostics["sure_sample_size"] == accepted  # each has the largest weight there is
    assert all(type(figure) in (int, float) for figure in found.diagnostics.values())
    assert f"{accepted:,} of 20,000 samples" in found.report
    assert "approximate (rejection)" in str(found)
    low, high = found.interval("yes")
    assert low < exact(SPRINKLER, [0], {2: 0})[0][0] < high


def test_the_weight_is_the_probability_of_the_evidence_given_its_sampled_parents() -> None:
    """For observed Wet the weight is P(Wet = yes | Sprinkler, Rain), so its moments are known; for a root it
    is the same for all particles and says nothing."""
    n = 200_000
    found = likelihood_weighting(SPRINKLER, "Rain", {"Wet": "yes"}, n_samples=n, random_state=0)
    parents = joint(SPRINKLER).sum(axis=2).T  # P(Sprinkler, Rain)
    w = SPRINKLER.table("Wet")[..., 0]
    mean, square = (parents * w).sum(), (parents * w**2).sum()
    assert found.diagnostics["effective_sample_size"] == pytest.approx(n * mean**2 / square, rel=0.02)
    assert found.diagnostics["log_evidence"] == pytest.approx(np.log(mean), abs=0.01)
    root = likelihood_weighting(SPRINKLER, "Wet", {"Rain": "yes"}, n_samples=1000, random_state=0)
    assert root.diagnostics["effective_sample_size"] == pytest.approx(1000)
    assert root.diagnostics["log_evidence"] == pytest.approx(np.log(0.2))
    assert root.diagnostics["log_evidence_standard_error"] == pytest.approx(0.0, abs=1e-6)


def test_weights_far_below_the_range_of_numbers() -> None:
    """Five hundred observations of probability 1e-3 or 2e-3 each."""
    n = 500
    states = {"H": ["a", "b"]} | {f"x{i}": ["0", "1"] for i in range(n)}
    rows = [[0.999, 0.001], [0.9989, 0.0011]]
    tables = {"H": [0.5, 0.5]} | {f"x{i}": rows for i in range(n)}
    network = BayesianNetwork(states, {f"x{i}": ["H"] for i in range(n)}, tables)
    evidence = {f"x{i}": "1" for i in range(n)}
    odds = 1.1**n
    found = likelihood_weighting(network, "H", evidence, n_samples=5000, random_state=0)
    assert found["b"] == pytest.approx(odds / (1 + odds), abs=1e-9)
    assert found.diagnostics["log_evidence"] == pytest.approx(n * np.log(0.0011) + np.log(0.5), abs=0.1)
    chain = gibbs(network, "H", evidence, n_sweeps=64, burn_in=0, random_state=0)
    assert chain["b"] == pytest.approx(odds / (1 + odds), abs=1e-9)


def test_cells_that_were_never_met_have_an_error_bar() -> None:
    rare = BayesianNetwork({"A": ["x", "y"]}, tables={"A": [1e-7, 1 - 1e-7]})
    for method in (rejection, likelihood_weighting):
        found = method(rare, "A", n_samples=1000, random_state=0)
        assert found["x"] == 0.0
        assert found.standard_error("x") == pytest.approx(0.7 / 1000, rel=0.05)


@pytest.mark.parametrize("method", [rejection, likelihood_weighting, gibbs])
def test_everything_observed_leaves_no_questions(method: object) -> None:
    assert method(SPRINKLER, None, {"Rain": "yes", "Sprinkler": "off", "Wet": "yes"}) == {}


def test_answers_print_their_evidence_and_no_more_than_can_be_read() -> None:
    found = rejection(SPRINKLER, "Rain", {"Wet": "yes"}, n_samples=10_000, random_state=0)
    assert str(found).startswith("P(Rain | Wet=yes), approximate (rejection)\n  yes  0.3")
    assert found.best == "no"
    soft = rejection(SPRINKLER, ["Rain", "Wet"], likelihoods={"Wet": [1, 2]}, random_state=0)
    assert str(soft).startswith("P(Rain, Wet | Wet~)")
    assert soft.best == ("no", "no")
    many = BayesianNetwork({f"v{i}": [0, 1] for i in range(30)})
    evidence = {f"v{i}": 0 for i in range(15, 30)}
    text = str(rejection(many, [f"v{i}" for i in range(8)], evidence, n_samples=10**7, random_state=0))
    assert "v26=0, 3 more)" in text
    assert "... 192 more" in text
    assert len(text.splitlines()) == 64 + 3
    tiny = BayesianNetwork({"A": ["x", "y"]}, tables={"A": [1e-4, 1 - 1e-4]})
    assert "+/- 0.000011" in str(rejection(tiny, "A", n_samples=10**6, random_state=0))


def test_one_sample_knows_nothing_of_its_spread() -> None:
    with pytest.warns(ApproximationWarning, match="few are left"):
        found = rejection(SPRINKLER, "Rain", n_samples=1, random_state=0)
    assert np.isnan(found.diagnostics["log_evidence_standard_error"])


def test_threads_do_not_change_the_answer() -> None:
    for method in (rejection, likelihood_weighting, gibbs):
        one, three = (
            method(SPRINKLER, "Rain", {"Wet": "yes"}, random_state=2, n_jobs=jobs) for jobs in (1, 3)
        )
        np.testing.assert_array_equal(one.values, three.values)
        np.testing.assert_array_equal(one.standard_errors, three.standard_errors)


def test_evidence_that_no_sample_meets() -> None:
    never = BayesianNetwork(
        {"A": ["x", "y"], "B": ["x", "y"]}, {"B": ["A"]}, {"A": [1.0, 0.0], "B": [[1, 0], [0, 1]]}
    )
    with pytest.raises(InfeasibleError, match=r"none of 500 samples .*likelihood_weighting"):
        rejection(never, "A", {"B": "y"}, n_samples=500)
    with pytest.raises(InfeasibleError, match="all of 500 samples"):
        likelihood_weighting(never, "A", {"B": "y"}, n_samples=500)
    with pytest.raises(InfeasibleError, match=r"leaves 'A' without a state"):
        gibbs(never, "A", {"B": "y"})


def test_few_effective_samples_are_worth_a_warning() -> None:
    rare = BayesianNetwork(
        {"A": ["x", "y"], "B": ["x", "y"]},
        {"B": ["A"]},
        {"A": [1e-3, 1 - 1e-3], "B": [[1.0, 0.0], [1e-6, 1 - 1e-6]]},
    )
    with pytest.warns(ApproximationWarning, match="effective sample size"):
        found = likelihood_weighting(rare, "A", {"B": "x"}, n_samples=20_000, random_state=3)
    assert found.diagnostics["effective_sample_size"] < 100


def test_what_cannot_be_asked_is_said() -> None:
    graph = FactorGraph([2], [([0], [1.0, 2.0])])
    for method in (rejection, likelihood_weighting):
        with pytest.raises(UnsupportedError, match="gibbs"):
            method(graph, "x0")
        for bad in (0, 10.5, "many", np.nan):
            with pytest.raises(DataError, match=r"n_samples is .*whole number"):
                method(SPRINKLER, "Rain", n_samples=bad)
        assert method(SPRINKLER, "Rain", n_samples=1e3, random_state=0).diagnostics["n_samples"] == 1000
    with pytest.raises(DataError, match="did you mean 'Rain'"):
        rejection(SPRINKLER, "Rian")
    with pytest.raises(DataError, match="no state 'maybe'"):
        rejection(SPRINKLER, "Rain", {"Wet": "maybe"})
    with pytest.raises(DataError, match="no targets"):
        rejection(SPRINKLER, [])
    for options, words in [
        ({"n_chains": 1}, "n_chains is 1"),
        ({"n_sweeps": 0.5}, "n_sweeps is 0.5"),
        ({"burn_in": -1}, "burn_in is -1"),
        ({"random_state": "x"}, "random_state is 'x'"),
        ({"random_state": -1}, "random_state is -1"),
        ({"likelihoods": {"Wet": ["a", "b"]}}, "likelihoods of 'Wet' must be 2 numbers"),
        ({"likelihoods": {"Wet": {"yes": "often"}}}, "likelihoods of 'Wet' must be 2 numbers"),
        ({"likelihoods": {"Wet": []}}, "likelihoods of 'Wet' must be 2 numbers"),
    ]:
        with pytest.raises(DataError, match=words):
            gibbs(SPRINKLER, "Rain", **options)
    many = BayesianNetwork({f"v{i}": ["a", "b"] for i in range(25)})
    with pytest.raises(UnsupportedError, match=r"33,554,432 cells"):
        rejection(many, list(many.names))


# -- Gibbs --------------------------------------------------------------------------------------------------


@settings(max_examples=25)
@given(seed=seeds)
def test_gibbs_is_within_its_error_bars(seed: int) -> None:
    rng = np.random.default_rng(seed)
    if seed % 2:
        model: BayesianNetwork | FactorGraph = random_network(rng, 5)
    else:
        model = random_graph(rng, 5, 5)
    evidence = {int(i): int(rng.integers(model.cardinalities[i])) for i in rng.choice(5, 1)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ApproximationWarning)
        answer = gibbs(model, None, named(model, evidence), random_state=seed)
    for name, found in answer.items():
        truth, _ = exact(model, [model.index(name)], evidence)
        assert found.values.sum() == pytest.approx(1.0)
        assert (np.abs(found.values - truth) <= 6 * found.standard_errors + 1e-9).all()


def test_gibbs_reports_its_chains() -> None:
    found = gibbs(SPRINKLER, "Rain", {"Wet": "yes"}, n_chains=5, n_sweeps=1000, burn_in=10, random_state=0)
    assert found.diagnostics["n_sweeps"] == 1024
    assert found.diagnostics["r_hat"] < 1.02
    assert 100 < found.diagnostics["effective_sample_size"] < 5 * 1024 * 10
    assert "5 chains of 1,024 sweeps after 10: R-hat at most 1.0" in found.report


def test_r_hat_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    n, m, cells = 320, 3, 4
    series = rng.random((m, n, cells)) + 0.1 * rng.normal(size=(m, 1, cells))
    series[..., 3] = 0.5  # never moves
    halves = series.reshape(2 * m, n // 2, cells)
    W = halves.var(axis=1, ddof=1).mean(axis=0)
    B_over_n = halves.mean(axis=1).var(axis=0, ddof=1)
    length = n // 2
    with np.errstate(invalid="ignore"):
        expected = np.sqrt(((length - 1) / length * W + B_over_n) / W)
    expected[3] = 1.0
    sums = series.reshape(m, BATCHES, n // BATCHES, cells).sum(axis=2)
    squares = (series**2).reshape(m, 2, length, cells).sum(axis=2)
    np.testing.assert_allclose(split_r_hat(sums, squares, n), expected)
    apart = np.zeros((2, BATCHES, 1))
    apart[1] = 10.0
    squares = np.array([[[0.0], [0.0]], [[160.0], [160.0]]])
    assert split_r_hat(apart, squares, 320).tolist() == [np.inf]


def test_gibbs_loses_no_state_to_underflow_or_overflow() -> None:
    """Two hundred effects against a state and two hundred for it; factors whose product is infinite."""
    rows = [[0.999, 0.001], [0.5, 0.5]]
    effects = [f"x{i}" for i in range(400)]
    network = BayesianNetwork(
        {"H": ["a", "b"]} | {x: [0, 1] for x in effects},
        {x: ["H"] for x in effects},
        {"H": [0.25, 0.75]} | {x: rows if i < 200 else rows[::-1] for i, x in enumerate(effects)},
    )
    options = {"n_sweeps": 64, "burn_in": 0, "random_state": 0}
    found = gibbs(network, "H", dict.fromkeys(effects, 1), **options)
    np.testing.assert_allclose(found.values, [0.25, 0.75], rtol=1e-9)
    large = FactorGraph([2], [([0], [1e200, 2e200])] * 3)
    np.testing.assert_allclose(gibbs(large, "x0", **options).values, [1 / 9, 8 / 9])


def test_gibbs_warns_of_few_effective_samples() -> None:
    stay = [[0.98, 0.02], [0.02, 0.98]]
    network = BayesianNetwork({"A": [0, 1], "B": [0, 1]}, {"B": ["A"]}, {"A": [0.5, 0.5], "B": stay})
    with pytest.warns(ApproximationWarning, match=r"R-hat|little"):
        found = gibbs(network, ["A", "B"], n_sweeps=64, random_state=0)
    assert found.diagnostics["effective_sample_size"] < 100


XOR = BayesianNetwork(
    {"A": ["0", "1"], "B": ["0", "1"], "C": ["0", "1"]},
    {"C": ["A", "B"]},
    {"A": [0.3, 0.7], "B": [0.4, 0.6], "C": [[[1, 0], [0, 1]], [[0, 1], [1, 0]]]},
)


@pytest.mark.parametrize("leak", [0.0, 1e-9, 1e-4])
@pytest.mark.parametrize("zeros", ["refuse", "accept"])
def test_zeros_that_cut_the_distribution_apart_are_crossed_in_blocks(leak: float, zeros: str) -> None:
    """Given A xor B, or nearly so, neither can change alone: two islands."""
    rows = np.abs(np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]) - leak)
    network = XOR.with_tables({"C": rows})
    truth = exact(network, [0], {2: 1})[0]
    held = 0
    for seed in range(40):
        found = gibbs(network, "A", {"C": "1"}, zeros=zeros, n_sweeps=512, random_state=seed)
        assert found.diagnostics["irreducible"]
        assert found.diagnostics["largest_block"] == 2
        assert found.diagnostics["r_hat"] < 1.05
        low, high = found.interval("0")
        held += low <= truth[0] <= high
    assert held >= 34  # 95% of 40 are 38, with a standard error of 1.4


def hard_core(n: int) -> FactorGraph:
    """An n by n grid in which neighbours are not both 1: one island, but no small block shows it."""
    pairs = [(n * i + j, n * i + j + 1) for i in range(n) for j in range(n - 1)]
    pairs += [(n * i + j, n * i + j + n) for i in range(n - 1) for j in range(n)]
    return FactorGraph([2] * n**2, [(pair, [[1, 1], [1, 0]]) for pair in pairs])


def test_zeros_beyond_the_reach_of_blocks_are_refused_or_doubted() -> None:
    small, large = hard_core(5), hard_core(16)
    found = gibbs(small, "x0", n_sweeps=512, random_state=0)
    low, high = found.interval("1")
    assert low <= small.query("x0")["1"] <= high
    assert found.diagnostics["largest_block"] == 25
    with pytest.raises(UnsupportedError, match=r"zeros tie 'x\d+', 'x\d+' to so many.*likelihood weighting"):
        gibbs(large, "x0")
    with pytest.warns(ApproximationWarning, match="may keep all chains in the same part"):
        found = gibbs(large, "x0", n_sweeps=64, zeros="accept", random_state=0)
    assert not found.diagnostics["irreducible"]
    assert found.interval("1") == (0.0, 1.0)


@settings(max_examples=15)
@given(seed=seeds)
def test_blocks_are_drawn_from_their_distribution(seed: int) -> None:
    """Zeros in many places, in networks and in graphs; in logarithms, and in numbers."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 6, zeros=True)
    model: Model = network.to_factor_graph() if seed % 2 else network
    evidence = possible_evidence(network, rng, 1)
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        patch.setattr(gibbs_blocks, "WITHIN_RANGE", 600.0 * (seed // 2 % 2))
        warnings.simplefilter("ignore", ApproximationWarning)
        answer = gibbs(model, None, named(model, evidence), n_sweeps=512, random_state=seed)
    for name, found in answer.items():
        truth, _ = exact(model, [model.index(name)], evidence)
        low, high = found.tally.interval(4.5)
        assert ((low <= truth + 1e-12) & (truth <= high + 1e-12)).all()
        assert not found.values[truth == 0.0].any()


def test_no_start_needs_to_be_found_by_chance() -> None:
    """The evidence is possible only where a cause of probability 1e-9 is there."""
    network = BayesianNetwork(
        {"A": [0, 1], "B": [0, 1], "C": [0, 1]},
        {"B": ["A"], "C": ["B"]},
        {"A": [1 - 1e-9, 1e-9], "B": [[1, 0], [0.5, 0.5]], "C": [[1, 0], [0.5, 0.5]]},
    )
    found = gibbs(network, ["A", "B"], {"C": 1}, random_state=0)
    assert found["1", "1"] == 1.0


def test_zeros_that_only_rule_out_states_do_no_harm() -> None:
    """A deterministic table of an observed variable, and of an unobserved one whose parents are known."""
    found = gibbs(XOR, ["B", "C"], {"A": "0", "C": "1"}, random_state=0)
    assert found["1", "1"] == 1.0
    gibbs(XOR, "A", random_state=0)  # C is below, and does not matter


def test_contradictions_are_found_before_any_chain_starts() -> None:
    none = FactorGraph([2, 2], [([0, 1], [[0, 1], [0, 0]]), ([0], [0, 1])])
    with pytest.raises(InfeasibleError, match="zero everywhere"):
        gibbs(none, "x0", zeros="accept")
    with pytest.raises(
        InfeasibleError, match=r"probability zero: A=0, C=1 \(it leaves 'B' without a state\)"
    ):
        gibbs(XOR.do({"B": "0"}), "B", {"A": "0", "C": "1"}, zeros="accept")
