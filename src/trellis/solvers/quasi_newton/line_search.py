"""A line search for the strong Wolfe conditions, thrifty with evaluations, honest at the rounding floor.

Along a descent direction let phi(t) be the objective and phi'(t) its slope. A step is accepted when

    phi(t) <= phi(0) + 1e-4 t phi'(0)   and   |phi'(t)| <= 0.9 |phi'(0)|        (strong Wolfe)

Close to a minimum the first test drowns in rounding while slopes are still exact, so there it is relaxed to
phi(t) <= phi(0) + 1e-12 |phi(0)|, in the spirit of Hager and Zhang's approximate Wolfe conditions (2005).

Every evaluation narrows a bracket (low, high) that holds an acceptable step: ``low`` decreases enough and
still goes down steeply, ``high`` does not decrease enough or goes up steeply. The next trial is the
minimiser of the cubic through both ends, kept away from them. This needs no convexity; a good direction at
its natural length costs a single evaluation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SUFFICIENT_DECREASE = 1e-4
CURVATURE = 0.9
ROUNDING = 1e-12  # relative error of an objective that is a sum over many examples
MAX_EXPANSION = 10.0


class Trial(NamedTuple):
    """A step length, with the objective and its slope there."""

    step: float
    value: float
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Trial], start: Trial, first_step: float, *, max_evaluations: int = 25
) -> Trial | None:
    """The accepted step, which is the one last evaluated, or ``None`` if none was found.

    ``start`` is the trial at step 0 with a negative slope. A trial whose value is not finite counts as far
    too long a step.
    """
    low, high = start, None
    step = first_step
    for _ in range(max_evaluations):
        trial = evaluate(step)
        finite = np.isfinite(trial.value) and np.isfinite(trial.slope)
        if finite and _accepted(trial, start):
            return trial
        rises = not finite or trial.value > start.value + SUFFICIENT_DECREASE * step * start.slope
        if finite and abs(trial.value - start.value) <= ROUNDING * abs(start.value):
            rises = trial.slope > 0  # values cannot tell any more, slopes can
        if rises or trial.slope > 0:
            high = trial
        else:
            low = trial
        step = _extrapolate(low, start) if high is None else _interpolate(low, high)
        if step <= low.step * (1 + 1e-15) or not np.isfinite(step):
            return None
    return None


def _accepted(trial: Trial, start: Trial) -> bool:
    flat = abs(trial.slope) <= CURVATURE * abs(start.slope)
    decreases = trial.value <= start.value + SUFFICIENT_DECREASE * trial.step * start.slope
    floor = trial.value <= start.value + ROUNDING * abs(start.value)
    return flat and (decreases or floor)


def _extrapolate(low: Trial, start: Trial) -> float:
    """The secant on the slopes from step 0 through ``low``, between 2 and 10 times as far."""
    rise = low.slope - start.slope
    secant = low.step * start.slope / -rise if rise > 0 else np.inf
    return float(np.clip(secant, 2.0 * low.step, MAX_EXPANSION * low.step))


def _interpolate(low: Trial, high: Trial) -> float:
    """The minimiser of the cubic through both ends (bisection if there is none), 10 % away from either."""
    width = high.step - low.step
    step = low.step + 0.5 * width
    if np.isfinite(high.value) and np.isfinite(high.slope):
        bend = low.slope + high.slope - 3.0 * (high.value - low.value) / width
        discriminant = bend * bend - low.slope * high.slope
        if discriminant >= 0:
            root = float(np.sqrt(discriminant))
            denominator = high.slope - low.slope + 2.0 * root
            if denominator > 0:
                step = high.step - width * (high.slope + root - bend) / denominator
    return float(np.clip(step, low.step + 0.1 * width, high.step - 0.1 * width))
