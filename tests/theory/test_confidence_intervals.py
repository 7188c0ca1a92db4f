"""Intervals: by hand, against scipy, and above all their coverage over 2,000 simulated data sets."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from tagging import noisy_words, spans
from trellis import SequenceLabeler
from trellis.core.errors import DataError, UnsupportedError
from trellis.losses.labelings import WeightedHamming
from trellis.losses.metrics import span_report
from trellis.theory import (
    bootstrap_interval,
    clopper_pearson_interval,
    clopper_pearson_limits,
    compare_models,
    empirical_bernstein_interval,
    hoeffding_interval,
    mcnemar_test,
    measured_mistake_bound,
    paired_loss_test,
    paired_test,
    perceptron_mistake_bound,
    quantile_interval,
    score_with_interval,
)
from trellis.theory.confidence_intervals import f1, ratio
from trellis.theory.example_losses import measure_losses

DATA_SETS = 2000


def test_hoeffding_and_bernstein_by_hand() -> None:
    losses = np.array([0.0, 0.0, 1.0, 1.0] * 100)
    found = hoeffding_interval(losses)
    assert found.high - found.value == pytest.approx(math.sqrt(math.log(40) / 800))
    log = math.log(80)
    variance = 400 / 399 / 4
    found = empirical_bernstein_interval(losses)
    assert found.value - found.low == pytest.approx(math.sqrt(2 * variance * log / 400) + 7 * log / (3 * 399))
    scaled = empirical_bernstein_interval(10 * losses - 3, low=-3, high=7)
    assert scaled.width == pytest.approx(10 * found.width)
    alike = np.zeros(2000)
    assert empirical_bernstein_interval(alike).width < hoeffding_interval(alike).width


@given(m=st.integers(1, 300), share=st.floats(0, 1), delta=st.floats(0.001, 0.5))
def test_clopper_pearson_agrees_with_scipy(m: int, share: float, delta: float) -> None:
    k = round(share * m)
    found = clopper_pearson_interval(k, m, delta=delta)
    expected = stats.binomtest(k, m).proportion_ci(1 - delta, method="exact")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
    assert found.value in found


def test_clopper_pearson_by_hand() -> None:
    """No error among m: the upper limit solves (1 - p)^m = delta / 2."""
    found = clopper_pearson_interval(0, 100)
    assert (found.low, found.high) == (0.0, pytest.approx(1 - 0.025**0.01))
    assert clopper_pearson_interval(100, 100).low == pytest.approx(0.025**0.01)
    assert str(found).startswith("0 (95% interval 0 to 0.03622")


@pytest.mark.parametrize("p", [0.0, 0.01, 0.1, 0.37, 0.5, 0.98])
@pytest.mark.parametrize("m", [10, 100])
def test_coverage_of_the_exact_interval(p: float, m: int) -> None:
    errors = np.random.default_rng([m, int(1000 * p)]).binomial(m, p, size=DATA_SETS)
    low, high = clopper_pearson_limits(errors, m)
    assert np.mean((low <= p) & (p <= high)) >= 0.94


@pytest.mark.parametrize("make", [hoeffding_interval, empirical_bernstein_interval])
@pytest.mark.parametrize("m", [2, 30, 400])
def test_coverage_of_the_bounded_ones(make: Any, m: int) -> None:
    losses = np.random.default_rng(m).beta(0.3, 2.0, size=(DATA_SETS, m))
    truth = 0.3 / 2.3
    assert np.mean([truth in make(row) for row in losses]) >= 0.95


def test_coverage_of_the_bootstrap() -> None:
    """Ratios of sums over sequences, whose steps go wrong together; right only in the limit, so 91%."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        steps = rng.integers(5, 30, size=150)
        wrong = rng.binomial(steps, rng.beta(2, 8, size=150))
        rows = np.stack([wrong, steps], axis=1)
        hits += 0.2 in bootstrap_interval(rows, ratio, n_resamples=200, seed=int(rng.integers(2**31)))
    assert hits / 200 >= 0.91


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_coverage_of_quantiles(level: float) -> None:
    values = np.random.default_rng(7).normal(size=(DATA_SETS, 120))
    truth = stats.norm.ppf(level)
    found = [quantile_interval(row, level) for row in values]
    assert np.mean([truth in interval for interval in found]) >= 0.94
    assert all(interval.value in interval for interval in found)


