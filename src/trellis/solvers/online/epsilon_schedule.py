"""The epsilon of fine-tuning under the direct objective, as it falls from step to step.

    eps(t) = eps_0 wide^(1 - u) narrow^u,      u = min(1, t / steps)

eps_0 is the typical gap of a wrong prediction: at 3 eps_0 the central difference is nearly the margin
objective, which moves all that is wrong; at 0.3 eps_0 nearly the task loss.
"""

from __future__ import annotations

from dataclasses import dataclass

from trellis.core.arguments import check_positive
from trellis.core.errors import DataError

WIDE, NARROW = 3.0, 0.3


@dataclass(frozen=True)
class EpsilonSchedule:
    """``schedule(t)`` is the epsilon after t of ``steps`` steps; both may be fractions.

    Examples
    --------
    >>> from trellis.neural import EpsilonSchedule
    >>> schedule = EpsilonSchedule(2.0, steps=10)
    >>> round(schedule(0), 3), round(schedule(10), 3)
    (6.0, 0.6)
    """

    eps0: float
    steps: float
    wide: float = WIDE
    narrow: float = NARROW

    def __post_init__(self) -> None:
        if self.eps0 is None:
            raise DataError(
                "eps0 is None: no prediction is wrong by a measurable gap, so there is nothing to fine-tune; "
                "measure it on other examples, or keep the model as it is"
            )
        for name in ("eps0", "steps", "wide", "narrow"):
            check_positive(name, getattr(self, name))

    def __call__(self, t: float) -> float:
        done = min(1.0, max(0.0, t / self.steps))
        return float(self.eps0 * self.wide ** (1.0 - done) * self.narrow**done)
