"""
Sampling against the exact answer
=================================

Three samplers answer the same question with more and more samples, twenty times each. How far are they from
the exact answer, and do their intervals hold it as often as they claim? The evidence is rare, which makes
sampling hard.
"""

# %%
# A burglar or an earthquake may set off an alarm, upon which two neighbours may call. Both have called.

import warnings
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from trellis import errors
from trellis.bayesnet import NetworkBuilder

yes = ["yes", "no"]
net = (
    NetworkBuilder()
    .variable("Burglar", yes, [0.01, 0.99])
    .variable("Earthquake", yes, [0.02, 0.98])
    .variable(
        "Alarm",
        yes,
        [[[0.95, 0.05], [0.94, 0.06]], [[0.29, 0.71], [0.01, 0.99]]],
        given=["Burglar", "Earthquake"],
    )
    .variable("John", yes, {"yes": [0.9, 0.1], "no": [0.05, 0.95]}, given="Alarm")
    .variable("Mary", yes, {"yes": [0.7, 0.3], "no": [0.01, 0.99]}, given="Alarm")
    .build()
)
evidence = {"John": "yes", "Mary": "yes"}
exact = net.query("Burglar", evidence)["yes"]
print(
    f"P(both call) {np.exp(net.log_probability(evidence)):.4f}; P(Burglar | both call) {exact:.4f}, exactly"
)

# %%
# A Gibbs sweep redraws every variable once, so sweeps count as samples here. Answers from few samples come
# with a warning, which is silenced.

warnings.simplefilter("ignore", errors.ApproximationWarning)
SIZES, RUNS, CHAINS = (256, 1024, 4096, 16_384), 20, 4


def ask(method: str, n: int, seed: int) -> tuple[float, float, float]:
    """The answer and the ends of its 95% interval; NaN, 0 and 1 where no sample fits the evidence."""
    gibbs: dict[str, Any] = {"n_chains": CHAINS, "n_sweeps": n // CHAINS, "burn_in": 64}
    options: dict[str, Any] = gibbs if method == "gibbs" else {"n_samples": n}
    try:
        answer = net.query("Burglar", evidence, method=method, random_state=seed, **options)
    except errors.InfeasibleError:
        return np.nan, 0.0, 1.0
    return answer["yes"], *answer.interval("yes")


METHODS = ("rejection", "likelihood_weighting", "gibbs")
found = np.array([[[ask(m, n, seed) for seed in range(RUNS)] for n in SIZES] for m in METHODS])
error = np.sqrt(np.nanmean((found[..., 0] - exact) ** 2, axis=2))
held = (found[..., 1] <= exact) & (exact <= found[..., 2])
for m, method in enumerate(METHODS):
    print(f"{method:20} error with {SIZES[-1]} samples: {error[m, -1]:.4f}; intervals that hold the answer: "
          f"{held[m].sum()} of {held[m].size}")  # fmt: skip

# %%
# With every method, the error falls with the square root of the number of samples. Rejection keeps one
# sample in sixty. Likelihood weighting keeps all, but most have next to no weight here. Gibbs sampling
# averages P(Burglar | the others) over sweeps that all agree with the evidence. With each method, about 95
# in 100 intervals hold the exact answer.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.4))
for m, method in enumerate(METHODS):
    name = method.replace("_", " ").replace("gibbs", "Gibbs")
    left.loglog(SIZES, error[m], "osD"[m] + "-", label=name)
    answer, low, high = found[m, 1:2].reshape(-1, 3).T
    x = np.arange(RUNS) + (RUNS + 4) * m
    right.vlines(x, low, high, color=f"C{m}", linewidth=2)
    right.plot(x, answer, ".", color=f"C{m}")
left.loglog(SIZES, 3 / np.sqrt(SIZES), color="0.5", linestyle=":", label="slope of 1/sqrt(n)")
left.set(xlabel="samples, or sweeps", ylabel="root mean square error", title="Error over 20 runs")
left.legend(loc="lower left")
right.axhline(exact, color="0.1", linestyle="--", linewidth=1)
right.set(
    xticks=[RUNS / 2 + (RUNS + 4) * m for m in range(3)], xticklabels=["rejection", "weighting", "Gibbs"]
)
right.set(ylabel="P(Burglar | both call)", title=f"20 runs of {SIZES[1]} samples; dashed: exact", ylim=(0, 1))
right.grid(axis="x", visible=False)
plt.show()
