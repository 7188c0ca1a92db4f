"""
EM is a DC algorithm: two certificates that never rise
======================================================

EM for a hidden Markov model, EM for a Gaussian mixture and the concave-convex procedure for a robust
regression each minimise a difference of convex functions, and use the same solver. Each iteration has a
primal and a dual value; the picture shows how far both are above their limit, and that neither ever rises.
"""

# %%
# Three states that tend to stay, six symbols, 40 sequences; the states are hidden.

import matplotlib.pyplot as plt
import numpy as np

from trellis import HMM, emissions
from trellis.hmm import fit_mixture
from trellis.training import minimise_dc
from trellis.training.robust_regression import TruncatedLeastSquares

symbols = np.array([[8, 4, 1, 1, 1, 1], [1, 1, 8, 4, 1, 1], [1, 1, 1, 1, 6, 6]]) / 16
truth = HMM(
    3,
    emissions.Categorical(6, symbols),
    initial=np.full(3, 1 / 3),
    transitions=0.85 * np.eye(3) + 0.05,
)
sequences, _ = truth.sample([50] * 40, random_state=0)
hmm = HMM(3, emissions.Categorical(6), max_iter=2000, tol=1e-9, random_state=0).fit(sequences)

# %%
# Three clusters that touch; each row starts in the cluster of the nearest of three rows drawn at random.

rng = np.random.default_rng(5)
centres = np.array([[0.0, 0.0], [4.0, 1.0], [0.0, 4.0]])
X = centres[rng.integers(3, size=500)] + rng.normal(size=(500, 2))
distances = ((X[:, None] - X[rng.choice(500, size=3, replace=False)]) ** 2).sum(axis=2)
start = np.eye(3)[distances.argmin(axis=1)]
mixture = fit_mixture(X, emissions.Gaussian("full"), start, max_iter=5000, tol=1e-13)

# %%
# A plane in five dimensions, with a third of the rows wrong; the start is least squares. No residual counts
# for more than 0.6.

rng = np.random.default_rng(0)
inputs = rng.normal(size=(300, 5))
targets = inputs @ rng.normal(size=5) + 0.2 * rng.normal(size=300)
targets[:100] += rng.normal(scale=5.0, size=100)
problem = TruncatedLeastSquares(inputs, targets, threshold=0.6, ridge=0.0, intercept=True)
regression = minimise_dc(problem, problem.least_squares(targets), max_iter=2000, tol=1e-13)

# %%
# If a certificate rises at all, the largest rise is printed here.

histories = {
    "EM, hidden Markov model": hmm.history_,
    "EM, Gaussian mixture": mixture.history,
    "CCCP, robust regression": regression.history,
}
for name, history in histories.items():
    both = np.ravel(np.column_stack([history["primal"][:-1], history["dual"]]))
    rise = max(0.0, float(np.diff(both).max()))
    print(f"{name}: {len(history['dual'])} iterations, largest rise of a certificate {rise:.1e}")

# %%
# The picture shows the first iterations of each. The primal is drawn at whole iterations, the dual half-way
# between: the half-step down to the dual is the gain of the convex problem (the M-step), the half-step
# after it the gain of the new plane (the E-step).

figure, axes = plt.subplots(1, 3, figsize=(10, 3.8))
for axis, (name, history) in zip(axes, histories.items(), strict=True):
    primal, dual = np.array(history["primal"]), np.array(history["dual"])
    above, below = primal[:-1] - primal[-1], dual - primal[-1]
    small = below < 1e-6 * above[0]  # from there on, rounding and the unknown limit spoil the picture
    last = min(int(small.argmax()) if small.any() else len(below), 40)
    steps = np.arange(last)
    zigzag = np.ravel(np.column_stack([above[:last], below[:last]]))
    axis.semilogy(np.arange(2 * last) / 2, zigzag, color="0.8", linewidth=1, zorder=1)
    axis.semilogy(steps, above[:last], "o", markersize=3.5, label="primal, g(u) - h(u)")
    axis.semilogy(steps + 0.5, below[:last], "s", markersize=3.5, label="dual, h*(v) - g*(v)")
    axis.set(title=name, xlabel="iteration")
axes[0].set_ylabel("objective above its limit")
figure.suptitle("Both certificates fall, each half a step after the other")
figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
plt.show()
