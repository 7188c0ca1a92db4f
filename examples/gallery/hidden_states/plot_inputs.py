"""
Heating that follows the weather: states driven by inputs
=========================================================

A heating system is off or on. How often it switches depends on the temperature outside, which is known. Its
power comes on top of what the house uses anyway, and only the sum is metered. An input-output hidden Markov
model learns both from the meter and the thermometer alone, and predicts what would happen in other weather.
"""

# %%
# The data are hourly: days, nights, and warmer and colder spells.

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from trellis import HMM, IOHMM, emissions
from trellis.hmm.input_output import GaussianRegression

rng = np.random.default_rng(2)
hours = np.arange(24 * 30)


def month() -> np.ndarray:
    """Temperatures, in units of 10 degrees."""
    spells = 25 * np.convolve(rng.normal(size=len(hours) + 47), np.ones(48) / 48, mode="valid")
    return (4 + spells - 3 * np.cos(2 * np.pi * hours / 24))[:, None] / 10


weights, covariances = np.array([[[0.0, 1.5]], [[-0.8, 3.0]]]), np.array([[0.3], [0.5]])
# log-odds of switching on -1.6 - 3 u, of switching off -3 + 3 u; weights are slope and intercept
truth = IOHMM.from_parameters(
    initial=[[0.0, 0.0], [0.0, 0.0]],
    transitions=[[[0.0, 0.0], [-3.0, -1.6]], [[3.0, -3.0], [0.0, 0.0]]],
    emission=GaussianRegression(weights=weights, covariances=covariances),
)
known, new = [month() for _ in range(8)], [month() for _ in range(4)]
power, _ = truth.sample(known, random_state=1)
new_power, new_states = truth.sample(new, random_state=2)

# %%
# The model learns from eight months. A plain hidden Markov model, which does not see the thermometer, is
# trained for comparison. States have no names: "on" is the one with the higher power.

model = IOHMM(2, "gaussian", random_state=0).fit(power, known)
plain = HMM(2, emissions.Gaussian("full"), n_init=4, random_state=0).fit(power)
regressions: Any = model.emission_
gaussians: Any = plain.emission_
on, plain_on = regressions.weights[:, 0, 1].argmax(), gaussians.means[:, 0].argmax()
gold = np.concatenate(new_states)
found = np.concatenate(model.decode(new_power, new, method="max_marginal")) == on
plain_found = np.concatenate(plain.decode(new_power, method="max_marginal")) == plain_on
print(model.status_)
print("four new months            hours right  log-likelihood of an hour")
print(f"with the thermometer       {np.mean(found == gold):11.1%} {model.score(new_power, new):11.3f}")
print(f"without                    {np.mean(plain_found == gold):11.1%} {plain.score(new_power):11.3f}")

# %%
# What if tomorrow is cold? Forecasts depend on the inputs that you give for the future.

for celsius in (-5, 10):
    future = model.predict_next(new_power[-1:], new[-1:], [np.full((24, 1), celsius / 10)])[0]
    print(f"after 24 hours at {celsius} °C: P(on) {future.states[-1, on]:.2f}, {future.mean[-1, 0]:.1f} kW")

# %%
# On the left is what the model learned about switching, next to the truth. Nine hours in ten had
# temperatures in the shaded range; outside it there is little to learn from. On the right is a week of a
# new month.

degrees = np.linspace(-10, 20, 61)
moves = model.transition_matrix(degrees[:, None] / 10)
week, days = slice(24 * 7, 24 * 14), np.arange(24 * 7) / 24
chance = model.smooth(new_power[:1], new[:1])[0][week, on]

figure, axes = plt.subplot_mosaic("ABB;ACC;ADD", figsize=(10, 4.8))
low, high = 10 * np.quantile(np.concatenate(known), [0.05, 0.95])
axes["A"].axvspan(low, high, color="0.93", linewidth=0)
axes["A"].plot(degrees, moves[:, 1 - on, on], label="off to on")
axes["A"].plot(degrees, moves[:, on, 1 - on], label="on to off")
axes["A"].plot(degrees, expit(-1.6 - 3 * degrees / 10), color="0.1", linestyle=":", label="truth")
axes["A"].plot(degrees, expit(-3 + 3 * degrees / 10), color="0.1", linestyle=":")
axes["A"].set(title="The cold switches it on", xlabel="outside (°C)", ylabel="probability in an hour")
axes["A"].legend(loc="upper center")
axes["B"].plot(days, 10 * new[0][week], color="C2")
axes["B"].set(ylabel="°C", title="A week of a new month")
axes["C"].plot(days, new_power[0][week], color="0.3", linewidth=1.2)
axes["C"].set(ylabel="kW")
axes["D"].fill_between(days, chance, step="mid", color="C0", alpha=0.6, linewidth=0)
axes["D"].plot(days, new_states[0][week], color="0.1", linestyle=":", linewidth=1.2, drawstyle="steps-mid")
axes["D"].set(xlabel="day (dotted: the truth)", ylabel="P(on)")
plt.show()
