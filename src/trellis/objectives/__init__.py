"""Objectives: what is minimised, as a function of part scores and the gold labelling."""

from trellis.objectives.records import (
    OBJECTIVES,
    Direct,
    Log,
    Margin,
    Objective,
    Perceptron,
    Ramp,
    Risk,
    Slack,
    SoftmaxMargin,
    get_objective,
)

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
    "get_objective",
]
