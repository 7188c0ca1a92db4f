"""scikit-learn's logistic regression with an L1 norm, as the installed version spells it."""

from __future__ import annotations

from inspect import signature
from typing import Any

from sklearn.linear_model import LogisticRegression


def l1_regression(**options: Any) -> LogisticRegression:
    """Before scikit-learn 1.8, ``penalty`` named the norm, and ``l1_ratio`` alone changed nothing."""
    by_name = signature(LogisticRegression).parameters["penalty"].default == "l2"
    return LogisticRegression(**({"penalty": "l1"} if by_name else {"l1_ratio": 1.0}), **options)
