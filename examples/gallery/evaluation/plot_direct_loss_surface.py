"""
What the objectives look like from above
========================================

Forty short sequences of two labels are observed with noise; seven of them, the outliers, change their label
at every step. The weight of the input is 1, and the horizontal axis is the reward for keeping the label.
The outliers pull the minimum of the hinge away from the best weight; the smoothed loss of direct loss
minimisation comes close to it, at the price of local minima.
"""

import re

import matplotlib.pyplot as plt
import numpy as np

from trellis.structures.chain import Chain, ChainScores

SEQUENCES, OUTLIERS, STEPS = 40, 7, 8
STAY = 0.85  # the probability of keeping the label, in ordinary sequences
WEIGHTS = np.linspace(-1.0, 5.0, 601)

rng = np.random.default_rng(3)
ordinary = np.cumsum(rng.random((SEQUENCES - OUTLIERS, STEPS)) > STAY, axis=1) + rng.integers(2)
alternating = np.arange(STEPS) + rng.integers(2, size=(OUTLIERS, 1))
gold = (np.concatenate([ordinary, alternating]) % 2).ravel()
inputs = 2.0 * gold - 1.0 + rng.normal(0.0, 1.3, (SEQUENCES, STEPS)).ravel()  # label 1 is positive
cost, chain = 1.0 - np.eye(2)[gold], Chain()

# %%
# Four objectives
# ---------------
# With s the score, L the loss, and y* the true labelling:
#
# * task loss: L(y_hat), where y_hat = argmax s
# * hinge: max (s + L) - s(y*), a convex upper bound on the loss
# * ramp: max (s + L) - max s, an upper bound on the loss that is not convex
# * f_eps: [max (s + eps L) - max (s - eps L)] / 2 eps, between L(y-) and L(y+), and close to the loss
#
# The unit of eps is the typical gap: the median of (s(y_hat) - s(y*)) / L(y_hat) over wrong predictions.


def parts(weight: float, scale: float = 0.0) -> ChainScores:
    """The scores of all sequences, with ``scale`` times the loss added."""
    unary = np.stack([-inputs, inputs], axis=1) / 2.0 + scale * cost
    return ChainScores.of(unary, weight * np.eye(2), lengths=[STEPS] * SEQUENCES)


def highest(weight: float, scale: float = 0.0) -> float:
    return float(chain.best(parts(weight, scale)).scores.sum())


def curve(objective: str, eps: float = 1.0) -> np.ndarray:
    """An objective at every weight, as a mean over steps."""
    values = {
        "task loss": lambda w: float((chain.best(parts(w)).labels != gold).sum()),
        "hinge": lambda w: highest(w, 1.0) - chain.score(parts(w), gold).sum(),
        "ramp": lambda w: highest(w, 1.0) - highest(w),
        "f_eps": lambda w: (highest(w, eps) - highest(w, -eps)) / (2.0 * eps),
    }[objective]
    return np.array([values(w) for w in WEIGHTS]) / len(gold)


curves = {name: curve(name) for name in ("task loss", "hinge", "ramp")}
start = WEIGHTS[curves["hinge"].argmin()]
best = chain.best(parts(start))
lost = (best.labels != gold).reshape(SEQUENCES, STEPS).sum(axis=1)
gap = np.median(((best.scores - chain.score(parts(start), gold)) / np.maximum(lost, 1))[lost > 0])
for width in (3.0, 1.0, 0.3):
    curves[f"$f_\\epsilon$, $\\epsilon$ = {width:g} gap{'s' * (width != 1)}"] = curve("f_eps", width * gap)

# %%
# The minimum of each, and its task loss
# --------------------------------------

figure, axes = plt.subplots(figsize=(7.5, 5.0))
colours = {"task loss": "0.15", "hinge": "C1", "ramp": "C2"}
for k, (name, values) in enumerate(curves.items()):
    at = int(values.argmin())
    plain, wrong = re.sub(r"[$\\]", "", name), curves["task loss"][at]
    print(f"{plain:30} least at weight {WEIGHTS[at]:5.2f}, where {wrong:.1%} of the steps are wrong")
    colour = colours.get(name, ("C0", "C5", "C4")[k - 3])
    axes.plot(WEIGHTS, values, color=colour, linewidth=1.2 if k == 0 else 2.0, zorder=3 - (k > 0), label=name)
    axes.plot(WEIGHTS[at], values[at], "o", color=colour, markeredgecolor="white", markersize=9, zorder=4)
axes.set(title="Outliers move the minimum of the hinge (dots: minima)", xlim=(-1, 5), ylim=(0.1, 0.8))
axes.set(xlabel="weight of keeping the label", ylabel="mean over steps")
axes.legend(loc="upper right")
plt.show()
