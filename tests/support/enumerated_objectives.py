"""Objectives by enumeration, from the scores and losses of all outputs of a small structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.objectives import Direct


def expected_value(objective: Any, s: np.ndarray, losses: np.ndarray, gold: np.ndarray) -> float:
    """The formulas, over all outputs; ``gold`` marks those that agree with what is known."""

    def lse(x: np.ndarray) -> float:
        return float(np.log(np.exp(x - x.max()).sum()) + x.max())

    best = s.max()
    if isinstance(objective, Direct):
        return float(losses[s.argmax()])
    if objective == "risk":
        return float(np.exp(s - lse(s)) @ losses)
    if objective == "ramp":
        return float((s + losses).max() - best)
    if objective in ("log", "softmax_margin"):
        return lse(s + losses * (objective != "log")) - lse(s[gold])
    return float((s + losses * (objective != "perceptron")).max() - s[gold].max())
