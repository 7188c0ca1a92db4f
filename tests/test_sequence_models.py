"""HMM, IOHMM, SpectralHMM and LinearGaussian: one meaning of ``score``, and the same error for the same
mistake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from trellis import HMM, IOHMM, LinearGaussian, SpectralHMM, emissions
from trellis.core.errors import DataError

LENGTHS = [9, 4, 12]


@dataclass
class Case:
    """A model, data for it, and what goes with them to every question."""

    model: Any
    X: list[np.ndarray]
    others: tuple[Any, ...] = ()

    def fit(self, X: Any = None, **options: Any) -> Any:
        return clone(self.model).set_params(**options).fit(self.X if X is None else X, *self.others)


def normal(seed: int, columns: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, columns)) for n in LENGTHS]


def symbols() -> list[np.ndarray]:
    truth = HMM(
        2,
        emissions.Categorical(3, [[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]),
        initial=[0.5, 0.5],
        transitions=[[0.9, 0.1], [0.2, 0.8]],
    )
    return truth.sample([40] * 30, random_state=0)[0]


CASES = {
    "hmm": Case(HMM(2, emissions.Gaussian(), max_iter=3, random_state=0), normal(0, 2)),
    "io_hmm": Case(IOHMM(2, max_iter=3, n_init=1, random_state=0), normal(0, 2), (normal(1, 1),)),
    "linear_gaussian": Case(LinearGaussian(2, max_iter=3, random_state=0), normal(0, 2)),
    "spectral": Case(SpectralHMM(2), symbols()),
}
each = pytest.mark.parametrize("name", CASES)
of_numbers = pytest.mark.parametrize("name", [name for name in CASES if name != "spectral"])


@each
def test_score_is_the_mean_log_likelihood_of_a_step(name: str) -> None:
    case = CASES[name]
    model = case.fit()
    totals = model.log_likelihood(case.X, *case.others)
    assert totals.shape == (len(case.X),)
    score = model.score(case.X, *case.others)
    assert score == pytest.approx(totals.sum() / sum(map(len, case.X)), rel=1e-12)
    twice = [2 * others for others in case.others]
    assert model.score(2 * case.X, *twice) == pytest.approx(score, rel=1e-9)
    lengths = [len(x) for x in case.X]
    flat = [np.concatenate(part) for part in (case.X, *case.others)]
    assert model.score(*flat, lengths=lengths) == pytest.approx(score, rel=1e-9)


Mistake = Callable[[Case], Any]


def spoiled(change: Callable[[np.ndarray], Any]) -> Mistake:
    """A fit to the data with every sequence changed, and with the first one changed alone."""

    def fit(case: Case) -> None:
        with pytest.raises(DataError) as error:
            case.fit([change(case.X[0]), *case.X[1:]])
        assert "\n" not in str(error.value)
        case.fit([change(x) for x in case.X])

    return fit


def ask(X: Any) -> Mistake:
    return lambda case: case.fit().log_likelihood(X, *case.others)


MISTAKES: dict[str, tuple[Mistake, str]] = {
    "no states": (lambda case: case.fit(n_states=0), "n_states is 0; give a whole number of at least 1"),
    "half a state": (lambda case: case.fit(n_states=1.5), "n_states is 1.5; give a whole number"),
    "other states": (
        lambda case: case.fit().set_params(n_states=3).score(case.X, *case.others),
        "n_states is 3, but this .* was fitted with n_states=2; set it back, or fit again",
    ),
    "lengths": (
        lambda case: case.fit().score(
            *(np.concatenate(part) for part in (case.X, *case.others)), lengths=[1, 2]
        ),
        "lengths add up to 3, but .* rows; they must be equal",
    ),
    "lengths of a list": (
        lambda case: case.fit().score(case.X, *case.others, lengths=[len(x) for x in case.X]),
        "lengths belong to one array",
    ),
    "no sequences": (ask([]), "X has no sequences; give a list with at least one"),
    "single values": (ask([1.0, 2.0]), "X is a list of single values"),
    "no sequence": (ask(3), "X is 3; give a list of sequences"),
    "a dictionary": (ask({"a": 1.0}), "X is {'a': 1.0}; give a list of sequences"),
    "lengths that are not whole": (
        lambda case: case.fit().score(
            *(np.concatenate(part) for part in (case.X, *case.others)), lengths=[12.5, 12.5]
        ),
        r"lengths is \[12.5, 12.5\]; give a list of whole numbers",
    ),
    "true states": (lambda case: case.fit(n_states=True), "n_states is True; give a whole number"),
    "dates": (spoiled(lambda x: x.astype("datetime64[s]")), "numbers"),
    "durations": (spoiled(lambda x: x.astype("timedelta64[s]")), "numbers"),
    "a column of dates": (
        spoiled(
            lambda x: pd.DataFrame(
                {"t": pd.date_range("2020", periods=len(x)), "x": x.reshape(len(x), -1)[:, 0]}
            )
        ),
        "numbers",
    ),
    "dates as objects": (spoiled(lambda x: np.full(x.shape, np.datetime64("2020"), dtype=object)), "numbers"),
    "complex numbers": (spoiled(lambda x: x + 1j), "numbers"),
    "complex numbers as objects": (spoiled(lambda x: (x + 1j).astype(object)), "numbers"),
    "masked complex numbers": (spoiled(lambda x: np.ma.array(x + 1j, mask=False)), "numbers"),
    "masked dates": (spoiled(lambda x: np.ma.array(x.astype("datetime64[s]"), mask=False)), "numbers"),
    "text": (spoiled(lambda x: x.astype(str)), "numbers"),
    "text as objects": (spoiled(lambda x: x.astype(str).astype(object)), "numbers"),
    "a sparse list": (spoiled(lambda x: csr_array(np.atleast_2d(x))), "sequence 0 of X is a sparse matrix"),
    "ragged steps": (
        spoiled(lambda x: [[1.0, 2.0], [1.0], *[[1.0, 2.0]] * (len(x) - 2)]),
        "sequence 0 of X is ragged",
    ),
    "ragged steps as objects": (
        spoiled(lambda x: np.array([[1.0, 2.0], [1.0], *[[1.0, 2.0]] * (len(x) - 2)], dtype=object)),
        "numbers",
    ),
    "nothing observed": (
        lambda case: case.fit([np.full(x.shape, np.nan) for x in case.X]),
        "X has no observed value to learn from; give at least one",
    ),
    "no numbers": (ask([np.array(["a"] * n) for n in LENGTHS]), "numbers"),
}


@each
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_the_same_error_everywhere(name: str, mistake: str) -> None:
    make, words = MISTAKES[mistake]
    with pytest.raises(DataError, match=words):
        make(CASES[name])


@of_numbers
def test_seeds_and_threads(name: str) -> None:
    with pytest.raises(DataError, match="random_state is 'seed'; give a whole number"):
        CASES[name].fit(random_state="seed")
    for n_jobs in ("all", 0, 1.5):
        with pytest.raises(DataError, match=f"n_jobs is {n_jobs!r}; give"):
            CASES[name].fit(n_jobs=n_jobs)


@each
def test_a_sparse_matrix_is_refused(name: str) -> None:
    case = CASES[name]
    flat = csr_array(np.concatenate([x.reshape(len(x), -1) for x in case.X]))
    for call in (clone(case.model).fit, case.fit().log_likelihood):
        with pytest.raises(DataError, match="X is a sparse matrix, which is not supported here"):
            call(flat, *case.others)


@each
def test_what_is_missing_in_other_words(name: str) -> None:
    """None and pandas' NA among objects are NaN."""
    case = CASES[name]
    missing = [x.astype(np.float64) for x in case.X]
    missing[1][2] = np.nan
    expected = case.fit(missing)
    for nothing in (None, pd.NA):
        X = [x.astype(object) for x in missing]
        X[1][2] = nothing
        assert case.fit(X).score(X, *case.others) == expected.score(missing, *case.others)


