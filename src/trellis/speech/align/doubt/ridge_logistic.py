"""Logistic regression whose weights are drawn to a prior guess: few examples leave it where it is.

    min_w  sum_i c_i log(1 + exp(-y_i w . x_i)) + (1/2) sum_j l_j (w_j - w0_j)^2,      y_i = +-1,

by Newton's method. The objective is strictly convex where every l_j > 0; a step that does not lower it is
halved.
"""

from __future__ import annotations

import numpy as np

from trellis.core.arrays import BoolArray, FloatArray

STEPS = 50
HALVINGS = 30
SMALLEST_STEP = 1e-9


def fit_logistic(
    x: FloatArray, right: BoolArray, counts: FloatArray, prior: FloatArray, penalty: FloatArray
) -> FloatArray:
    """w, (J,). ``x``: (n, J). ``counts``: (n,), how often each example counts."""
    sign = np.where(right, 1.0, -1.0)

    def objective(w: FloatArray) -> float:
        loss = np.logaddexp(0.0, -sign * (x @ w))
        return float(counts @ loss + 0.5 * penalty @ (w - prior) ** 2)

    w = np.array(prior, dtype=np.float64)
    value = objective(w)
    for _ in range(STEPS):
        p = sigmoid(x @ w)
        gradient = x.T @ (counts * (p - right)) + penalty * (w - prior)
        hessian = (x * (counts * p * (1.0 - p))[:, None]).T @ x + np.diag(penalty)
        step = np.linalg.solve(hessian, gradient)
        for _ in range(HALVINGS):
            lower = objective(w - step)
            if lower <= value:
                break
            step *= 0.5
        else:
            return w
        w, value = w - step, lower
        if float(np.abs(step).max()) < SMALLEST_STEP:
            break
    return w


def sigmoid(z: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.logaddexp(0.0, -np.asarray(z))))


def log_odds(p: FloatArray, smallest: float) -> FloatArray:
    """log p / (1 - p), of probabilities no closer to 0 and 1 than ``smallest``."""
    clipped = np.clip(p, smallest, 1.0 - smallest)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))
