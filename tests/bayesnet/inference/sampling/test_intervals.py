"""Intervals hold their level: by simulation, over random networks with rare states and uneven weights."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import stats

from small_networks import joint, random_network, seeds
from trellis import BayesianNetwork, FactorGraph
from trellis.bayesnet.inference.query import ApproximationWarning
from trellis.bayesnet.inference.question import Question
from trellis.bayesnet.inference.sampling import weight_bounds
from trellis.bayesnet.inference.sampling.forward_sampling import sample_codes
from trellis.core.errors import DataError
from trellis.core.share_intervals import Tally, of_others

RARE_CAUSE = BayesianNetwork(
    {"Cause": ["yes", "no"], "Effect": ["yes", "no"]},
    {"Effect": ["Cause"]},
    {"Cause": [1e-3, 1 - 1e-3], "Effect": [[1.0, 0.0], [1e-6, 1 - 1e-6]]},
)


def uneven_network(rng: np.random.Generator, n: int = 7) -> BayesianNetwork:
    """Rows of which some states are rare: weights differ by orders of magnitude."""
    plain = random_network(rng, n)
    return plain.with_tables(
        [rng.dirichlet(np.full(table.shape[-1], 0.3), size=table.shape[:-1]) for table in plain.tables]
    )


def size_class(p: float) -> str:
    rarer = min(p, 1.0 - p)
    return "below 0.01" if rarer < 0.01 else "0.01 to 0.1" if rarer < 0.1 else "above"


def coverage(cases: Iterator[tuple[BayesianNetwork, dict[str, str]]], runs: int, **options: Any) -> dict:
    """The share of intervals that hold the truth, by the size of the probability, and their number."""
    held, asked = defaultdict(int), defaultdict(int)
    for network, evidence in cases:
        truth = network.query(None, evidence)
        for run in range(runs):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ApproximationWarning)
                found = network.query(None, evidence, random_state=run, **options)
            for name, answer in found.items():
                low, high = answer.tally.interval(1.96)
                for p, a, b in zip(truth[name].values, low, high, strict=True):
                    if 0.0 < p < 1.0:
                        held[size_class(p)] += a <= p <= b
                        asked[size_class(p)] += 1
    return {name: (held[name] / asked[name], asked[name]) for name in asked}


def cases(n: int, seed: int, n_observed: int, **options: Any) -> Iterator[tuple]:
    for i in range(n):
        rng = np.random.default_rng((seed, i))
        network = random_network(rng, 7, **options) if options else uneven_network(rng)
        row = sample_codes(network, 1, rng)[0]
        chosen = rng.choice(len(row), n_observed, replace=False)
        yield network, network.variables.decode({int(v): int(row[v]) for v in chosen})


@pytest.mark.parametrize(
    ("options", "n_observed"),
    [
        ({"method": "rejection", "n_samples": 400}, 0),
        ({"method": "likelihood_weighting", "n_samples": 400}, 2),
        ({"method": "likelihood_weighting", "n_samples": 100}, 3),
        ({"method": "gibbs", "n_sweeps": 256, "burn_in": 64}, 2),
    ],
    ids=lambda value: value["method"] if isinstance(value, dict) else str(value),
)
def test_intervals_hold_their_level(options: dict[str, Any], n_observed: int) -> None:
    """95% of the runs or more, whatever the size of the probability."""
    for name, (share, asked) in coverage(cases(60, 1, n_observed), 5, **options).items():
        # cells of one run are not independent: as if one in four were
        assert share > 0.95 - 3.0 * np.sqrt(0.05 * 0.95 / (asked / 4)), (name, share, asked)


def test_gibbs_holds_its_level_with_zeros() -> None:
    options = {"method": "gibbs", "n_sweeps": 256, "burn_in": 64}
    found = coverage(cases(40, 2, 2, zeros=True), 4, **options)
    for name, (share, asked) in found.items():
        assert share > 0.95 - 3.0 * np.sqrt(0.05 * 0.95 / (asked / 4)), (name, share, asked)


@pytest.mark.parametrize("coupling", [0.3, 0.5, 0.7, 1.0])
def test_gibbs_on_slow_chains_holds_its_level_or_says_everything(coupling: float) -> None:
    """A grid of spins that mostly agree turns over once in tens to millions of sweeps."""
    edges = [(k, k + 1) for k in range(9) if k % 3 < 2] + [(k, k + 3) for k in range(6)]
    agree = np.exp(coupling * np.array([[1.0, -1.0], [-1.0, 1.0]]))
    spins = FactorGraph([2] * 9, [((k,), [1.05, 1.0]) for k in range(9)] + [(edge, agree) for edge in edges])
    truth = spins.query(None)
    hits, told = 0, 0
    for seed in range(40):
        with warnings.catch_warnings(record=True) as doubts:
            warnings.simplefilter("always", ApproximationWarning)
            found = spins.query(None, method="gibbs", n_sweeps=500, random_state=seed)
        for name, exact in truth.items():
            low, high = found[name].interval("0")
            hits += low <= exact["0"] <= high
            told += high - low < 0.5
            assert doubts or high - low < 0.5
    assert hits / (40 * 9) >= 0.93
    assert (told > 0) == (coupling < 1.0)


def test_a_cause_that_was_never_drawn_is_not_ruled_out() -> None:
    """P(Cause | Effect) is 0.999, and three runs in five do not meet the cause at all."""
    truth = RARE_CAUSE.query("Cause", {"Effect": "yes"})["yes"]
    missed = 0
    for seed in range(30):
        with pytest.warns(ApproximationWarning, match=r"more samples or an exact method"):
            found = RARE_CAUSE.query(
                "Cause", {"Effect": "yes"}, method="likelihood_weighting", n_samples=500, random_state=seed
            )
        missed += found["yes"] == 0.0
        low, high = found.interval("yes")
        assert low <= truth <= high
    assert missed > 5


def test_unit_weights_give_clopper_and_pearson() -> None:
    for hits, n in [(0, 10), (3, 10), (10, 10), (1, 1000)]:
        one = np.ones(1)
        tally = Tally(hits * one, hits * one, one, (n - hits) * one, (n - hits) * one, one)
        exact = stats.binomtest(hits, n).proportion_ci(0.95)
        low, high = tally.interval(stats.norm.ppf(0.975))
        assert low[0] == pytest.approx(exact.low, abs=1e-12)
        assert high[0] == pytest.approx(exact.high)


def test_what_is_certain_has_no_width() -> None:
    for method in ("rejection", "likelihood_weighting", "gibbs"):
        found = RARE_CAUSE.query(["Cause", "Effect"], {"Cause": "yes"}, method=method, random_state=0)
        assert found.interval(("no", "yes")) == found.interval(("no", "no")) == (0.0, 0.0)
        alone = RARE_CAUSE.query("Cause", {"Cause": "yes"}, method=method, random_state=0)
        assert alone.interval("yes") == (1.0, 1.0)
        with pytest.raises(DataError, match="z is -1"):
            alone.interval("yes", z=-1)


def test_without_samples_an_interval_is_everything_or_nothing() -> None:
    network = uneven_network(np.random.default_rng(3))
    for name, found in network.query(method="loopy").items():
        state, exact = found.states[0][0], found.diagnostics["tree"]
        assert found.interval(state) == ((found[state], found[state]) if exact else (0.0, 1.0)), name


@settings(max_examples=40)
@given(seed=seeds)
def test_no_weight_is_above_its_bound(seed: int) -> None:
    """Against enumeration of all configurations; and with products cut short the bound still holds."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 6, zeros=bool(seed % 2))
    row = sample_codes(network, 1, rng)[0]
    observed = {int(v): int(row[v]) for v in rng.choice(6, 3, replace=False)}
    targets = [f"v{v}" for v in rng.choice(6, 2, replace=False)]
    likelihoods = {"v0": rng.exponential(size=network.cardinalities[0]) + 0.1}
    weight = np.ones(tuple(network.cardinalities))
    letters = "abcdef"
    for v, state in observed.items():
        scope = (*network.parent_indices[v], v)
        of_scope = np.zeros(network.tables[v].shape)
        of_scope[..., state] = network.tables[v][..., state]
        subscripts = f"{letters},{''.join(letters[u] for u in scope)}->{letters}"
        weight = np.einsum(subscripts, weight, of_scope)
    soft = likelihoods["v0"] / likelihoods["v0"].max()
    weight = np.einsum("abcdef,a->abcdef", weight, soft)
    question = Question(network, targets, network.variables.decode(observed), likelihoods)
    scope = question.scopes[0]
    gone = tuple(v for v in range(6) if v not in scope)
    truth = weight.max(axis=gone)
    truth = truth if scope[0] < scope[1] else truth.T
    bound = np.exp(weight_bounds.log_weight_bounds(question)).reshape(truth.shape)
    np.testing.assert_allclose(bound, truth, rtol=1e-9, atol=1e-300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weight_bounds, "MOST", 1)
        loose = np.exp(weight_bounds.log_weight_bounds(question)).reshape(truth.shape)
        patch.setattr(weight_bounds, "MANY", 0)
        looser = np.exp(weight_bounds.log_weight_bounds(question)).reshape(truth.shape)
    assert (loose >= truth * (1 - 1e-9)).all()
    assert (looser >= truth * (1 - 1e-9)).all()
    assert joint(network).sum() == pytest.approx(1.0)


def test_others_are_all_but_one() -> None:
    rng = np.random.default_rng(0)
    values, starts = rng.random(9), np.array([0, 1, 4, 9])
    for total in (np.add, np.maximum):
        expected = np.zeros(9)
        for a, b in ((0, 1), (1, 4), (4, 9)):
            for i in range(a, b):
                rest = [values[j] for j in range(a, b) if j != i]
                expected[i] = total.reduce(rest) if rest else 0.0
        np.testing.assert_allclose(of_others(values, starts, total), expected)