@each
def test_nothing_to_learn_from(name: str) -> None:
    case = CASES[name]
    empty = [part[0][:0] for part in (case.X, *case.others)]
    with pytest.raises(DataError, match=r"learn from|no triple"):
        clone(case.model).fit(*empty)
    with pytest.raises(DataError, match="X has no steps to score"):
        case.fit().score(*empty)


def test_a_batch_with_nothing_in_it_leaves_online_learning_as_it_was() -> None:
    case = CASES["hmm"]
    model = clone(case.model).partial_fit(case.X)
    before = model.score(case.X)
    for batch in ([], [case.X[0][:0]], [np.full((3, 2), np.nan)], case.X[0][:0]):
        with pytest.raises(DataError, match="X has no "):
            model.partial_fit(batch)
        with pytest.raises(DataError, match="X has no "):
            clone(model).partial_fit(batch)
    assert model.score(case.X) == before


@each
def test_not_fitted(name: str) -> None:
    case = CASES[name]
    with pytest.raises(NotFittedError, match="not fitted"):
        case.model.log_likelihood(case.X, *case.others)
    with pytest.raises(NotFittedError, match="not fitted"):
        case.model.to_state()


@of_numbers
def test_numbers_that_cannot_be_used(name: str) -> None:
    case = CASES[name]
    model = case.fit()
    wide = normal(0, 5)
    with pytest.raises(DataError, match="X has 5 columns, but the model has 2; they must be equal"):
        model.log_likelihood(wide, *case.others)
    for bad in (np.inf, 1e200):
        X = [x.copy() for x in case.X]
        X[1][2, 0] = bad
        for call in (model.score, clone(model).fit):
            with pytest.raises(DataError, match="step 2 of sequence 1: column 0 of X is"):
                call(X, *case.others)


@each
def test_missing_values_are_marginalised(name: str) -> None:
    case = CASES[name]
    model = case.fit()
    X = [x.astype(np.float64) for x in case.X]
    X[1][2] = np.nan
    assert np.isfinite(model.log_likelihood(X, *case.others)).all()
    masked = [np.ma.array(np.nan_to_num(x), mask=np.isnan(x)) for x in X]
    assert model.score(masked, *case.others) == pytest.approx(model.score(X, *case.others), rel=1e-12)
    clone(model).fit(X, *case.others)


@pytest.mark.parametrize(("name", "given"), [("io_hmm", "inputs"), ("linear_gaussian", "controls")])
def test_what_goes_with_every_step(name: str, given: str) -> None:
    case = CASES[name]
    values = normal(1, 1)

    def call(others: Any) -> Any:
        return clone(case.model).fit(case.X, **{given: others})

    with pytest.raises(DataError, match=f"X has 3 sequences, but {given} has 2"):
        call(values[:2])
    with pytest.raises(DataError, match=f"sequence 1 has 4 steps in X, but 9 in {given}"):
        call([values[0], values[0], values[2]])
    with pytest.raises(DataError, match=f"step 0 of sequence 0: column 0 of {given} is nan; every value"):
        call([np.full_like(x, np.nan) for x in values])
