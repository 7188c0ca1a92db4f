"""
A heating that follows the weather: states driven by inputs
===========================================================

A heating is off or on. How often it switches depends on the temperature outside, which is known; what it
draws comes on top of what the house uses anyway, and only the sum is metered. An input-output hidden Markov model learns both from
the meter and the thermometer alone, and answers what would happen in other weather.
"""

# %%
# A month by the hour: days, nights, and warmer and colder spells.

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit

from trellis import HMM, IOHMM, emissions
from trellis.hmm.input_output import GaussianRegression

rng = np.random.default_rng(2)
HOURS, WINTERS, KNOWN = 24 * 30, 12, 8


def weather() -> np.ndarray:
    spells = np.convolve(rng.normal(0, 1, HOURS + 47), np.ones(48) / 48, mode="valid") * 25
    return (4 + spells - 3 * np.cos(2 * np.pi * np.arange(HOURS) / 24))[
        :, None
    ] / 10  # in units of 10 degrees


# from off: to on with log-odds -1.6 - 3 u; from on: to off with log-odds -3 + 3 u; weights are slope, intercept
truth = IOHMM.from_parameters(
    initial=[[0.0, 0.0], [0.0, 0.0]],
    transitions=[[[0.0, 0.0], [-3.0, -1.6]], [[3.0, -3.0], [0.0, 0.0]]],
    emission=GaussianRegression(weights=[[[0.0, 1.5]], [[-0.8, 3.0]]], covariances=[[0.3], [0.5]]),
)
temperature = [weather() for _ in range(WINTERS)]
power, states = truth.sample(temperature, random_state=1)

# %%
# Learn from eight such months; a plain hidden Markov model, which does not see the thermometer, for comparison.

model = IOHMM(2, "gaussian", random_state=0).fit(power[:KNOWN], temperature[:KNOWN])
plain = HMM(2, emissions.Gaussian("full"), n_init=4, random_state=0).fit(power[:KNOWN])
print(model.status_)
on = int(model.emission_.weights[:, 0, 1].argmax())  # states have no names: the one that draws more
plain_on = int(plain.emission_.means[:, 0].argmax())
gold = np.concatenate(states[KNOWN:])
with_inputs = np.concatenate(model.decode(power[KNOWN:], temperature[KNOWN:], method="max_marginal")) == on
without = np.concatenate(plain.decode(power[KNOWN:], method="max_marginal")) == plain_on
print(f"hours of four other months with the right state: {np.mean(with_inputs == gold):.1%} with inputs,")
print(f"{np.mean(without == gold):.1%} without; nats per hour of the meter: "
      f"{model.score(power[KNOWN:], temperature[KNOWN:]):.3f} and {plain.score(power[KNOWN:]):.3f}")  # fmt: skip

# %%
# What if tomorrow is cold? The future depends on the inputs that are given for it.

for celsius in (-5.0, 10.0):
    future = model.predict_next(power[-1:], temperature[-1:], [np.full((24, 1), celsius / 10)])[0]
    print(
        f"the last of 24 hours at {celsius:3.0f} °C: P(on) {future.states[-1, on]:.2f}, {future.mean[-1, 0]:.1f} kW"
    )

# %%
# On the left, what it learned about switching, next to the truth; most hours had temperatures in the shaded range,
# and outside of it there is little to learn from. On the right, a week of a month that it has not seen.

degrees = np.linspace(-10, 20, 61)
found = model.transition_matrix(degrees[:, None] / 10)
week = slice(24 * 20, 24 * 27)
days = np.arange(24 * 7) / 24
chance = model.smooth(power[KNOWN : KNOWN + 1], temperature[KNOWN : KNOWN + 1])[0][week, on]

figure, axes = plt.subplot_mosaic("ABB;ACC;ADD", figsize=(10, 4.8), sharex=False)
axes["A"].axvspan(
    *10 * np.quantile(np.concatenate(temperature[:KNOWN]), [0.05, 0.95]), color="0.93", linewidth=0
)
axes["A"].plot(degrees, found[:, 1 - on, on], label="off to on")
axes["A"].plot(degrees, found[:, on, 1 - on], label="on to off")
axes["A"].plot(degrees, expit(-1.6 - 3 * degrees / 10), color="0.1", linestyle=":", label="truth")
axes["A"].plot(degrees, expit(-3 + 3 * degrees / 10), color="0.1", linestyle=":")
axes["A"].set(
    xlabel="outside (°C)", ylabel="probability in an hour", title="The cold switches it on", ylim=(0, 1)
)
axes["A"].legend(loc="upper center")
axes["B"].plot(days, 10 * temperature[KNOWN][week, 0], color="C2")
axes["B"].set(ylabel="°C", title="A week of another month")
axes["C"].plot(days, power[KNOWN][week, 0], color="0.3", linewidth=1.2)
axes["C"].set(ylabel="kW")
axes["D"].fill_between(days, chance, step="mid", color="C0", alpha=0.6, linewidth=0)
axes["D"].plot(days, states[KNOWN][week], color="0.1", linestyle=":", linewidth=1.2, drawstyle="steps-mid")
axes["D"].set(xlabel="day (dotted: the truth)", ylabel="P(on)")
plt.show()
