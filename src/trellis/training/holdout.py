"""What is held out of the data: a random fraction, or examples that the user gives besides."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from trellis.core.arrays import IntArray
from trellis.core.errors import DataError
from trellis.objectives.records import Objective
from trellis.objectives.special_cases import Direct

AUTOMATIC_FRACTION = 0.1
REFIT_FRACTION = 0.2  # where all examples are trained on in the end
FEWEST = 10  # examples below which nothing is held out automatically, unless in turn
MANY = 300  # examples, or
MANY_STEPS = 4000  # labels in them, from which on one hold-out set tells enough; few are held out in turn


@dataclass(frozen=True, eq=False)
class HoldOut:
    """``kept``: the examples to learn from, by number. ``held``: those held out of the data, or ``given``:
    the pair (X, y) that the user gave; both are None where nothing is held out. Numbers rise."""

    kept: IntArray
    held: IntArray | None = None
    given: tuple[Any, Any] | None = None


def automatic_fraction(objective: Objective) -> float:
    """What "auto" holds out: objectives that no norm regularises are stopped early."""
    if not objective.scale_free:
        return 0.0
    return REFIT_FRACTION if refits(objective) else AUTOMATIC_FRACTION


def refits(objective: Objective) -> bool:
    """Whether all examples are trained on once the held-out ones have said for how long."""
    return isinstance(objective, Direct) and objective.fine_tuned and objective.refit


def hold_out_in_turn(
    holdout: Any, n: int, steps: int, noun: str, seed: int, objective: Objective
) -> list[HoldOut]:
    """The parts of n examples with so many steps; several, each held out once, where ``holdout`` is "auto",
    all examples are trained on in the end, and they are few."""
    automatic = isinstance(holdout, str) and holdout == "auto"
    few = 2 <= n < MANY and steps < MANY_STEPS
    if not (automatic and refits(objective) and few):
        return [hold_out(holdout, n, noun, seed, automatic=automatic_fraction(objective))]
    parts = np.array_split(np.random.default_rng(seed).permutation(n), min(round(1 / REFIT_FRACTION), n))
    return [HoldOut(np.setdiff1d(np.arange(n), held), np.sort(held)) for held in parts]


def hold_out(holdout: Any, n: int, noun: str, seed: int, *, automatic: float = 0.0) -> HoldOut:
    """The parts of n examples under the parameter ``holdout``: a fraction, (X, y), None, or "auto", which is
    the fraction ``automatic``, or None where that is 0."""
    everything = np.arange(n, dtype=np.int64)
    if isinstance(holdout, str) and holdout == "auto":
        holdout = automatic if automatic and n >= FEWEST else None
    if holdout is None:
        return HoldOut(everything)
    if isinstance(holdout, tuple) and len(holdout) == 2:
        return HoldOut(everything, given=holdout)
    if isinstance(holdout, bool) or not isinstance(holdout, Real) or not 0 < float(holdout) < 1:
        shown = holdout if isinstance(holdout, str | int | float) else f"a {type(holdout).__name__}"
        raise DataError(f"holdout is {shown}; give a fraction between 0 and 1, a pair (X, y), None or 'auto'")
    n_held = round(float(holdout) * n)
    if not 0 < n_held < n:
        raise DataError(
            f"holdout={holdout} of {n} {noun}s leaves {n - n_held} to learn from and {n_held} to hold out; "
            "both must be at least 1"
        )
    order = np.random.default_rng(seed).permutation(n)
    return HoldOut(np.sort(order[n_held:]), np.sort(order[:n_held]))