def test_quantiles_by_hand() -> None:
    values = np.arange(1.0, 101.0)
    found = quantile_interval(values, 0.95)
    below = stats.binom(100, 0.95)
    assert found.value == 95
    r, s = int(found.low), int(found.high) if np.isfinite(found.high) else 101
    assert below.cdf(r - 1) <= 0.025 < below.cdf(r)
    assert below.cdf(s - 1) >= 0.975 > below.cdf(s - 2)
    assert quantile_interval(np.arange(1.0, 21.0), 0.95).value == 19
    few = quantile_interval([0.1, 0.2], 0.95, low=-1, high=1)
    assert (few.low, few.high) == (0.1, 1.0)  # 0.95^2 > 0.025: even the largest may lie below


def test_the_bootstrap_of_f1_is_that_of_the_metrics() -> None:
    _, gold = spans(60, seed=1)
    guess = [["O" if i % 5 == 0 else label for label in y] for i, y in enumerate(gold)]
    report = span_report(gold, guess)
    found = bootstrap_interval(report.counts, f1)
    assert found.value == pytest.approx(report.overall.f1)
    assert (found.low, found.high) == pytest.approx(report.f1_interval())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: clopper_pearson_interval(3, 2), "0 <= errors <= m"),
        (lambda: clopper_pearson_interval(0, 0), "m >= 1"),
        (lambda: clopper_pearson_interval(1.5, 3), "whole numbers"),  # type: ignore[arg-type]
        (lambda: clopper_pearson_interval(1, 3, delta=1.0), "delta is 1.0"),
        (lambda: hoeffding_interval([]), "no losses"),
        (lambda: hoeffding_interval([0.5, 2.0]), "loss 1 is 2.0, outside of 0.0 to 1.0"),
        (lambda: hoeffding_interval([0.5], low=1, high=1), "give low < high"),
        (lambda: empirical_bernstein_interval([0.5]), "at least two losses"),
        (lambda: bootstrap_interval(np.zeros((0, 2)), ratio), "at least one example"),
        (lambda: quantile_interval([1.0], 1.0), "level is 1.0"),
        (lambda: mcnemar_test([0, 1], [0.5, 1]), "0 or 1"),
        (lambda: paired_loss_test([0, 1], [1]), "2 losses against 1"),
        (lambda: perceptron_mistake_bound(1.0, 0.0), "margin is 0.0; it must be positive"),
        (lambda: measure_losses([1, 2], [1]), "2 true labels"),
    ],
)
def test_bad_input(call: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()


# -- two models ------------------------------------------------------------------------------------------


def test_mcnemar_by_hand() -> None:
    a = np.array([1] * 8 + [0] * 2 + [0] * 20 + [1] * 5)
    b = np.array([0] * 8 + [1] * 2 + [0] * 20 + [1] * 5)
    found = mcnemar_test(a, b)
    assert found.p_value == pytest.approx(2 * (1 + 10 + 45) / 1024)
    assert found.p_value == pytest.approx(stats.binomtest(2, 10).pvalue)
    assert (found.n, found.n_different) == (35, 10)
    assert found.difference == pytest.approx(6 / 35)
    assert not found.significant
    assert mcnemar_test(a, a).p_value == 1.0


def test_the_randomisation_test_is_exact_where_few_differ() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random(9), rng.random(9)
    expected = stats.permutation_test(
        (a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True
    ).pvalue
    found = paired_loss_test(np.append(a, 0.5), np.append(b, 0.5))
    assert found.p_value == pytest.approx(expected)
    assert found.n_different == 9


def test_the_drawn_randomisation_test_is_near_the_exact_one() -> None:
    rng = np.random.default_rng(1)
    a = rng.integers(0, 2, size=200)
    b = np.where(rng.random(200) < 0.15, 1 - a, a)
    b[:12] = 1
    exact, drawn = mcnemar_test(a, b), paired_loss_test(a, b)
    assert drawn.p_value == pytest.approx(exact.p_value, abs=0.02)
    assert drawn.low <= drawn.difference <= drawn.high


def test_p_values_are_uniform_or_larger_when_models_are_alike() -> None:
    rng = np.random.default_rng(2)
    counts = rng.integers(0, 6, size=(150, 2, 25, 3))
    p = np.array([paired_test(pair[0], pair[1], f1, n_resamples=100).p_value for pair in counts])
    for level in (0.05, 0.2, 0.5):
        assert np.mean(p <= level) <= level + 3 * math.sqrt(level * (1 - level) / 150)


def test_scores_and_comparisons_of_models() -> None:
    X, y = noisy_words(80, seed=3)
    good = SequenceLabeler().fit(X[:60], y[:60])
    poor = SequenceLabeler(max_iter=1).fit(X[:3], y[:3])
    held_X, held_y = noisy_words(120, seed=4)
    whole = score_with_interval(good, held_X, held_y)
    wrong = sum(a != b for a, b in zip(good.predict(held_X), held_y, strict=True))
    assert (whole.value, whole.name) == (wrong / 120, "Clopper-Pearson")
    steps = score_with_interval(good, held_X, held_y, loss="hamming")
    assert steps.value == pytest.approx(1 - good.score(held_X, held_y))
    assert steps.name == "bootstrap"
    assert steps.low < steps.value < steps.high
    for method in ("bernstein", "hoeffding"):
        found = score_with_interval(good, held_X, held_y, loss="hamming", method=method)
        assert found.width > steps.width
    same = score_with_interval(good, held_X, held_y, loss=lambda g, p: float(g != p))
    assert same.value == whole.value
    costly = score_with_interval(
        good, held_X, held_y, loss=WeightedHamming(np.full((3, 3), 2.0) - 2 * np.eye(3))
    )
    assert costly.value == pytest.approx(2 * steps.value * sum(map(len, held_y)) / 120)
    for loss in ("zero_one", "hamming"):
        found = compare_models(good, poor, held_X, held_y, loss=loss)
        assert found.significant
        assert found.high < 0
    assert compare_models(good, good, held_X, held_y).p_value == 1
    with pytest.raises(UnsupportedError, match="exact interval is for the 0-1 loss"):
        score_with_interval(good, held_X, held_y, loss="hamming", method="exact")
    with pytest.raises(DataError, match="loss is 'f2'; give 'zero_one', 'hamming' or 'span_f1'"):
        score_with_interval(good, held_X, held_y, loss="f2")
    with pytest.raises(DataError, match="method is 'wald'; give 'auto', 'exact'"):
        score_with_interval(good, held_X, held_y, method="wald")  # type: ignore[arg-type]


def test_plain_classifiers_are_scored_too() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = X[:, 0] + rng.normal(size=200) > 0
    found = score_with_interval(LogisticRegression().fit(X, y), X, y, loss="hamming")
    assert found.name == "Clopper-Pearson"
    assert 0.1 < found.value < 0.4


# -- the perceptron --------------------------------------------------------------------------------------


def test_perceptron_bound_by_hand() -> None:
    assert perceptron_mistake_bound(2.0, 0.5) == 16
    assert perceptron_mistake_bound([1, 3], [0.3, 1.0]).tolist() == [11, 9]


def test_no_perceptron_beats_the_measured_bound() -> None:
    """Two classes, by hand: R^2 = 5 (with the constant), u = (1, 0, 0), margin 1."""

    class Model:
        coef_, intercept_, classes_ = np.array([[1.0, 0.0]]), np.array([0.0]), np.array([-1, 1])
        fit_intercept = True

    found = measured_mistake_bound(Model(), [[2, 0], [1, 1], [-1, 1]], [1, 1, -1])
    assert (found.radius, found.margin, found.mistakes) == (pytest.approx(math.sqrt(5)), 1.0, 5)
    wrong = measured_mistake_bound(Model(), [[2, 0], [-1, 1]], [1, 1])
    assert wrong.mistakes == math.inf
    assert "do not separate" in str(wrong)


@pytest.mark.parametrize("signed", [False, True])
def test_the_bound_of_a_chain_holds(signed: bool) -> None:
    rng = np.random.default_rng(3)
    centres = np.eye(3) * 4 + (rng.normal(size=(3, 3)) if signed else 0)
    y = [(rng.integers(3) + np.arange(rng.integers(1, 5))) % 3 for _ in range(25)]
    X = [np.abs(centres[codes]) if not signed else centres[codes] for codes in y]
    labels = [codes.tolist() for codes in y]
    model = SequenceLabeler(objective="perceptron", solver="perceptron", max_iter=100).fit(X, labels)
    assert "separable" in str(model.status_)
    found = measured_mistake_bound(model, X, labels)
    assert sum(model.history_["mistakes"]) <= found.mistakes < math.inf
    assert found.radius >= _radius_by_enumeration(model, X, labels) > 0
    smallest = float(str(model.status_).split("smallest margin ")[1].split(")")[0])
    assert found.margin * np.linalg.norm(model.weights_) == pytest.approx(smallest, rel=1e-2)


def _radius_by_enumeration(model: SequenceLabeler, X: Any, y: Any) -> float:
    """max ||Phi(x, y*) - Phi(x, y)||: node features by label, transitions, start and end."""
    from itertools import product

    def phi(x: Any, labels: Any) -> Any:
        nodes, moves, ends = np.zeros((3, 3)), np.zeros((3, 3)), np.zeros((2, 3))
        for t, k in enumerate(labels):
            nodes[k] += x[t]
            if t:
                moves[labels[t - 1], k] += 1
        ends[0, labels[0]] += 1
        ends[1, labels[-1]] += 1
        parts = [nodes, moves, ends] if model.layout_.boundaries else [nodes, moves]
        return np.concatenate([part.ravel() for part in parts])

    return max(
        float(np.linalg.norm(phi(x, gold) - phi(x, other)))
        for x, gold in zip(X, y, strict=True)
        for other in product(range(3), repeat=len(gold))
    )


@pytest.mark.parametrize("unit", [1e-13, 1.0, 1e12])
@pytest.mark.parametrize("shift", [0.0, 1e9])
def test_the_unit_of_a_loss_does_not_change_the_p_value(unit: float, shift: float) -> None:
    """Every swap but that of none and of all lowers the difference: p = 2 / 2^7."""
    a = np.array([1.1, 2.3, 4.7, 3.1, 5.0, 6.0, 7.0])
    found = paired_loss_test((a + shift) * unit, np.full(7, shift) * unit)
    assert found.p_value == 2 / 2**7


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_losses_that_are_no_numbers_prove_nothing(bad: float) -> None:
    with pytest.raises(DataError, match=r"example 1 has .* needs finite numbers"):
        paired_loss_test([1.0, bad, 3.0], [1.0, 2.0, 3.0])
    with pytest.raises(DataError, match=r"the counts of example 0 are .*finite"):
        bootstrap_interval([[bad, 1.0], [0.0, 1.0]], lambda sums: sums[..., 0] / sums[..., 1])


def test_no_resamples_are_no_test() -> None:
    with pytest.raises(DataError, match="n_resamples is 0"):
        paired_loss_test(np.arange(20.0), np.zeros(20), n_resamples=0)
    with pytest.raises(DataError, match="n_resamples is 0"):
        bootstrap_interval([1.0, 2.0], lambda sums: sums[..., 0], n_resamples=0)


def test_counts_are_whole() -> None:
    with pytest.raises(DataError, match="whole numbers"):
        clopper_pearson_limits(0.5, 10)
    with pytest.raises(DataError, match=r"losses is .*give a number"):
        hoeffding_interval(["much"])


class Series:
    """As a column of pandas: labels are asked for by name, and a part of a table has no row 0."""

    def __init__(self, values: Any) -> None:
        self._values = np.asarray(values)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    def to_numpy(self) -> Any:
        return self._values


def test_labels_from_a_table() -> None:
    X = np.arange(20.0)[:, None]
    y = np.repeat([0, 1], 10)
    model = LogisticRegression().fit(X, y)
    assert score_with_interval(model, X, Series(y)) == score_with_interval(model, X, y)
    with pytest.raises(DataError, match="true labels are sequences and the predicted ones single labels"):
        score_with_interval(model, X, y[:, None])
    with pytest.raises(UnsupportedError, match="span_f1 is for sequences"):
        score_with_interval(model, X, y, loss="span_f1")


def test_the_margin_of_sparse_and_of_wrong_features() -> None:
    X, y = np.array([[2.0], [1.0], [-1.0], [-3.0]]), [1, 1, 0, 0]
    model = LogisticRegression(fit_intercept=False).fit(X, y)
    assert measured_mistake_bound(model, csr_array(X), y) == measured_mistake_bound(model, X, y)
    for rows, labels in ((X[:0], []), (X, y[:3]), (X[0], y[:1]), (np.ones((4, 2)), y)):
        with pytest.raises(DataError, match="X has shape"):
            measured_mistake_bound(model, rows, labels)
    assert perceptron_mistake_bound(1e200, 1e-200) == np.inf
