"""Spectral learning: exact moments give exact probabilities, and errors of samples shrink as they should."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trellis import HMM, SpectralHMM, load
from trellis.core import storage
from trellis.core.errors import DataError, ModelFileError, NumericalError, UnsupportedError
from trellis.hmm.emissions import Categorical
from trellis.hmm.spectral import SpectralWarning
from trellis.hmm.spectral.moments import compute_spectrum, extract_triples, pair_frequencies, sampling_noise
from trellis.hmm.spectral.recovery import recover


class Truth(NamedTuple):
    initial: np.ndarray  # (K,)
    A: np.ndarray  # (K, K), from row to column
    B: np.ndarray  # (K, M)

    def probability(self, x: tuple[int, ...], initial: np.ndarray | None = None) -> float:
        """By the forward recursion; -1 is a missing symbol."""
        alpha = self.initial if initial is None else initial
        for t, symbol in enumerate(x):
            alpha = (alpha if t == 0 else alpha @ self.A) * (1.0 if symbol < 0 else self.B[:, symbol])
        return float(alpha.sum())

    def triples(self, initial: np.ndarray | None = None) -> np.ndarray:
        """p(x_3 = i, x_2 = x, x_1 = j), by its definition."""
        start = self.initial if initial is None else initial
        return np.einsum("a,aj,ab,bx,bc,ci->ixj", start, self.B, self.A, self.B, self.A, self.B)

    def sample(self, n: int, length: int, rng: np.random.Generator) -> np.ndarray:
        """(n, length) symbols."""
        X = np.empty((n, length), np.int64)
        states = np.searchsorted(np.cumsum(self.initial), rng.random(n) * (1 - 1e-12))
        for t in range(length):
            if t:
                states = (np.cumsum(self.A, axis=1)[states] < rng.random((n, 1)) * (1 - 1e-12)).sum(axis=1)
            X[:, t] = (np.cumsum(self.B, axis=1)[states] < rng.random((n, 1)) * (1 - 1e-12)).sum(axis=1)
        return X


def random_truth(seed: int, n_states: int, n_symbols: int, concentration: float = 0.5) -> Truth:
    rng = np.random.default_rng(seed)
    return Truth(
        rng.dirichlet(np.ones(n_states)),
        rng.dirichlet(np.full(n_states, concentration), n_states),
        rng.dirichlet(np.full(n_symbols, concentration), n_states),
    )


TRUTH = Truth(
    np.array([0.6, 0.3, 0.1]),
    np.array([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]]),
    np.array([[0.7, 0.1, 0.1, 0.1], [0.1, 0.7, 0.1, 0.1], [0.05, 0.05, 0.2, 0.7]]),
)


def exact_model(truth: Truth = TRUTH, **options: object) -> SpectralHMM:
    first = truth.initial @ truth.B
    return SpectralHMM(len(truth.A), **options).fit_moments(truth.triples(), first)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), n_states=st.integers(1, 4), extra=st.integers(0, 3))
def test_exact_moments_give_exact_probabilities(seed: int, n_states: int, extra: int) -> None:
    truth = random_truth(seed, n_states, n_states + extra, concentration=2.0)
    pairs = truth.triples().sum(axis=0)
    singular = np.linalg.svd(pairs, compute_uv=False)
    condition = singular[0] / singular[n_states - 1]
    assume(condition < 1e6)
    model = exact_model(truth, on_negative="keep")
    X = [list(x) for x in product(range(-1, n_states + extra), repeat=3)]
    expected = [truth.probability(tuple(x)) for x in X]
    np.testing.assert_allclose(model.joint_probability(X), expected, atol=1e-13 * condition)
    assert model.rank_ == n_states


def test_all_sequences_of_a_length_have_probability_one() -> None:
    X = [list(x) for x in product(range(4), repeat=5)]
    assert exact_model().joint_probability(X).sum() == pytest.approx(1.0, abs=1e-10)


def test_where_the_triples_come_from_cancels() -> None:
    """Triples of a later position, the beginning from first symbols: the same probabilities."""
    later = TRUTH.initial @ np.linalg.matrix_power(TRUTH.A, 4)
    model = SpectralHMM(3).fit_moments(TRUTH.triples(later), TRUTH.initial @ TRUTH.B)
    X = [list(x) for x in product(range(4), repeat=4)]
    np.testing.assert_allclose(
        model.joint_probability(X), [TRUTH.probability(tuple(x)) for x in X], atol=1e-12
    )


def test_conditionals_and_predictions_against_the_forward_recursion() -> None:
    model = exact_model()
    rng = np.random.default_rng(0)
    X = [rng.integers(-1, 4, size=n) for n in (6, 1, 0, 3)]
    for x, p in zip(X, model.conditional_probabilities(X), strict=True):
        whole = [TRUTH.probability(tuple(x[:t])) for t in range(len(x) + 1)]
        np.testing.assert_allclose(p, np.array(whole[1:]) / np.array(whole[:-1]), rtol=1e-9)
    for steps in (1, 2, 5):
        found = model.predict_next(X, steps=steps)
        for x, row in zip(X, found, strict=True):
            between = (*x, *[-1] * (steps - 1))
            expected = [TRUTH.probability((*between, m)) / TRUTH.probability(tuple(x)) for m in range(4)]
            np.testing.assert_allclose(row, expected, rtol=1e-8)


def test_long_sequences_do_not_underflow() -> None:
    x = TRUTH.sample(1, 20_000, np.random.default_rng(0))[0]
    alpha, expected = TRUTH.initial * TRUTH.B[:, x[0]], 0.0
    for symbol in x[1:]:
        expected += np.log(alpha.sum())
        alpha = (alpha / alpha.sum()) @ TRUTH.A * TRUTH.B[:, symbol]
    expected += np.log(alpha.sum())
    model = exact_model()
    assert model.log_likelihood(x)[0] == pytest.approx(expected, rel=1e-9)
    assert model.joint_probability(x)[0] == 0.0
    parts = model.log_likelihood(x, lengths=[5_000, 0, 15_000])
    assert parts[1] == pytest.approx(0.0, abs=1e-12)
    assert len(parts) == 3


def test_the_matrices_come_back_up_to_the_names_of_the_states() -> None:
    found = exact_model(random_state=0).recover()
    order = min(permutations(range(3)), key=lambda p: np.abs(found.emissions - TRUTH.B[list(p)]).sum())
    at = list(order)
    np.testing.assert_allclose(found.emissions, TRUTH.B[at], atol=1e-8)
    np.testing.assert_allclose(found.transitions, TRUTH.A[np.ix_(at, at)], atol=1e-8)
    np.testing.assert_allclose(found.initial, TRUTH.initial[at], atol=1e-8)
    assert found.correction < 1e-8
    assert found.separation > 0.1


def test_em_goes_on_from_the_recovered_matrices() -> None:
    X = list(TRUTH.sample(2_000, 10, np.random.default_rng(2)))
    spectral = SpectralHMM(3, random_state=0).fit(X)
    hmm = spectral.to_hmm(max_iter=20).fit(X)
    found = spectral.recover()
    np.testing.assert_allclose(hmm.emission_.probabilities, found.emissions, atol=0.1)
    np.testing.assert_allclose(hmm.emission_.probabilities.sum(axis=1), 1.0)
    truth = HMM(3, Categorical(4, probabilities=TRUTH.B), initial=TRUTH.initial, transitions=TRUTH.A)
    assert np.sum(hmm.log_likelihood(X)) > np.sum(truth.log_likelihood(X))


def error_of(model: SpectralHMM, truth: Truth, length: int = 3) -> float:
    """Total variation over all sequences of a length, twice."""
    X = [list(x) for x in product(range(truth.B.shape[1]), repeat=length)]
    return float(np.abs(model.joint_probability(X) - [truth.probability(tuple(x)) for x in X]).sum())


@pytest.mark.filterwarnings("ignore:estimates will be poor")
def test_the_error_shrinks_like_one_over_the_root_of_the_sample_size() -> None:
    rng = np.random.default_rng(1)
    sizes = [2_000, 16_000, 128_000]
    errors = []
    for n in sizes:
        models = [SpectralHMM(3, 4, on_negative="keep").fit(list(TRUTH.sample(n, 3, rng))) for _ in range(4)]
        errors.append(np.mean([error_of(model, TRUTH) for model in models]))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.7 < slope < -0.35
    assert errors[-1] < 0.03


def test_recovery_from_samples_is_near_the_truth() -> None:
    X = TRUTH.sample(20_000, 8, np.random.default_rng(2))
    found = SpectralHMM(3, random_state=0).fit(list(X)).recover()
    at = list(min(permutations(range(3)), key=lambda p: np.abs(found.emissions - TRUTH.B[list(p)]).sum()))
    np.testing.assert_allclose(found.emissions, TRUTH.B[at], atol=0.05)
    np.testing.assert_allclose(found.transitions, TRUTH.A[np.ix_(at, at)], atol=0.08)
    np.testing.assert_allclose(found.initial, TRUTH.initial[at], atol=0.05)
    for part in (found.initial, found.transitions, found.emissions):
        np.testing.assert_allclose(part.sum(axis=-1), 1.0)
        assert (part >= 0).all()


@pytest.mark.filterwarnings("ignore:estimates will be poor")
def test_fitting_counts_the_triples_it_says() -> None:
    """Against moments counted one by one: all triples, and first symbols for the beginning."""
    rng = np.random.default_rng(3)
    X = [rng.integers(-1, 4, size=n) for n in rng.integers(0, 9, size=200)]
    weight = rng.integers(0, 3, size=200).astype(float)
    for which in ("all", "first"):
        table, first = np.zeros((4, 4, 4)), np.zeros(4)
        for x, w in zip(X, weight, strict=True):
            if len(x) and x[0] >= 0:
                first[x[0]] += w
            for t in range(len(x) - 2)[: None if which == "all" else 1]:
                if (x[t : t + 3] >= 0).all():
                    table[x[t + 2], x[t + 1], x[t]] += w
        a = SpectralHMM(2, 4, triples=which, on_negative="keep")
        b = SpectralHMM(2, 4, on_negative="keep").fit_moments(table, first)
        a.fit(X, sample_weight=weight)
        queries = [list(x) for x in product(range(4), repeat=3)]
        np.testing.assert_allclose(a.joint_probability(queries), b.joint_probability(queries), atol=1e-12)
        np.testing.assert_allclose(a.singular_values_, b.singular_values_, atol=1e-14)


def test_weights_are_repetitions() -> None:
    X = list(TRUTH.sample(300, 5, np.random.default_rng(4)))
    times = np.random.default_rng(5).integers(0, 4, size=300)
    weighted = SpectralHMM(3, 4, on_negative="keep").fit(X, sample_weight=times)
    repetitions = [x for x, n in zip(X, times, strict=True) for _ in range(n)]
    repeated = SpectralHMM(3, 4, on_negative="keep").fit(repetitions)
    np.testing.assert_allclose(weighted.joint_probability(X), repeated.joint_probability(X), rtol=1e-8)
    np.testing.assert_allclose(weighted.noise_, repeated.noise_)


def test_one_array_with_lengths_is_the_list() -> None:
    X = TRUTH.sample(400, 6, np.random.default_rng(6))
    a = SpectralHMM(3).fit(list(X))
    b = SpectralHMM(3).fit(X.ravel(), lengths=[6] * 400)
    np.testing.assert_array_equal(a.operators_.steps, b.operators_.steps)
    parts = a.conditional_probabilities(list(X[:5]))
    np.testing.assert_array_equal(
        a.conditional_probabilities(X[:5].ravel(), lengths=[6] * 5), np.ravel(parts)
    )
    np.testing.assert_array_equal(a.conditional_probabilities(X[0]), parts[0])


def test_one_long_sequence_starts_from_the_average() -> None:
    x = TRUTH.sample(1, 60_000, np.random.default_rng(7))[0]
    with pytest.raises(UnsupportedError, match="average"):
        SpectralHMM(3).fit(x)
    model = SpectralHMM(3, initial="average").fit(x)
    stationary = np.linalg.matrix_power(TRUTH.A, 200)[0]
    X = [list(s) for s in product(range(4), repeat=2)]
    expected = [TRUTH.probability(tuple(s), stationary) for s in X]
    np.testing.assert_allclose(model.joint_probability(X), expected, atol=0.01)


@pytest.mark.filterwarnings("ignore:estimates will be poor")
def test_many_symbols_use_the_sparse_decomposition() -> None:
    """700 symbols in pairs that mean the same: the answer of 350 symbols, which are decomposed densely."""
    truth = random_truth(8, 3, 350, concentration=1.0)
    rng = np.random.default_rng(9)
    X = truth.sample(3_000, 8, rng)
    small = SpectralHMM(3, 350, on_negative="keep").fit(list(X))
    large = SpectralHMM(3, 700, on_negative="keep").fit(list(2 * X))
    np.testing.assert_allclose(small.singular_values_, large.singular_values_, rtol=1e-8)
    np.testing.assert_allclose(
        small.joint_probability(list(X[:50])), large.joint_probability(list(2 * X[:50])), rtol=1e-6
    )


@pytest.mark.filterwarnings("ignore:estimates will be poor")
def test_negative_probabilities_are_reported_where_they_are() -> None:
    truth = random_truth(11, 3, 8, concentration=0.2)
    rng = np.random.default_rng(0)
    model = SpectralHMM(3, 8, on_negative="keep").fit(list(truth.sample(400, 6, rng)))
    X = [rng.integers(8, size=n) for n in (7, 0, 5, 9)]
    operators = model.operators_
    values, places = [], []
    for i, x in enumerate(X):
        b = operators.start.copy()
        for t, symbol in enumerate(x):
            values.append(operators.readout[:-1] @ b)
            places.append((i, t))
            moved = operators.steps[symbol] @ b
            mass = operators.normaliser @ moved
            b = moved / mass if mass else operators.average
    values = np.array(values)
    report = model.negative_probabilities(X)
    assert report.n_probabilities == values.size
    assert report.n_negative == (values < 0).sum() > 0
    observed = values[np.arange(len(values)), np.concatenate(X)]
    assert report.n_negative_observed == (observed < 0).sum()
    row, symbol = np.unravel_index(values.argmin(), values.shape)
    assert report.most_negative == pytest.approx(values.min())
    assert (report.sequence, report.step, report.symbol) == (*places[row], symbol)
    assert f"{report.n_negative:,} of {values.size:,} probabilities are negative" in str(report)
    assert "none of" in str(exact_model().negative_probabilities([[0, 1, 2]]))


@pytest.mark.filterwarnings("ignore:estimates will be poor")
def test_what_becomes_of_negative_probabilities() -> None:
    truth = random_truth(11, 3, 8, concentration=0.2)
    X = list(truth.sample(400, 6, np.random.default_rng(0)))
    keep = SpectralHMM(3, 8, on_negative="keep").fit(X)
    clip = SpectralHMM(3, 8, on_negative="clip", floor=1e-6).fit(X)
    error = SpectralHMM(3, 8, on_negative="error").fit(X)
    queries = [list(x) for x in product(range(8), repeat=3)]
    signed = keep.joint_probability(queries)
    wrong = signed < 0
    assert wrong.any()
    logs = keep.log_likelihood(queries)
    np.testing.assert_array_equal(np.isnan(logs), wrong)
    np.testing.assert_allclose(np.exp(logs[~wrong]), signed[~wrong], rtol=1e-9)
    with pytest.warns(SpectralWarning, match="estimates are negative"):
        assert (clip.joint_probability(queries) > 0).all()
    with pytest.warns(SpectralWarning, match=r"at sequence \d+, symbol \d"):
        predicted = clip.predict_next(queries)
    assert (predicted > 0).all()
    np.testing.assert_allclose(predicted.sum(axis=1), 1.0)
    with pytest.raises(NumericalError, match=r"are negative, the first is -.* step \d+ of sequence \d"):
        error.log_likelihood(queries)
    assert (keep.predict_next(queries) < 0).any()


def test_a_symbol_that_never_occurred_has_probability_zero() -> None:
    model = SpectralHMM(2, 5, on_negative="keep").fit(list(TRUTH.sample(500, 4, np.random.default_rng(0))))
    assert model.joint_probability([[0, 4, 1]])[0] == 0.0
    assert model.log_likelihood([[0, 4, 1]])[0] == -np.inf
    clipped = SpectralHMM(2, 5).fit(list(TRUTH.sample(500, 4, np.random.default_rng(0))))
    assert clipped.log_likelihood([[0, 4, 1]])[0] == pytest.approx(
        np.log(1e-10) + clipped.log_likelihood([[0]])[0] + np.log(clipped.predict_next([[0, 4]])[0, 1]),
        rel=0.2,
    )


def test_the_rank_condition_is_reported_with_the_singular_values() -> None:
    twins = Truth(TRUTH.initial, TRUTH.A, TRUTH.B[[0, 1, 1]])
    with pytest.raises(NumericalError, match=r"show 2 of 3 states \(singular values .*use n_states=2"):
        exact_model(twins)
    with pytest.warns(SpectralWarning, match="estimates will be poor"):
        model = SpectralHMM(3, 4).fit(list(twins.sample(3_000, 3, np.random.default_rng(0))))
    assert model.rank_ == 2
    with pytest.raises(NumericalError, match="cannot be recovered: the rank condition fails"):
        model.recover()
    assert SpectralHMM(2, 4).fit(list(twins.sample(3_000, 3, np.random.default_rng(0)))).rank_ == 2


def test_states_that_go_on_alike_fail_the_rank_condition() -> None:
    A = np.array([[0.8, 0.1, 0.1], [0.2, 0.2, 0.6], [0.2, 0.2, 0.6]])
    with pytest.raises(NumericalError, match="show 2 of 3"):
        exact_model(Truth(TRUTH.initial, A, TRUTH.B))


def test_operators_of_no_model_are_refused_by_recovery() -> None:
    rng = np.random.default_rng(0)
    operators = exact_model().operators_
    steps = operators.steps.copy()
    steps[-1, :, 0] = steps[-1, :, 1]
    with pytest.raises(NumericalError, match="transition matrix is singular"):
        recover(operators._replace(steps=steps), 10, rng)
    turn = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    steps[:-1], steps[-1] = turn, np.eye(3)
    with pytest.raises(NumericalError, match="none of 10 random projections has real eigenvalues"):
        recover(operators._replace(steps=steps), 10, rng)


def test_the_noise_level_is_what_singular_values_of_zero_come_out_as() -> None:
    """States 1 and 2 emit alike, so the third singular value is noise; the second is not."""
    twins = Truth(TRUTH.initial, TRUTH.A, TRUTH.B[[0, 1, 1]])
    rng = np.random.default_rng(0)
    for n in (500, 8_000):
        found = []
        for _ in range(20):
            X = twins.sample(n, 3, rng)
            triples = extract_triples(X.ravel(), np.arange(0, 3 * n + 1, 3), np.ones(n), only_first=False)
            pairs = pair_frequencies(triples, 4)
            spectrum = compute_spectrum(pairs, 3)
            noise = sampling_noise(pairs, spectrum, triples.total)
            assert spectrum.values[1] > noise[1]
            found.append(spectrum.values[2] / noise[2])
        assert 0.5 < np.mean(found) < 1.0


def test_complex_arrays_of_real_eigenvalues_are_real(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's ``eig`` always returns complex arrays since 2.5, and before only where a value is complex."""
    model = SpectralHMM(3, random_state=3).fit(list(TRUTH.sample(500, 6, np.random.default_rng(0))))
    before, eig = model.recover(), np.linalg.eig
    for kind in (np.real_if_close, np.complex128):
        monkeypatch.setattr(np.linalg, "eig", lambda a, kind=kind: tuple(kind(part) for part in eig(a)))
        after = model.recover()
        assert after.emissions.dtype == np.float64
        np.testing.assert_array_equal(after.emissions, before.emissions)


