"""What people get wrong in their first hour with hidden Markov models, and what they are told."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import HMM, SequenceLabeler, emissions
from trellis.core.errors import DataError
from trellis.hmm.variance_floor import warn_of_flat_columns
from trellis.training.fit import TrainingWarning


@pytest.mark.parametrize(
    ("given_as", "meant"),
    [
        ("gaussian", "emissions.Gaussian()"),
        ("Poison", "emissions.Poisson()"),
        ("gaussian_mixture", "emissions.GaussianMixture(n_components)"),
        (emissions.Categorical, "emissions.Categorical(n_symbols)"),
        (None, "emissions.Gaussian()"),
    ],
)
def test_an_emission_by_name_is_answered_with_how_to_write_it(given_as: object, meant: str) -> None:
    with pytest.raises(DataError) as caught:
        HMM(2, given_as).fit(np.zeros((3, 1)))
    assert meant in str(caught.value)


@given(
    exponent=st.integers(-300, 30),
    floor=st.sampled_from([1e-9, 1e-6, 1.0]),
    other=st.booleans(),
)
@settings(max_examples=40)
def test_a_column_below_the_floor_is_named(exponent: int, floor: float, other: bool) -> None:
    values = np.array([[0.0], [1.0], [1.0], [0.0]]) * 10.0**exponent
    values = np.hstack([np.array([[9.0], [-9.0], [3.0], [np.nan]]), values]) if other else values
    variance = float(np.var(values[:, -1]))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_flat_columns(values, floor)
    swamped = 0.0 < variance <= floor or (variance == 0.0 and not other)  # squares may underflow
    assert len(caught) == swamped
    if swamped and variance:
        assert f"column {values.shape[1] - 1} of X" in str(caught[0].message)


@pytest.mark.parametrize("scale", [1e-4, 1e-30, 0.0])
def test_a_fit_that_cannot_learn_says_so(scale: float) -> None:
    X = np.random.default_rng(0).normal(size=(40, 2)) * scale
    with pytest.warns(TrainingWarning, match="states cannot differ"):
        HMM(2, emissions.Gaussian(), random_state=0, max_iter=2).fit(X)


def test_one_array_of_several_sequences_is_answered_with_a_list() -> None:
    X = np.zeros((4, 5, 2))
    with pytest.raises(DataError, match=r"give list\(X\)"):
        HMM(2, emissions.Gaussian()).fit(X)
    with pytest.raises(DataError, match=r"give list\(X\)"):
        SequenceLabeler().fit(X, [["a", "b", "a", "b", "a"]] * 4)
