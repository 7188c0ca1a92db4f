"""Whatever holds sequences is read as what it is: iterators, tables, masks; and what is not is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from trellis import HMM, IOHMM, SpectralHMM
from trellis.core.errors import DataError, TrellisError
from trellis.hmm.emissions import Categorical, Gaussian, GaussianMixture

CHAIN: Any = {"initial": [0.5, 0.5], "transitions": [[0.9, 0.1], [0.2, 0.8]]}
NORMAL = HMM(2, Gaussian(means=[[0.0, 0.0], [3.0, 1.0]], covariances=np.ones((2, 2))), **CHAIN)
SYMBOLS = HMM(2, Categorical(3, [[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]]), **CHAIN)
X = [np.random.default_rng(i).normal(size=(4 + i, 2)) for i in range(3)]


class Table:
    """A data frame, as far as it matters here: iterating over it gives the names of its columns."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.values, dtype)

    def __iter__(self) -> Any:
        return iter(["a", "b"])


def test_sequences_that_come_one_by_one() -> None:
    assert_allclose(NORMAL.log_likelihood(x for x in X), NORMAL.log_likelihood(X))
    states = [np.arange(len(x)) % 2 for x in X]
    fitted = HMM(2, Gaussian()).fit((x for x in X), (s for s in states))
    assert_array_equal(fitted.transitions_, HMM(2, Gaussian()).fit(X, states).transitions_)


def test_a_table_is_one_array() -> None:
    assert_array_equal(NORMAL.decode(Table(X[0])), NORMAL.decode(X[0]))
    both = np.concatenate(X)
    lengths = [len(x) for x in X]
    assert_array_equal(NORMAL.smooth(Table(both), lengths=lengths), NORMAL.smooth(both, lengths=lengths))
    assert_array_equal(SYMBOLS.decode(Table(np.array([0, 2, 2]))), SYMBOLS.decode(np.array([0, 2, 2])))


def test_an_array_of_arrays_is_a_list() -> None:
    ragged = np.empty(3, object)
    ragged[:] = X
    assert_allclose(NORMAL.log_likelihood(ragged), NORMAL.log_likelihood(X))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int8, np.uint64, np.float32])
def test_a_masked_symbol_is_missing_whatever_its_type(dtype: Any) -> None:
    model = HMM(1, Categorical(256, np.full((1, 256), 1 / 256)), initial=[1.0], transitions=[[1.0]])
    x = np.ma.array(np.array([0, 99, 2], dtype), mask=[False, True, False])
    assert_allclose(model.log_likelihood(x), 2 * np.log(1 / 256))
    assert_allclose(model.log_likelihood([x, [1]]), [2 * np.log(1 / 256), np.log(1 / 256)])


def test_masks_next_to_plain_and_empty_sequences() -> None:
    masked = np.ma.array(X[0], mask=np.arange(8).reshape(4, 2) % 3 == 0)
    filled = masked.filled(np.nan)
    assert_allclose(NORMAL.log_likelihood([[], masked, X[1]]), NORMAL.log_likelihood([[], filled, X[1]]))


def test_states_with_gaps() -> None:
    expected = HMM(2, Gaussian()).fit(X[0], np.array([0, -1, 1, 0])).transitions_
    for states in (
        np.ma.array([0, 1, 1, 0], mask=[False, True, False, False]),
        np.array([0, np.nan, 1, 0]),
        [0, None, 1, 0],
    ):
        assert_array_equal(HMM(2, Gaussian()).fit(X[0], states).transitions_, expected)


def test_masked_observations_with_inputs() -> None:
    """A list of masked arrays used to lose its masks."""
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=(len(x), 1)) for x in X]
    masked = [np.ma.array(x, mask=rng.random(x.shape) < 0.3) for x in X]
    model = IOHMM(2, max_iter=3, n_init=1, random_state=0)
    one = clone(model).fit(masked, inputs).objectives_
    assert_array_equal(one, clone(model).fit([m.filled(np.nan) for m in masked], inputs).objectives_)
    model.set_params(emission="categorical")
    symbols = [np.ma.array(rng.integers(3, size=len(x)), mask=np.arange(len(x)) == 1) for x in X]
    one = clone(model).fit(symbols, inputs).objectives_
    assert_array_equal(one, clone(model).fit([s.filled(-1) for s in symbols], inputs).objectives_)


def test_masked_symbols_of_one_byte_make_no_new_symbol() -> None:
    rng = np.random.default_rng(0)
    x = [np.ma.array(rng.integers(3, size=20).astype(np.uint8), mask=rng.random(20) < 0.1) for _ in range(50)]
    assert len(SpectralHMM(1).fit(x).operators_.basis) == 3
    with pytest.raises(DataError, match="number the symbols"):
        SpectralHMM(1).fit([[0, 10**12, 1]] * 3)


def test_no_samples() -> None:
    assert NORMAL.sample([]) == ([], [])
    assert len(NORMAL.sample([0])[0]) == 1


def test_a_number_of_states_that_was_changed() -> None:
    """The fitted model has two states: asking it about a third read beyond its arrays."""
    model = HMM(2, Gaussian(), random_state=0).fit(X).set_params(n_states=3)
    for ask in (
        lambda: model.log_joint(X[0], [2, 2, 2, 2]),
        lambda: model.n_parameters,
        lambda: model.partial_fit(X),
        lambda: model.to_state(),
    ):
        with pytest.raises(TrellisError, match="fitted with n_states=2"):
            ask()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: NORMAL.log_likelihood(3.0), "X is 3.0"),
        (lambda: NORMAL.predict_next(X, 1.5), "steps is 1.5"),
        (lambda: NORMAL.decode_k_best(X, "2"), "k is '2'"),
        (
            lambda: NORMAL.log_likelihood(np.array([[0.0, 1e200]])),
            "step 0 of sequence 0: column 1 of X is 1e.200, .* scale the data",
        ),
        (lambda: HMM(2, Gaussian(), tol="small").fit(X), "tol is 'small'"),
        (lambda: HMM(2, Gaussian(), n_jobs="all").fit(X), "n_jobs is 'all'"),
        (lambda: HMM(2, Gaussian(), random_state="seed").fit(X), "random_state is 'seed'"),
        (lambda: HMM(2, Gaussian(), tied_transitions=3).fit(X), "tied_transitions is 3"),
        (lambda: HMM(2, Gaussian(), tied_transitions=[[0], [1]]).fit(X), "tied_transitions is"),
        (lambda: HMM(2, Gaussian(), transition_pseudocount="one").fit(X), "transition_pseudocount is 'one'"),
        (lambda: Categorical("ab"), "n_symbols is 'ab'"),
        (lambda: Categorical(np.nan), "n_symbols is nan"),
        (lambda: GaussianMixture(2.5), "n_components is 2.5"),
        (lambda: Gaussian(min_variance="small"), "min_variance is 'small'"),
    ],
)
def test_what_is_wrong_is_said(call: Any, words: str) -> None:
    with pytest.raises(TrellisError, match=words):
        call()


def test_a_generator_as_seed() -> None:
    fits = [HMM(2, Gaussian(), random_state=np.random.default_rng(5)).fit(X).transitions_ for _ in range(2)]
    assert_array_equal(*fits)
