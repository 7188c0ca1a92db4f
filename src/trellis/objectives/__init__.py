"""Objectives: what is minimised, as a function of part scores and the gold output.

Examples
--------
>>> from trellis import objectives
>>> sorted(objectives.OBJECTIVES)[:3]
['direct', 'log', 'margin']
"""

from trellis.objectives.records import (
    OBJECTIVES,
    Log,
    Margin,
    Objective,
    Perceptron,
    Ramp,
    SoftmaxMargin,
    SquaredMargin,
    get_objective,
    register,
)
from trellis.objectives.special_cases import Direct, Risk, Slack

__all__ = [
    "OBJECTIVES",
    "Direct",
    "Log",
    "Margin",
    "Objective",
    "Perceptron",
    "Ramp",
    "Risk",
    "Slack",
    "SoftmaxMargin",
    "SquaredMargin",
    "get_objective",
    "register",
]
