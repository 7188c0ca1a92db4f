"""
Three sensors, and all of them fail for a while
===============================================

A room has two thermometers and a flow meter on its radiator. Each fails at some time, and for a while two
fail at once. A linear-Gaussian model is learned from the remaining readings, without filling in the gaps
first. The Kalman smoother then estimates what the failed sensors would have shown, with intervals that are
checked here against the readings that were removed.
"""

# %%
# The true system, which the model does not know: a slow temperature, and heating that swings around it.

import matplotlib.pyplot as plt
import numpy as np

from trellis import LinearGaussian

SENSORS = ("thermometer 1", "thermometer 2", "flow meter")
truth = LinearGaussian(
    2,
    transition=[[0.95, 0.25], [-0.2, 0.9]],
    observation=[[1.0, 0.0], [0.9, 0.2], [0.1, 1.0]],
    transition_noise=[[0.02, 0.0], [0.0, 0.05]],
    observation_noise=np.diag([0.08, 0.08, 0.05]),
    initial_covariance=np.eye(2),
)
whole, _ = truth.sample(600, random_state=3)
seen = whole.copy()
gaps = {0: [(120, 200), (430, 470)], 1: [(170, 230)], 2: [(300, 360)]}
for sensor, stretches in gaps.items():
    for first, last in stretches:
        seen[first:last, sensor] = np.nan
rng = np.random.default_rng(0)
seen[rng.random(seen.shape) < 0.05] = np.nan  # and single readings get lost
print(f"{np.isnan(seen).mean():.0%} of the readings are missing")

# %%
# EM integrates out missing readings exactly. The prediction for each sensor and its variance follow from the
# state: mean C z + d, variance C P C' + R.

model = LinearGaussian(2, random_state=0, max_iter=500, tol=1e-2).fit(seen)
print(model.status_)
state = model.smooth(seen)
C, R = model.parameters_.observation, model.parameters_.observation_noise
mean = state.means @ C.T + model.parameters_.observation_offset
width = 1.96 * np.sqrt(np.einsum("mi,tij,mj->tm", C, state.covariances, C) + np.diag(R))

# %%
# Are the intervals right? About 95% of the removed readings should lie within them. The usual stopgap, a
# straight line across each gap, is compared by its error.

gone = np.isnan(seen)
steps = np.arange(len(seen))
line = np.column_stack(
    [np.interp(steps, steps[~gone[:, k]], seen[~gone[:, k], k]) for k in range(len(SENSORS))]
)
covered = np.abs(whole - mean)[gone] <= width[gone]
print(f"{covered.mean():.1%} of {gone.sum()} missing readings are within their 95% intervals")
for name, guess in (("smoother", mean), ("straight line", line)):
    print(f"root mean square error of the {name}: {np.sqrt(np.mean((guess - whole)[gone] ** 2)):.2f}")
for words, first, last in (
    ("all sensors work", 240, 290),
    ("it fails", 120, 170),
    ("both thermometers fail", 170, 200),
):
    print(f"half-width for thermometer 1 where {words}: {width[first:last, 0].mean():.2f}")

# %%
# Where the first thermometer fails, the second stands in for it, and the band hardly widens. Where both fail
# (steps 170 to 200), only the flow meter is left, and the band widens.

figure, axes = plt.subplots(3, 1, figsize=(9, 6), sharex=True)
for k, (axis, name) in enumerate(zip(axes, SENSORS, strict=True)):
    for first, last in gaps[k]:
        axis.axvspan(first, last, color="C3", alpha=0.2, linewidth=0)
    axis.fill_between(steps, (mean - width)[:, k], (mean + width)[:, k], color="C0", alpha=0.25, linewidth=0)
    axis.plot(mean[:, k], color="C0", linewidth=1.2, label="smoothed, with 95% interval")
    axis.plot(np.where(gone[:, k], np.nan, whole[:, k]), ".", color="0.1", markersize=2.5, label="observed")
    axis.plot(np.where(gone[:, k], whole[:, k], np.nan), ".", color="C1", markersize=4, label="removed")
    axis.set(ylabel=name, xlim=(80, 500))
axes[0].set_title("Sensors that work stand in for the one that fails")
axes[0].set_ylim(-3, 4.2)
axes[0].legend(ncols=3, loc="upper left")
axes[-1].set_xlabel("step (shaded: the sensor fails)")
plt.show()
