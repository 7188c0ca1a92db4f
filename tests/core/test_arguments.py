"""What is a number, a count, and an array of numbers, wherever a user gives one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import trellis
from trellis import HMM, emissions
from trellis.core.arguments import (
    as_floats,
    check_fraction,
    check_int,
    check_names,
    check_nonnegative,
    check_positive,
    check_sample_weight,
    to_floats,
)
from trellis.core.errors import DataError
from trellis.core.estimator import Model
from trellis.core.parameters import Range, check_parameters
from trellis.core.shards import n_threads
from trellis.hmm import left_right


def test_true_is_no_number() -> None:
    for value in (True, False, np.True_):
        for check in (check_nonnegative, check_positive, check_fraction):
            with pytest.raises(
                DataError, match=rf"x is {value!r}; give".replace("(", r"\(").replace(")", r"\)")
            ):
                check("x", value)
        with pytest.raises(DataError, match="give a whole number"):
            check_int("x", value, 0)
    assert check_int("x", 1e6, 1) == check_int("x", np.int64(1_000_000), 1) == 1_000_000


ESTIMATORS = [
    kind
    for name in trellis.__all__
    if inspect.isclass(kind := getattr(trellis, name)) and issubclass(kind, Model)
]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda kind: kind.__name__)
def test_no_estimator_takes_true_for_a_number(kind: type[Model]) -> None:
    ranges = [name for name, one in kind.declared_parameters.items() if isinstance(one.constraint, Range)]
    required = [n for n, p in kind.declared_parameters.items() if p.default is inspect.Parameter.empty]
    for name in ranges:
        model = kind(**{**dict.fromkeys(required, 1), name: True})
        with pytest.raises(DataError, match=f"{name} is True; give"):
            check_parameters(model)


X = np.zeros((4, 1))
MODEL = HMM(1, emissions.Gaussian("diag", [[0.0]], [[1.0]]), initial=[1.0], transitions=[[1.0]])
COUNTS: list[Callable[[], Any]] = [
    lambda: n_threads(True),
    lambda: left_right(True),
    lambda: left_right(3, jump=True),
    lambda: emissions.Categorical(True),
    lambda: emissions.Multinomial(2, n_trials=True),
    lambda: emissions.GaussianMixture(True),
    lambda: emissions.Categorical(2, pseudocount=True),
    lambda: emissions.Product({True: emissions.Poisson(), 0: emissions.Poisson()}),
    lambda: MODEL.sample(True),
    lambda: MODEL.predict_next(X, True),
    lambda: MODEL.decode_k_best(X, True),
    lambda: MODEL.sample_paths(X, True),
]


@pytest.mark.parametrize("call", COUNTS)
def test_no_count_is_true(call: Callable[[], Any]) -> None:
    with pytest.raises(DataError, match="True"):
        call()


@pytest.mark.parametrize(
    "value",
    [
        np.array([1 + 1j]),
        [1j],
        np.array(["2020"], dtype="datetime64[Y]"),
        np.array([3], dtype="timedelta64[s]"),
        np.array([np.datetime64("2020")], dtype=object),
        ["1.5"],
        np.array(["1.5"], dtype=object),
        [[1.0, 2.0], [3.0]],
        {"a": 1.0},
        [b"1"],
    ],
    ids=repr,
)
def test_what_is_no_array_of_numbers(value: Any) -> None:
    with pytest.raises(DataError, match=r"x is .*; give a number, or an array of numbers"):
        as_floats("x", value)
    with pytest.raises(DataError):
        check_sample_weight(value, 1)
    for make in (emissions.Poisson, lambda v: emissions.Gaussian(means=v)):
        with pytest.raises(DataError):
            make(value)
    for name in ("covariances", "prior_mean"):
        with pytest.raises(DataError):
            emissions.Gaussian(**{name: value})
    with pytest.raises(DataError):
        emissions.GaussianMixture(2, prior_mean=value)


def test_what_is_an_array_of_numbers() -> None:
    mixed = np.array([1, 2.5, None, Fraction(1, 4), Decimal("0.5"), np.float32(3), 2**70], dtype=object)
    np.testing.assert_array_equal(to_floats(mixed), [1.0, 2.5, np.nan, 0.25, 0.5, 3.0, 2.0**70])
    assert to_floats(3).shape == ()
    assert to_floats([[1, 2]]).dtype == np.float64


def test_names_out_of_a_list() -> None:
    names = ("a", "b")
    assert check_names("learn", "all", names) == {"a", "b"}
    assert check_names("learn", "a", names) == check_names("learn", ["a"], names) == {"a"}
    assert check_names("learn", (), names) == set()
    with pytest.raises(DataError, match='learn is 3; give "all" or a tuple'):
        check_names("learn", 3, names)
    with pytest.raises(DataError, match="learn names 'c'; choose from a, b"):
        check_names("learn", ("a", "c"), names)
