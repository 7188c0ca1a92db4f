"""Bounds: numbers by hand, each solved for each of its terms, monotone, and vacuous in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.core.errors import DataError
from trellis.theory import (
    Bound,
    finite_agnostic_bound,
    finite_consistent_bound,
    hoeffding_bound,
    sauer_bound,
    vc_bound,
    vc_deviation_bound,
)

CLASSES: list[Callable[..., Bound]] = [
    lambda size, **k: finite_consistent_bound(size + 1, **k),
    lambda size, **k: finite_agnostic_bound(size + 1, **k),
    lambda size, **k: vc_bound(size, **k),
    lambda size, **k: vc_deviation_bound(size, **k),
    lambda size, **k: hoeffding_bound(**k),
]
NAMES = ["consistent", "agnostic", "vc", "deviation", "hoeffding"]
every_bound = pytest.mark.parametrize("bound", CLASSES, ids=NAMES)


def test_numbers_by_hand() -> None:
    # (ln 1000 + ln 20) / 500 = 9.9035 / 500
    assert float(finite_consistent_bound(1000, m=500, delta=0.05)) == pytest.approx(0.019807, abs=1e-6)
    # sqrt((20 ln 2 + ln 20) / 20000) = sqrt(16.8587 / 20000)
    assert float(finite_agnostic_bound(2**20, m=10_000, delta=0.05)) == pytest.approx(0.0290333, abs=1e-6)
    # 8 sqrt((3 (ln(10000/3) + 1) + ln 160) / 20000) = 8 sqrt((27.3351 + 5.0752) / 20000)
    by_hand = 8 * math.sqrt((3 * (math.log(10_000 / 3) + 1) + math.log(160)) / 20_000)
    assert (
        float(vc_bound(3, m=10_000, delta=0.05)) == pytest.approx(by_hand) == pytest.approx(0.32204, abs=1e-4)
    )
    # 8 * 101^2 * exp(-100 / 32)
    assert float(vc_deviation_bound(2, m=100, epsilon=1.0)) == pytest.approx(8 * 101**2 * math.exp(-3.125))
    # ln 40 / (2 * 0.0001)
    assert float(hoeffding_bound(epsilon=0.01, delta=0.05)) == math.ceil(math.log(40) / 2e-4) == 18_445


def test_unlimited_trees_on_n_binary_attributes() -> None:
    """|H| = 2^(2^n): the logarithm is 2^n ln 2, also where the number itself has 300,000 digits."""
    for n in (3, 10, 20):
        found = finite_consistent_bound(2 ** (2**n), m=10 * 2**n, delta=0.1)
        assert found.epsilon == pytest.approx((2**n * math.log(2) + math.log(10)) / (10 * 2**n))


sizes, errors = st.integers(1, 40), st.floats(0.003, 0.99)
deltas, counts = st.floats(1e-6, 0.99), st.integers(1, 10**7)


@every_bound
@given(size=sizes, epsilon=errors, delta=deltas)
def test_m_is_the_smallest_that_does(bound: Any, size: int, epsilon: float, delta: float) -> None:
    m = float(bound(size, epsilon=epsilon, delta=delta))
    assert m == math.floor(m)
    assert m >= 1
    assert float(bound(size, m=m, delta=delta)) <= epsilon * (1 + 1e-9)
    assert float(bound(size, m=m, epsilon=epsilon)) <= delta * (1 + 1e-6)
    if m > 1:
        assert float(bound(size, m=m - 1, delta=delta)) >= epsilon * (1 - 1e-9)


@every_bound
@given(size=sizes, m=counts, delta=deltas)
def test_epsilon_and_delta_are_inverse(bound: Any, size: int, m: int, delta: float) -> None:
    epsilon = float(bound(size, m=m, delta=delta))
    if math.isfinite(epsilon):
        assert float(bound(size, m=m, epsilon=epsilon)) == pytest.approx(delta, rel=1e-6)


@every_bound
@given(size=sizes, m=counts, delta=st.floats(1e-6, 0.4))
def test_monotone_in_every_argument(bound: Any, size: int, m: int, delta: float) -> None:
    m = max(m, 50)  # beyond the largest VC dimension here
    epsilon = float(bound(size, m=m, delta=delta))
    assert float(bound(size, m=2 * m, delta=delta)) < epsilon
    assert float(bound(size, m=m, delta=2 * delta)) < epsilon
    assert float(bound(size + 1, m=m, delta=delta)) >= epsilon
    needed = float(bound(size, epsilon=0.1, delta=delta))
    assert float(bound(size, epsilon=0.2, delta=delta)) < needed
    assert float(bound(size, epsilon=0.1, delta=2 * delta)) <= needed


def test_arrays_broadcast() -> None:
    m, d = np.array([[100], [10_000], [1_000_000]]), np.array([1, 5])
    found = vc_bound(d, m=m, delta=0.05)
    assert np.shape(found.epsilon) == (3, 2)
    for i in range(3):
        for j in range(2):
            one = vc_bound(int(d[j]), m=int(m[i, 0]), delta=0.05)
            assert np.asarray(found.epsilon)[i, j] == pytest.approx(float(one))
    assert "2 of 6 vacuous" in str(found)
    needed = vc_bound(d, epsilon=[[0.1], [0.2]], delta=0.05)
    assert np.asarray(needed.m)[1, 1] == float(vc_bound(5, epsilon=0.2, delta=0.05))
    sizes = finite_agnostic_bound(np.array([10, 100]), m=50, delta=0.1)
    assert np.asarray(sizes.epsilon)[1] == pytest.approx(float(finite_agnostic_bound(100, m=50, delta=0.1)))


def test_vacuous_is_said_in_words() -> None:
    found = vc_bound(3, m=100, delta=0.05)
    assert found.vacuous
    assert "vacuous" in str(found)
    assert "promises nothing" in str(found)
    assert vc_bound(10, m=3, delta=0.05).epsilon == math.inf
    given_too_large = finite_agnostic_bound(10, m=100, epsilon=1.5)
    assert given_too_large.vacuous
    assert finite_agnostic_bound(10, m=1, epsilon=0.1).vacuous  # its delta is above 1
    good = finite_agnostic_bound(2**20, m=10_000, delta=0.05)
    assert not good.vacuous
    assert str(good).endswith("within 0.02903 with confidence 0.95")


def test_sauer() -> None:
    assert [sauer_bound(2, m) for m in range(5)] == [1, 2, 4, 7, 11]
    assert sauer_bound(7, 5) == 2**5
    assert sauer_bound(0, 9) == 1
    for d, m in [(1, 10), (3, 40), (5, 100)]:
        assert sauer_bound(d, m) <= (m + 1) ** d
        assert sauer_bound(d, m) <= (math.e * m / d) ** d
        assert sauer_bound(d, m) == sauer_bound(d, m - 1) + sauer_bound(d - 1, m - 1)
    with pytest.raises(DataError, match="vc_dimension is -1; give a whole number of at least 0"):
        sauer_bound(-1, 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: finite_agnostic_bound(10, m=100, delta=0.0), "delta is 0.0; it must lie between 0 and 1"),
        (lambda: finite_agnostic_bound(10, m=100, delta=1.0), "delta is 1.0; it must"),
        (lambda: finite_agnostic_bound(10, m=100, delta=[0.1, 1.5]), "delta is 1.5; it must"),
        (lambda: finite_agnostic_bound(10, m=0, delta=0.1), "m is 0.0; it must be at least 1"),
        (lambda: finite_agnostic_bound(10, m=math.nan, delta=0.1), "m is nan"),
        (lambda: finite_agnostic_bound(10, m=100, epsilon=-0.1), "epsilon is -0.1; it must be positive"),
        (lambda: finite_agnostic_bound(10, m=100), "give two of m, delta and epsilon"),
        (lambda: finite_agnostic_bound(10, m=1, delta=0.1, epsilon=0.1), "3 were given"),
        (lambda: finite_agnostic_bound(m=1, delta=0.1), "give the number of hypotheses"),
        (lambda: finite_agnostic_bound(0, m=1, delta=0.1), "hypotheses is 0; a class has at least one"),
        (lambda: finite_agnostic_bound(math.inf, m=1, delta=0.1), "infinite ones need vc_bound"),
        (lambda: finite_agnostic_bound(log_hypotheses=-1, m=1, delta=0.1), "finite and not negative"),
        (lambda: finite_agnostic_bound(10, m="many", delta=0.1), "m is 'many'; give a number"),
        (lambda: finite_agnostic_bound(10, epsilon=1e-9, delta=0.1), "more than 2\\^53 examples"),
        (lambda: vc_bound(3, epsilon=1e-200, delta=0.1), "more than 2\\^53 examples"),
        (lambda: vc_bound(0, m=10, delta=0.1), "vc_dimension is 0; it must be at least 1"),
        (lambda: vc_bound(1.5, m=10, delta=0.1), "vc_dimension is 1.5; it must"),
        (lambda: finite_agnostic_bound(10, m=1.5, delta=0.1), "m is 1.5; it must .* a whole number"),
        (lambda: finite_agnostic_bound([2**2000], m=10, delta=0.1), "hypotheses is .* too large"),
        (lambda: hoeffding_bound(m=10**400, delta=0.1), "m is 1000.*too large"),
        (lambda: vc_bound([1, 2, 3], epsilon=[0.1, 0.2], delta=0.1), r"\(2,\) and \(3,\) do not broadcast"),
    ],
)
def test_bad_input(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        call()


def test_numbers_at_the_edge_of_what_floats_hold() -> None:
    """No warning (which would be an error here), and no number that is not one."""
    assert float(hoeffding_bound(m=10, delta=1e-320)) == pytest.approx(
        math.sqrt((math.log(2) + 320 * math.log(10)) / 20), rel=1e-3
    )
    for bound in (hoeffding_bound(m=10, epsilon=1e200), vc_bound(3, m=10, epsilon=1e200)):
        assert bound.delta == 0.0
        assert bound.vacuous
