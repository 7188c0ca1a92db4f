"""Every objective as a formula over the list of all outputs: what the oracles, kernels, tensors and candidate
lists are tested against. Written out by name, so that no record is trusted."""

from __future__ import annotations

import numpy as np

from trellis.objectives import OBJECTIVES, Direct, Objective, get_objective

EPSILON = 0.7


class LowMargin(Objective):
    name = "half_margin"
    loss_scale = 0.5


class SoftRamp(Objective):
    name = "soft_ramp"
    total = "sum"
    baseline = "best"


class SquaredLog(Objective):
    name = "squared_log"
    total = "sum"
    loss_scale = -0.3
    link = "square"


class SquaredRamp(Objective):
    name = "squared_ramp"
    baseline = "best"
    link = "square"


OWN: list[Objective] = [LowMargin(), SoftRamp(), SquaredLog(), SquaredRamp()]
EVERY: list[Objective] = [
    *(get_objective(name) for name in OBJECTIVES if name != "direct"),
    Direct(epsilon=EPSILON),
    Direct(epsilon=EPSILON, sign="worse"),
    Direct(epsilon=EPSILON, sign="central"),
    *OWN,
]


def name_of(value: object) -> str:
    return f"{value.name}_{value.sign}" if isinstance(value, Direct) else getattr(value, "name", str(value))


def log_sum_exp(x: np.ndarray) -> float:
    top = x.max()
    return float(top + np.log(np.exp(x - top).sum())) if top > -np.inf else -np.inf


def softmax(x: np.ndarray) -> np.ndarray:
    p = np.exp(x - x.max())
    return p / p.sum()


def reference_value(
    objective: Objective, s: np.ndarray, L: np.ndarray, gold: np.ndarray, epsilon: float = EPSILON
) -> float:
    """From the scores and losses of all outputs; ``gold`` marks those that agree with what is known."""
    best_gold, sum_gold = s[gold].max(), log_sum_exp(s[gold])
    match objective.name:
        case "perceptron":
            return s.max() - best_gold
        case "margin":
            return (s + L).max() - best_gold
        case "squared_margin":
            return max((s + L).max() - best_gold, 0.0) ** 2 / 2
        case "half_margin":
            return (s + 0.5 * L).max() - best_gold
        case "slack":
            product = np.where(s > -np.inf, L * (1 + np.where(s > -np.inf, s, 0) - best_gold), -np.inf)
            return product.max()
        case "ramp":
            return (s + L).max() - s.max()
        case "squared_ramp":
            return ((s + L).max() - s.max()) ** 2 / 2
        case "soft_ramp":
            return log_sum_exp(s + L) - s.max()
        case "direct" if isinstance(objective, Direct) and objective.sign == "central":
            return ((s + epsilon * L).max() - (s - epsilon * L).max()) / (2 * epsilon)
        case "direct":
            return L[np.argmax(s)]
        case "log":
            return log_sum_exp(s) - sum_gold
        case "softmax_margin":
            return log_sum_exp(s + L) - sum_gold
        case "squared_log":
            return max(log_sum_exp(s - 0.3 * L) - sum_gold, 0.0) ** 2 / 2
        case "risk":
            return float(softmax(s) @ L)
    raise KeyError(objective.name)


def reference_coefficients(
    objective: Objective, s: np.ndarray, L: np.ndarray, gold: np.ndarray
) -> np.ndarray:
    """The gradient of a smooth objective: one coefficient for each output."""
    shares = softmax(np.where(gold, s, -np.inf))
    match objective.name:
        case "log":
            return softmax(s) - shares
        case "softmax_margin":
            return softmax(s + L) - shares
        case "squared_log":
            slope = max(log_sum_exp(s - 0.3 * L) - log_sum_exp(s[gold]), 0.0)
            return slope * (softmax(s - 0.3 * L) - shares)
        case "risk":
            p = softmax(s)
            return p * (L - p @ L)
    raise KeyError(objective.name)
