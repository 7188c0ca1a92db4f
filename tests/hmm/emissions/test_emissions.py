"""What every emission promises, whatever it emits."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from small_emissions import NAMES, add, entropy_of, example, posterior_of
from trellis import HMM, emissions, load
from trellis.core.codec import decode, encode
from trellis.core.errors import DataError, ModelFileError, UnsupportedError
from trellis.hmm.emissions import (
    Categorical,
    Emission,
    Gaussian,
    Product,
)

each = pytest.mark.parametrize("name", NAMES)


def assert_same(a: Emission, b: Emission) -> None:
    arrays_a: dict[str, np.ndarray] = {}
    arrays_b: dict[str, np.ndarray] = {}
    assert encode(a, arrays_a) == encode(b, arrays_b)
    assert arrays_a.keys() == arrays_b.keys()
    for key, array in arrays_a.items():
        np.testing.assert_allclose(array, arrays_b[key], rtol=1e-12, atol=1e-12)


def perturbed(emission: Emission, rng: np.random.Generator, size: float) -> Emission:
    """Parameters nearby: positive ones by a factor, distributions and covariances kept what they are."""
    if isinstance(emission, Product):
        return Product([(columns, perturbed(part, rng, size)) for columns, part in emission.parts])
    changed = {}
    for field in dataclasses.fields(emission):
        value = getattr(emission, field.name)
        if not isinstance(value, np.ndarray) or field.name == "prior_mean":
            continue
        if field.name == "means":
            value = value + size * rng.normal(size=value.shape)
        elif field.name == "covariances" and _is_matrix(emission):
            factor = np.eye(value.shape[-1]) + size * rng.normal(size=value.shape)
            value = factor @ value @ np.swapaxes(factor, -1, -2)
        else:
            value = value * np.exp(size * rng.normal(size=value.shape))
            if field.name in ("probabilities", "weights"):
                value = value / value.sum(axis=1, keepdims=True)
        changed[field.name] = value
    return dataclasses.replace(emission, **changed)


def _is_matrix(emission: Emission) -> bool:
    return getattr(emission, "covariance", "") in ("full", "tied", "state")


@each
def test_a_missing_row_says_nothing(name: str) -> None:
    emission, values = example(name)
    np.testing.assert_allclose(emission.log_likelihood(values)[0], 0.0, atol=1e-15)
    scaled, shift = emission.scaled_likelihood(values)
    np.testing.assert_allclose(scaled[0], 1.0, rtol=1e-15)
    assert abs(shift[0]) < 1e-15
    nothing = emission.statistics(values[:1], posterior_of(1))
    assert emission.expected_log_likelihood(nothing) == 0.0
    assert entropy_of(nothing) == 0.0


@each
def test_scaled_likelihood_is_the_likelihood_scaled(name: str) -> None:
    emission, values = example(name)
    log_likelihood = emission.log_likelihood(values)
    scaled, shift = emission.scaled_likelihood(values)
    np.testing.assert_allclose(shift, log_likelihood.max(axis=1), rtol=1e-13)
    np.testing.assert_allclose(scaled, np.exp(log_likelihood - shift[:, None]), rtol=1e-12, atol=1e-300)


@each
def test_statistics_add_up_over_shards(name: str) -> None:
    emission, values = example(name)
    posterior = posterior_of(len(values))
    whole = emission.statistics(values, posterior)
    parts = add(
        emission.statistics(values[:70], posterior[:70]), emission.statistics(values[70:], posterior[70:])
    )
    none = emission.statistics(values[:0], posterior[:0])
    for key, value in add(parts, none).items():
        np.testing.assert_allclose(value, whole[key], rtol=1e-11, atol=1e-11)


@each
def test_the_expected_log_likelihood_is_the_direct_sum(name: str) -> None:
    emission, values = example(name)
    posterior = posterior_of(len(values))
    statistics = emission.statistics(values, posterior)
    direct = float(np.sum(posterior * emission.log_likelihood(values)))
    found = emission.expected_log_likelihood(statistics) + entropy_of(statistics)
    assert found == pytest.approx(direct, rel=1e-10)


@each
def test_elsewhere_it_is_a_lower_bound(name: str) -> None:
    emission, values = example(name)
    posterior = posterior_of(len(values))
    statistics = emission.statistics(values, posterior)
    other = perturbed(emission, np.random.default_rng(3), 0.1)
    direct = float(np.sum(posterior * other.log_likelihood(values)))
    bound = other.expected_log_likelihood(statistics) + entropy_of(statistics)
    latent = any(word in name for word in ("full", "tied", "mixture", "product"))
    assert bound <= direct + 1e-9
    assert bound == pytest.approx(direct, rel=0.2 if latent else 1e-10)


@each
def test_the_m_step_maximises(name: str) -> None:
    emission, values = example(name)
    statistics = emission.statistics(values, posterior_of(len(values)))
    best = emission.maximise(statistics)
    top = best.expected_log_likelihood(statistics) + best.log_prior()
    assert top > emission.expected_log_likelihood(statistics) + emission.log_prior()
    rng = np.random.default_rng(4)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(10):
            other = perturbed(best, rng, size)
            assert other.expected_log_likelihood(statistics) + other.log_prior() < top


@each
def test_em_with_independent_steps_never_loses(name: str) -> None:
    emission, values = example(name, n=120)
    start = perturbed(emission, np.random.default_rng(5), 0.3)
    previous = -np.inf
    for _ in range(25):
        log_likelihood = start.log_likelihood(values) - np.log(3.0)
        evidence = np.logaddexp.reduce(log_likelihood, axis=1)
        value = float(evidence.sum()) + start.log_prior()
        assert value >= previous - 1e-9 * abs(value)
        previous = value
        start = start.maximise(start.statistics(values, np.exp(log_likelihood - evidence[:, None])))


@each
def test_a_state_without_weight_keeps_its_parameters(name: str) -> None:
    emission, values = example(name)
    posterior = posterior_of(len(values))
    posterior[:, 1] = 0.0
    fitted = emission.maximise(emission.statistics(values, posterior))
    if "map" in name or "mean" in name or "tied" in name:
        assert np.isfinite(fitted.log_likelihood(values)).all()
    else:
        np.testing.assert_allclose(
            fitted.log_likelihood(values)[:, 1], emission.log_likelihood(values)[:, 1], rtol=1e-12
        )
    again = fitted.maximise(fitted.statistics(values, np.zeros_like(posterior)))
    assert np.isfinite(again.log_likelihood(values)).all()


@pytest.mark.parametrize("name", [name for name in NAMES if "mixture" not in name])
def test_statistics_of_an_earlier_record_can_be_recentred(name: str) -> None:
    emission, values = example(name)
    posterior = posterior_of(len(values))
    if values.dtype == np.float64:  # expected moments of missing entries depend on more than the origin
        complete = ~np.isnan(values).any(axis=1)
        values, posterior = values[complete], posterior[complete]
    later = perturbed(emission, np.random.default_rng(6), 0.5)
    moved = later.recentre(emission.statistics(values, posterior))
    for key, value in later.statistics(values, posterior).items():
        np.testing.assert_allclose(moved[key], value, rtol=1e-9, atol=1e-9)


@each
def test_permuted_states_have_permuted_likelihoods(name: str) -> None:
    emission, values = example(name)
    order = [2, 0, 1]
    moved = emission.permute(order)
    np.testing.assert_allclose(
        moved.log_likelihood(values), emission.log_likelihood(values)[:, order], rtol=1e-12
    )
    posterior = posterior_of(len(values))
    assert_same(
        moved.maximise(moved.statistics(values, posterior[:, order])),
        emission.maximise(emission.statistics(values, posterior)).permute(order),
    )
    statistics = emission.permute_statistics(emission.statistics(values, posterior), np.array(order))
    for key, value in moved.statistics(values, posterior[:, order]).items():
        np.testing.assert_allclose(statistics[key], value, rtol=1e-9, atol=1e-9)
    plain = _without_parameters(emission)
    if plain.given_states is not None:  # a prior for each state
        assert_same(plain.permute(order), _without_parameters(moved))
    with pytest.raises(DataError, match="each of the states"):
        emission.permute([0, 0, 1])


@each
def test_round_trip_through_json_and_arrays(name: str) -> None:
    emission, values = example(name)
    arrays: dict[str, np.ndarray] = {}
    back = decode(json.loads(json.dumps(encode(emission, arrays))), arrays)
    assert type(back) is type(emission)
    assert back.n_states == 3
    assert back.log_prior() == emission.log_prior()
    np.testing.assert_array_equal(back.log_likelihood(values), emission.log_likelihood(values))
    assert repr(back) == repr(emission)


@each
def test_samples_come_from_the_density(name: str) -> None:
    emission, _ = example(name)
    rng = np.random.default_rng(7)
    states = np.repeat(np.arange(3), 4000)
    values = emission.check(emission.sample(states, rng))
    fitted = emission.maximise(emission.statistics(values, np.eye(3)[states]))
    # The likelihood of the truth falls short of the maximum by half a chi-squared of n_parameters.
    truth = np.sum(emission.log_likelihood(values)[np.arange(len(values)), states])
    best = np.sum(fitted.log_likelihood(values)[np.arange(len(values)), states])
    slack = emission.n_parameters + 6.0 * np.sqrt(emission.n_parameters)
    assert abs(best - truth) < slack
    same = emission.sample(states[:9], np.random.default_rng(1))
    np.testing.assert_array_equal(same, emission.sample(states[:9], np.random.default_rng(1)))


@each
def test_first_parameters_come_from_assignments_and_given_ones_stay(name: str) -> None:
    emission, values = example(name, n=400)
    rng = np.random.default_rng(0)
    assert_same(emission.initialise(values, posterior_of(len(values)), rng), emission)
    plain = _without_parameters(emission)
    assert plain.n_states is None
    first = plain.initialise(plain.check(values), posterior_of(len(values)), rng)
    assert first.n_states == 3
    assert np.isfinite(first.log_likelihood(values)).all()
    points = plain.points(values)
    assert len(points) == len(values)
    assert np.isfinite(points).all()
    with pytest.raises(UnsupportedError, match="no parameters"):
        plain.log_likelihood(plain.check(values))


def _without_parameters(emission: Emission) -> Emission:
    if isinstance(emission, Product):
        return Product([(columns, _without_parameters(part)) for columns, part in emission.parts])
    fields = dataclasses.fields(emission)
    arrays = [f.name for f in fields if isinstance(getattr(emission, f.name), np.ndarray)]
    arrays = [name for name in arrays if name != "prior_mean"]
    return dataclasses.replace(emission, **dict.fromkeys(arrays))


def test_numbers_of_parameters() -> None:
    numbers = {name: example(name)[0].n_parameters for name in NAMES}
    assert numbers["categorical"] == 3 * 4
    assert numbers["poisson"] == 3 * 2
    assert [numbers[kind] for kind in ("diag", "spherical", "full", "tied")] == [18, 12, 27, 15]
    assert numbers["mixture full"] == 3 + 6 * 3 + 6 * 6
    assert numbers["mixture state"] == 3 + 6 * 3 + 3 * 6
    assert numbers["multinomial"] == 3 * 3
    assert numbers["product"] == 3 * 3 + 3 * 2 + 3 * 3 + 3


class Exponential(Emission):
    """Waiting times, written by a user as a plain class."""

    def __init__(self, rates: np.ndarray | None = None) -> None:
        self.rates = rates
        self.n_states = None if rates is None else len(rates)

    def log_likelihood(self, values: np.ndarray) -> np.ndarray:
        assert self.rates is not None
        return np.where(np.isnan(values), 0.0, np.log(self.rates) - values * self.rates)

    def statistics(self, values: np.ndarray, posterior: np.ndarray) -> dict[str, np.ndarray]:
        there = ~np.isnan(values[:, 0])
        return {"weight": posterior[there].sum(axis=0), "sum": posterior[there].T @ values[there, 0]}

    def maximise(self, statistics: Mapping[str, np.ndarray]) -> Exponential:
        return Exponential(statistics["weight"] / statistics["sum"])

    def sample(self, states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        assert self.rates is not None
        return rng.exponential(1.0 / self.rates[states])


def test_four_methods_make_an_emission() -> None:
    rng = np.random.default_rng(0)
    truth = Exponential(np.array([1.0, 10.0]))
    states = rng.integers(0, 2, 5000)
    values = truth.check(truth.sample(states, rng))
    values[3] = np.nan
    fitted = Exponential().initialise(values, np.eye(2)[states], rng)
    np.testing.assert_allclose(fitted.rates, truth.rates, rtol=0.1)
    scaled, shift = fitted.scaled_likelihood(values)
    assert scaled.max() == 1.0
    assert shift[3] == 0.0
    with pytest.raises(UnsupportedError, match="expected_log_likelihood"):
        fitted.expected_log_likelihood({})
    with pytest.raises(UnsupportedError, match="n_parameters"):
        _ = fitted.n_parameters
    with pytest.raises(UnsupportedError, match="dataclass"):
        fitted.permute([1, 0])
    with pytest.raises(UnsupportedError, match="register"):
        encode(fitted, {})


def test_files_can_name_only_registered_emissions() -> None:
    with pytest.raises(ModelFileError, match="unknown kind 'Nothing'"):
        decode({"@": "Nothing"}, {})
    with pytest.raises(UnsupportedError, match="make it a dataclass"):
        emissions.register(Exponential)
    arrays: dict[str, np.ndarray] = {}
    stored = encode(Categorical(2, [[0.5, 0.5]]), arrays)
    with pytest.raises(DataError, match="add up to 1"):
        decode(stored, {**arrays, "probabilities": np.ones((1, 2))})


def test_an_emission_from_outside_the_package_is_learned_and_saved(tmp_path: Path) -> None:
    @emissions.register
    @dataclasses.dataclass(frozen=True, eq=False)
    class WaitingTime(Exponential):
        rates: np.ndarray | None = None

        def __post_init__(self) -> None:
            object.__setattr__(self, "n_states", None if self.rates is None else len(self.rates))

        def maximise(self, statistics: Mapping[str, np.ndarray]) -> WaitingTime:
            return WaitingTime(statistics["weight"] / statistics["sum"])

        def expected_log_likelihood(self, statistics: Mapping[str, np.ndarray]) -> float:
            return float(statistics["weight"] @ np.log(self.rates) - statistics["sum"] @ self.rates)

    truth = HMM(
        2,
        WaitingTime(np.array([1.0, 30.0])),
        initial=[0.5, 0.5],
        transitions=[[0.95, 0.05], [0.05, 0.95]],
    )
    x, _ = truth.sample(5000, random_state=0)
    x[7] = np.nan
    model = HMM(2, WaitingTime(), random_state=0).fit(x)
    assert np.diff(model.history_["primal"]).max() <= 1e-9
    np.testing.assert_allclose(np.sort(model.emission_.rates), [1.0, 30.0], rtol=0.1)
    np.testing.assert_allclose(model.permute([1, 0]).emission_.rates, model.emission_.rates[::-1])
    model.save(tmp_path / "own.trellis")
    np.testing.assert_array_equal(load(tmp_path / "own.trellis").smooth(x), model.smooth(x))


def test_posteriors_of_the_wrong_shape_are_refused() -> None:
    emission, values = example("diag")
    with pytest.raises(DataError, match=r"must have shape \(150, 3\)"):
        emission.statistics(values, np.ones((150, 2)))


def test_records_do_not_share_their_arrays() -> None:
    means = np.zeros((2, 1))
    emission = Gaussian("diag", means, np.ones((2, 1)))
    means[0] = 5.0
    assert emission.means is not None
    assert emission.means[0, 0] == 0.0
    with pytest.raises(ValueError, match="read-only"):
        emission.means[0] = 1.0
