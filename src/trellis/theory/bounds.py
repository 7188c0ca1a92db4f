"""Generalisation bounds, each solved for the one quantity that is left out.

With probability at least 1 - delta over m independent training examples, for *every* hypothesis h of a class,

    finite, consistent (training error 0)   error(h)            <= eps = (ln|H| + ln(1/delta)) / m
    finite, agnostic                        error(h) - train(h) <= eps = sqrt((ln|H| + ln(1/delta)) / (2 m))
    infinite, VC dimension d                |error(h) - train(h)| <= eps
                                              = 8 sqrt((d (ln(m/d) + 1) + ln(8/delta)) / (2 m)),   m >= d
    uniform deviation, VC dimension d       P(sup_h |error(h) - train(h)| > eps)
                                              <= 8 (m+1)^d exp(-m eps^2 / 32)

and for the one hypothesis that was learned, on m *held-out* examples,

    Hoeffding                               |error(h) - held_out(h)| <= eps = sqrt(ln(2/delta) / (2 m))

The finite bounds and Hoeffding's hold for any loss between 0 and 1, those with a VC dimension for the 0-1
loss. The confidence is 1 - delta, not delta. Solved for m, the answer is the smallest whole number that does.
Errors are numbers between 0 and 1, so an eps of 1 or more promises nothing; the bound is then called
*vacuous*, in words. All arguments may be arrays and broadcast against each other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import as_floats
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError

Number = float | FloatArray
MOST_EXAMPLES = 2.0**53  # the last whole number before floats have gaps


@dataclass(frozen=True)
class Bound:
    """``epsilon``, ``delta`` and ``m`` that go together; ``solved_for`` names the one that was asked for.

    ``float(bound)`` is that one. ``str(bound)`` says what it promises, or that it promises nothing.
    """

    name: str
    epsilon: Number
    delta: Number
    m: Number
    solved_for: str

    @property
    def value(self) -> Number:
        """The quantity that was left out."""
        return getattr(self, self.solved_for)  # type: ignore[no-any-return]

    @property
    def vacuous(self) -> Any:
        """Whether it promises nothing: an epsilon or a delta of 1 or more."""
        return (np.asarray(self.epsilon) >= 1.0) | (np.asarray(self.delta) >= 1.0)

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if np.ndim(self.value):
            shown = np.array2string(np.asarray(self.value), precision=4)
            empty = int(np.sum(np.broadcast_to(self.vacuous, np.shape(self.value))))
            words = f" ({empty} of {np.size(self.value)} vacuous: they promise nothing)" if empty else ""
            return f"{self.name}: {self.solved_for} = {shown}{words}"
        terms = f"epsilon = {self.epsilon:.4g}, delta = {self.delta:.4g}, m = {self.m:,.0f}"
        if self.vacuous:
            return f"{self.name}: vacuous ({terms}): it promises nothing; more examples, or fewer hypotheses"
        return f"{self.name}: {terms}: within {self.epsilon:.4g} with confidence {1 - float(self.delta):.4g}"


def finite_consistent_bound(
    hypotheses: int | ArrayLike | None = None,
    *,
    log_hypotheses: ArrayLike | None = None,
    m: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    epsilon: ArrayLike | None = None,
) -> Bound:
    """A learner with no training errors, among ``hypotheses`` (or exp(``log_hypotheses``)) many."""
    size = _log_size(hypotheses, log_hypotheses)
    return _solve(
        "finite class, consistent learner", size, m, delta, epsilon,
        for_epsilon=lambda m, delta: (size - np.log(delta)) / m,
        for_log_delta=lambda m, epsilon: size - m * epsilon,
        for_m=lambda delta, epsilon: _whole((size - np.log(delta)) / epsilon),
    )  # fmt: skip


def finite_agnostic_bound(
    hypotheses: int | ArrayLike | None = None,
    *,
    log_hypotheses: ArrayLike | None = None,
    m: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    epsilon: ArrayLike | None = None,
) -> Bound:
    """Any learner, among ``hypotheses`` (or exp(``log_hypotheses``)) many."""
    size = _log_size(hypotheses, log_hypotheses)
    return _solve(
        "finite class, agnostic", size, m, delta, epsilon,
        for_epsilon=lambda m, delta: np.sqrt((size - np.log(delta)) / (2.0 * m)),
        for_log_delta=lambda m, epsilon: size - 2.0 * m * epsilon**2,
        for_m=lambda delta, epsilon: _whole((size - np.log(delta)) / (2.0 * epsilon**2)),
    )  # fmt: skip


def hoeffding_bound(
    *, m: ArrayLike | None = None, delta: ArrayLike | None = None, epsilon: ArrayLike | None = None
) -> Bound:
    """One hypothesis, m examples that played no part in learning it: how far off is the measured loss?"""
    return _solve(
        "held-out examples (Hoeffding)", np.zeros(()), m, delta, epsilon,
        for_epsilon=lambda m, delta: np.sqrt((math.log(2.0) - np.log(delta)) / (2.0 * m)),
        for_log_delta=lambda m, epsilon: math.log(2.0) - 2.0 * m * epsilon**2,
        for_m=lambda delta, epsilon: _whole((math.log(2.0) - np.log(delta)) / (2.0 * epsilon**2)),
    )  # fmt: skip


def vc_bound(
    vc_dimension: ArrayLike,
    *,
    m: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    epsilon: ArrayLike | None = None,
) -> Bound:
    """A class of VC dimension d >= 1, for m >= d examples (fewer say nothing: epsilon is infinite)."""
    d = _dimension(vc_dimension)

    def log_capacity(m: FloatArray) -> FloatArray:
        """ln of e^d (m/d)^d, Sauer's bound on the growth function."""
        return d * (np.log(np.maximum(m, d) / d) + 1.0)

    def for_epsilon(m: FloatArray, delta: FloatArray) -> FloatArray:
        epsilon = 8.0 * np.sqrt((log_capacity(m) + (math.log(8.0) - np.log(delta))) / (2.0 * m))
        return np.where(m >= d, epsilon, np.inf)

    def for_log_delta(m: FloatArray, epsilon: FloatArray) -> FloatArray:
        return np.where(m >= d, math.log(8.0) + log_capacity(m) - m * epsilon**2 / 32.0, np.inf)

    return _solve(
        "VC dimension", d, m, delta, epsilon,
        for_epsilon=for_epsilon,
        for_log_delta=for_log_delta,
        for_m=lambda delta, epsilon: _smallest_m(for_log_delta, delta, epsilon, d),
    )  # fmt: skip