def test_round_trip(tmp_path: Path) -> None:
    X = list(TRUTH.sample(500, 6, np.random.default_rng(0)))
    model = SpectralHMM(3, random_state=3).fit(X)
    model.save(tmp_path / "spectral.trellis")
    loaded = load(tmp_path / "spectral.trellis")
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.log_likelihood(X), model.log_likelihood(X))
    np.testing.assert_array_equal(loaded.recover().emissions, model.recover().emissions)
    assert (loaded.rank_, loaded.n_triples_) == (model.rank_, 2_000)
    np.testing.assert_array_equal(loaded.noise_, model.noise_)
    meta, arrays = model.to_state()
    for name in ("operators_.steps", "operators_.basis", "operators_.start", "noise_"):
        storage.save(
            tmp_path / "bad", "SpectralHMM", {**meta, "extra": {}}, {**arrays, name: arrays[name][1:]}
        )
        with pytest.raises(ModelFileError, match="damaged"):
            load(tmp_path / "bad")


def test_what_cannot_be_learned_is_said() -> None:
    X = [[0, 1, 2], [2, 1, 0, 1]]
    for options, words in [
        ({"n_states": 0}, "n_states"),
        ({"n_states": 9}, "at least as many symbols"),
        ({"n_states": 2, "triples": "some"}, "triples"),
        ({"n_states": 2, "initial": "last"}, "initial"),
        ({"n_states": 2, "on_negative": "hide"}, "on_negative"),
        ({"n_states": 2, "floor": 0.0}, "floor"),
        ({"n_states": 2, "n_symbols": 2}, "step 2 of sequence 0: symbol 2 is not valid"),
    ]:
        with pytest.raises(DataError, match=words):
            SpectralHMM(**options).fit(X)
    with pytest.raises(DataError, match="length 3 or more"):
        SpectralHMM(2).fit([[0, 1], [1]])
    with pytest.raises(DataError, match="sample_weight"):
        SpectralHMM(2).fit(X, sample_weight=[1.0])
    with pytest.raises(DataError, match="triples of shape"):
        SpectralHMM(2).fit_moments(np.ones((2, 3)))
    with pytest.raises(DataError, match="initial of shape"):
        SpectralHMM(2).fit_moments(TRUTH.triples(), [0.5, 0.5])
    with pytest.raises(DataError, match="steps"):
        exact_model().predict_next(X, steps=0)
    with pytest.raises(DataError, match="symbol 7"):
        exact_model().log_likelihood([[0, 7]])


def test_the_gap_after_the_last_state_is_seen() -> None:
    spectrum = compute_spectrum(TRUTH.triples().sum(axis=0), 3)
    assert len(spectrum.values) == 4
    assert spectrum.values[3] < 1e-12 < spectrum.values[2]
