"""The record of an objective as numbers, for compiled code."""

from __future__ import annotations

from typing import NamedTuple

from trellis.core.numerics import kernel
from trellis.objectives.links import link

PLAIN, SLACK, RISK, DIRECT = range(4)
GOLD, BEST = range(2)


class Formula(NamedTuple):
    """``special``: PLAIN, or which special case. ``direction``: of the direct objective, -1 toward better
    outputs, +1 away from worse ones, 0 from worse to better ones. ``link``: see
    :mod:`trellis.objectives.links`."""

    special: int
    loss_scale: float
    baseline: int
    link: int
    direction: float


apply_link = kernel(link)