def vc_deviation_bound(
    vc_dimension: ArrayLike,
    *,
    m: ArrayLike | None = None,
    delta: ArrayLike | None = None,
    epsilon: ArrayLike | None = None,
) -> Bound:
    """The tail of the uniform deviation: delta = 8 (m + 1)^d exp(-m eps^2 / 32)."""
    d = _dimension(vc_dimension)

    def for_log_delta(m: FloatArray, epsilon: FloatArray) -> FloatArray:
        return math.log(8.0) + d * np.log1p(m) - m * epsilon**2 / 32.0

    return _solve(
        "uniform deviation", d, m, delta, epsilon,
        for_epsilon=lambda m, delta: np.sqrt(32.0 * (math.log(8.0) - np.log(delta) + d * np.log1p(m)) / m),
        for_log_delta=for_log_delta,
        for_m=lambda delta, epsilon: _smallest_m(for_log_delta, delta, epsilon, d),
    )  # fmt: skip


def sauer_bound(vc_dimension: int, m: int) -> int:
    """Sauer's lemma: a class of VC dimension d labels m points in at most sum_{i <= d} C(m, i) ways."""
    if vc_dimension < 0 or m < 0:
        raise DataError(f"vc_dimension={vc_dimension} and m={m} must not be negative")
    return sum(math.comb(m, i) for i in range(min(vc_dimension, m) + 1))


# -- the one way in which all of them are solved -------------------------------------------------------------

Formula = Callable[[FloatArray, FloatArray], FloatArray]


def _solve(
    name: str,
    capacity: FloatArray,
    m: ArrayLike | None,
    delta: ArrayLike | None,
    epsilon: ArrayLike | None,
    *,
    for_epsilon: Formula,
    for_log_delta: Formula,
    for_m: Formula,
) -> Bound:
    given = {"m": m, "delta": delta, "epsilon": epsilon}
    missing = [key for key, value in given.items() if value is None]
    if len(missing) != 1:
        raise DataError(
            f"{name}: give two of m, delta and epsilon, and the third is computed; "
            f"{3 - len(missing)} were given"
        )
    checked = {key: _checked(key, value) for key, value in given.items() if value is not None}
    _check_shapes(name, *checked.values(), capacity)
    solved = missing[0]
    # huge epsilons overflow when squared, and delta is then 0; tiny ones need more examples than there are
    with np.errstate(over="ignore", divide="ignore"):
        if solved == "epsilon":
            checked["epsilon"] = for_epsilon(checked["m"], checked["delta"])
        elif solved == "delta":
            checked["delta"] = np.exp(np.minimum(for_log_delta(checked["m"], checked["epsilon"]), 700.0))
        else:
            checked["m"] = np.asarray(for_m(checked["delta"], checked["epsilon"]))
    if solved == "m" and not np.all(checked["m"] <= MOST_EXAMPLES):
        raise DataError(f"{name}: more than 2^53 examples would be needed; raise epsilon or delta")
    values = {key: float(value) if value.ndim == 0 else value for key, value in checked.items()}
    return Bound(name, values["epsilon"], values["delta"], values["m"], solved)


