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

Each of them has the form

    ln delta = log_capacity(m) - m rate(eps),      rate(eps) = factor eps^power

which is solved for eps and delta in closed form, and for m by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from trellis.core.arguments import as_floats, check_int
from trellis.core.arrays import FloatArray
from trellis.core.errors import DataError

Number = float | FloatArray
Given = ArrayLike | None
MOST_EXAMPLES = 2.0**53  # the last whole number before floats have gaps


@dataclass(frozen=True)
class Bound:
    """``epsilon``, ``delta`` and ``m`` that go together; ``solved_for`` names the one that was asked for.

    ``float(bound)`` is that one. ``str(bound)`` says what it promises, or that it promises nothing.

    Examples
    --------
    >>> from trellis.theory import vc_bound
    >>> bound = vc_bound(3, m=100, delta=0.05)
    >>> bound.solved_for, bool(bound.vacuous)
    ('epsilon', True)
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
    hypotheses: int | Given = None,
    *,
    log_hypotheses: Given = None,
    m: Given = None,
    delta: Given = None,
    epsilon: Given = None,
) -> Bound:
    """A learner with no training errors, among ``hypotheses`` (or exp(``log_hypotheses``)) many.

    Examples
    --------
    >>> from trellis.theory import finite_consistent_bound
    >>> int(finite_consistent_bound(2**16, epsilon=0.1, delta=0.05).m)
    141
    """
    size = _log_size(hypotheses, log_hypotheses)
    return _Tail("finite class, consistent learner", lambda _: size, 1.0, 1).solve(m, delta, epsilon)


def finite_agnostic_bound(
    hypotheses: int | Given = None,
    *,
    log_hypotheses: Given = None,
    m: Given = None,
    delta: Given = None,
    epsilon: Given = None,
) -> Bound:
    """Any learner, among ``hypotheses`` (or exp(``log_hypotheses``)) many.

    Examples
    --------
    >>> from trellis.theory import finite_agnostic_bound
    >>> round(float(finite_agnostic_bound(1000, m=500, delta=0.05)), 4)
    0.0995
    """
    size = _log_size(hypotheses, log_hypotheses)
    return _Tail("finite class, agnostic", lambda _: size, 2.0, 2).solve(m, delta, epsilon)


def hoeffding_bound(*, m: Given = None, delta: Given = None, epsilon: Given = None) -> Bound:
    """One hypothesis, m examples that played no part in learning it: how far off is the measured loss?

    Examples
    --------
    >>> from trellis.theory import hoeffding_bound
    >>> int(hoeffding_bound(epsilon=0.01, delta=0.05).m)
    18445
    """
    ln2 = np.asarray(math.log(2.0))
    return _Tail("held-out examples (Hoeffding)", lambda _: ln2, 2.0, 2).solve(m, delta, epsilon)


def vc_bound(
    vc_dimension: ArrayLike, *, m: Given = None, delta: Given = None, epsilon: Given = None
) -> Bound:
    """A class of VC dimension d >= 1, for m >= d examples (fewer say nothing: epsilon is infinite).

    Examples
    --------
    >>> from trellis.theory import vc_bound
    >>> bound = vc_bound(3, epsilon=0.1, delta=0.05)
    >>> bound.solved_for, float(bound) > 10_000
    ('m', True)
    """
    d = _dimension(vc_dimension)

    def log_capacity(m: FloatArray) -> FloatArray:
        """ln of 8 e^d (m/d)^d, by Sauer's bound on the growth function."""
        return np.where(m >= d, math.log(8.0) + d * (np.log(np.maximum(m, d) / d) + 1.0), np.inf)

    return _Tail("VC dimension", log_capacity, 1 / 32, 2, d).solve(m, delta, epsilon)


def vc_deviation_bound(
    vc_dimension: ArrayLike, *, m: Given = None, delta: Given = None, epsilon: Given = None
) -> Bound:
    """The tail of the uniform deviation: delta = 8 (m + 1)^d exp(-m eps^2 / 32).

    Examples
    --------
    >>> from trellis.theory import vc_deviation_bound
    >>> bool(vc_deviation_bound(3, m=1000, epsilon=0.1).vacuous)
    True
    """
    d = _dimension(vc_dimension)
    tail = _Tail("uniform deviation", lambda m: math.log(8.0) + d * np.log1p(m), 1 / 32, 2, d)
    return tail.solve(m, delta, epsilon)