def _check_shapes(name: str, *arrays: FloatArray) -> None:
    shapes = [array.shape for array in arrays]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError as error:
        shown = " and ".join(str(shape) for shape in shapes if shape)
        raise DataError(f"{name}: arrays of shapes {shown} do not broadcast; give equal shapes") from error


def _whole(needed: FloatArray) -> FloatArray:
    """The next whole number, at least 1; what rounding put just above a whole number is that number."""
    return np.maximum(np.ceil(needed * (1.0 - 1e-12)), 1.0)


def _checked(name: str, value: ArrayLike) -> FloatArray:
    array = as_floats(name, value)
    if name == "delta":
        good, rule = (array > 0) & (array < 1), "must lie between 0 and 1 (the confidence is 1 - delta)"
    elif name == "m":
        good = (array >= 1) & (array == np.floor(array))
        rule = "must be at least 1 (without examples nothing is known), and a whole number"
    else:
        good, rule = array > 0, "must be positive and finite"
    if not np.all(good & np.isfinite(array)):
        bad = array[~(good & np.isfinite(array))].flat[0] if array.ndim else array
        raise DataError(f"{name} is {bad}; it {rule}")
    return array


def _log_size(hypotheses: int | ArrayLike | None, log_hypotheses: ArrayLike | None) -> FloatArray:
    if (hypotheses is None) == (log_hypotheses is None):
        raise DataError("give the number of hypotheses, or its natural logarithm as log_hypotheses")
    if isinstance(hypotheses, int):
        if hypotheses < 1:
            raise DataError(f"hypotheses is {hypotheses}; a class has at least one")
        return np.asarray(math.log(hypotheses))  # of whole numbers of any size: 2**(2**10) is no problem
    if hypotheses is not None:
        count = as_floats("hypotheses", hypotheses)
        if not np.all((count >= 1) & np.isfinite(count)):
            raise DataError(
                f"hypotheses is {hypotheses!r}; a class has at least one, and infinite ones need vc_bound"
            )
        return np.asarray(np.log(count))
    size = as_floats("log_hypotheses", 0.0 if log_hypotheses is None else log_hypotheses)
    if not np.all((size >= 0) & np.isfinite(size)):
        raise DataError(f"log_hypotheses is {log_hypotheses!r}; it must be finite and not negative")
    return size


def _dimension(vc_dimension: ArrayLike) -> FloatArray:
    d = as_floats("vc_dimension", vc_dimension)
    if not np.all((d >= 1) & np.isfinite(d) & (d == np.floor(d))):
        raise DataError(f"vc_dimension is {vc_dimension!r}; it must be at least 1, and a whole number")
    return d


def _smallest_m(log_delta: Formula, delta: FloatArray, epsilon: FloatArray, d: FloatArray) -> FloatArray:
    """The smallest whole m with log_delta(m, epsilon) <= ln delta.

    ln delta(m) is above 0 from the first m for which it is finite to its maximum, at 32 d / eps^2 or one
    before, and falls from there on for ever. So the answer lies beyond, where bisection finds it; ``low``
    is never enough, ``high`` always.
    """
    delta, epsilon, d = np.broadcast_arrays(delta, epsilon, d)
    low = np.maximum(np.floor(32.0 * d / epsilon**2) - 1.0, 0.0)
    if not np.all(low < MOST_EXAMPLES):
        return np.full(low.shape, np.inf)
    high = np.minimum(2.0 * low + 64.0 * (math.log(8.0) - np.log(delta)) / epsilon**2 + 2.0, MOST_EXAMPLES)
    target = np.log(delta)
    while np.any(too_small := (log_delta(high, epsilon) > target) & (high < MOST_EXAMPLES)):
        high = np.where(too_small, np.minimum(2.0 * high, MOST_EXAMPLES), high)
    if np.any(log_delta(high, epsilon) > target):
        return np.full(low.shape, np.inf)
    while np.any(high - low > 1.0):
        middle = np.floor(0.5 * (low + high))
        enough = log_delta(middle, epsilon) <= target
        high, low = np.where(enough, middle, high), np.where(enough, low, middle)
    return high