def sauer_bound(vc_dimension: int, m: int) -> int:
    """Sauer's lemma: a class of VC dimension d labels m points in at most sum_{i <= d} C(m, i) ways.

    Examples
    --------
    >>> from trellis.theory import sauer_bound
    >>> sauer_bound(2, 10)  # 1 + 10 + 45
    56
    """
    d, m = check_int("vc_dimension", vc_dimension, 0), check_int("m", m, 0)
    return sum(math.comb(m, i) for i in range(min(d, m) + 1))


@dataclass(frozen=True, eq=False)
class _Tail:
    """ln delta as a function of m and epsilon. ``degree`` d: the capacity grows with m as m^d."""

    name: str
    log_capacity: Callable[[FloatArray], FloatArray]
    factor: float
    power: int
    degree: FloatArray | float = 0.0

    def solve(self, m: Given, delta: Given, epsilon: Given) -> Bound:
        """The bound with the one quantity computed that is None."""
        given = {"m": m, "delta": delta, "epsilon": epsilon}
        missing = [key for key, value in given.items() if value is None]
        if len(missing) != 1:
            raise DataError(
                f"{self.name}: give two of m, delta and epsilon, and the third is computed; "
                f"{3 - len(missing)} were given"
            )
        known = {key: _checked(key, value) for key, value in given.items() if value is not None}
        self._check_shapes(*known.values())
        solved = missing[0]
        # huge epsilons overflow when raised, and delta is then 0; tiny ones need more examples than there are
        with np.errstate(over="ignore", divide="ignore"):
            if solved == "epsilon":
                excess = self.log_capacity(known["m"]) - np.log(known["delta"])
                found = (excess / (self.factor * known["m"])) ** (1 / self.power)
            elif solved == "delta":
                found = np.exp(np.minimum(self._log_delta(known["m"], known["epsilon"]), 700.0))
            else:
                found = self._smallest_m(known["delta"], known["epsilon"])
        values = {key: float(value) if value.ndim == 0 else value for key, value in known.items()}
        values[solved] = float(found) if found.ndim == 0 else found
        return Bound(self.name, values["epsilon"], values["delta"], values["m"], solved)

    def _log_delta(self, m: FloatArray, epsilon: FloatArray) -> FloatArray:
        exponent = m * (self.factor * epsilon**self.power)
        return self.log_capacity(m) - np.minimum(exponent, 1e308)  # the capacity may be infinite

    def _smallest_m(self, delta: FloatArray, epsilon: FloatArray) -> FloatArray:
        """The smallest whole m that is enough; what rounding put just above a whole number is that number.

        ln delta(m) is above 0 from the first m for which it is finite to its maximum, at degree / rate or
        one before, and falls from there on for ever. So the answer lies beyond, where bisection finds it;
        ``low`` is never enough, ``high`` always.
        """
        epsilon, target = epsilon * (1 + 1e-12), np.log(delta)
        rate = np.maximum(self.factor * epsilon**self.power, np.finfo(np.float64).tiny)
        low = np.minimum(np.maximum(np.floor(self.degree / rate) - 1.0, 0.0), MOST_EXAMPLES)
        high = low + 1.0
        while np.any(too_small := (self._log_delta(high, epsilon) > target) & (high <= MOST_EXAMPLES)):
            low, high = np.where(too_small, high, low), np.where(too_small, 2.0 * high, high)
        while np.any(high - low > 1.0):
            middle = np.floor(0.5 * (low + high))
            enough = self._log_delta(middle, epsilon) <= target
            high, low = np.where(enough, middle, high), np.where(enough, low, middle)
        if np.any(high > MOST_EXAMPLES):
            raise DataError(f"{self.name}: more than 2^53 examples are needed; raise epsilon or delta")
        return np.asarray(high)

    def _check_shapes(self, *given: FloatArray) -> None:
        shapes = [*(array.shape for array in given), self.log_capacity(np.ones(())).shape]
        try:
            np.broadcast_shapes(*shapes)
        except ValueError as error:
            shown = " and ".join(str(shape) for shape in shapes if shape)
            raise DataError(
                f"{self.name}: arrays of shapes {shown} do not broadcast; give equal shapes"
            ) from error


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
