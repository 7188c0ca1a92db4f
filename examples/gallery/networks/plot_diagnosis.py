"""
Which alarm is the real one? Diagnosis step by step
===================================================

A patient is on a ventilator, and a monitor begins to ring. A small Bayesian network, modelled on the ALARM
network, connects four faults with six instruments. As readings come in, the probability of each fault is
computed exactly. The network also shows which instrument is worth reading next, and why the lungs matter for
the heart.
"""

# %%
# The tables are made up for this page; they are not medical advice.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from trellis.bayesnet import NetworkBuilder

two, three = ["low", "normal"], ["low", "normal", "high"]
fault, beat = ["yes", "no"], ["normal", "high"]
airway = [[[0.6, 0.3, 0.1], [0.9, 0.09, 0.01]], [[0.01, 0.14, 0.85], [0.03, 0.94, 0.03]]]
air = [[[0.99, 0.01], [0.95, 0.05]], [[0.8, 0.2], [0.02, 0.98]]]
output = [[[0.98, 0.02], [0.9, 0.1]], [[0.75, 0.25], [0.03, 0.97]]]
vein = [[[0.2, 0.4, 0.4], [0.02, 0.18, 0.8]], [[0.8, 0.19, 0.01], [0.05, 0.9, 0.05]]]
pulse = [[[0.05, 0.95], [0.2, 0.8]], [[0.15, 0.85], [0.9, 0.1]]]
net = (
    NetworkBuilder()
    .variable("Disconnected", fault, [0.02, 0.98])
    .variable("Kinked", fault, [0.03, 0.97])
    .variable("HeartFailure", fault, [0.05, 0.95])
    .variable("BloodLoss", fault, [0.08, 0.92])
    .variable("AirwayPressure", three, airway, given=["Disconnected", "Kinked"])
    .variable("Air", two, air, given=["Disconnected", "Kinked"])
    .variable("CO2", two, {"low": [0.85, 0.15], "normal": [0.05, 0.95]}, given="Air")
    .variable("Oxygen", two, {"low": [0.8, 0.2], "normal": [0.04, 0.96]}, given="Air")
    .variable("Output", two, output, given=["HeartFailure", "BloodLoss"])
    .variable("VeinPressure", three, vein, given=["HeartFailure", "BloodLoss"])
    .variable("BloodPressure", two, {"low": [0.7, 0.3], "normal": [0.05, 0.95]}, given="Output")
    .variable("Pulse", beat, pulse, given=["Output", "Oxygen"])
    .build()
)
FAULTS = ("Disconnected", "Kinked", "HeartFailure", "BloodLoss")

# %%
# The pulse is high. Then the oxygen is found low, the blood pressure normal, and the airway pressure high.

readings = {"Pulse": "high", "Oxygen": "low", "BloodPressure": "normal", "AirwayPressure": "high"}
steps = [dict(list(readings.items())[:n]) for n in range(len(readings) + 1)]
chances = np.array([[net.query(f, evidence)["yes"] for f in FAULTS] for evidence in steps])
best = net.mpe(readings)
print("most probable state of everything:", {name: best[name] for name in FAULTS})

# %%
# After the pulse alone, which instrument is most worth reading? The one whose reading is expected to leave
# the least uncertainty (entropy) about the four faults together: the pressure in the vein, which needs a
# catheter. Of the instruments at hand, it is the airway pressure.

INSTRUMENTS = ("AirwayPressure", "CO2", "Oxygen", "VeinPressure", "BloodPressure")


def entropy(evidence: dict[str, str]) -> float:
    p = net.query(list(FAULTS), evidence).values
    return float(-np.sum(p * np.log2(np.maximum(p, 1e-300))))


before = entropy(steps[1])
for name in INSTRUMENTS:
    now = net.query(name, steps[1])
    states = net.states[net.names.index(name)]
    after = sum(now[state] * entropy({**steps[1], name: state}) for state in states)
    print(f"reading {name:15} gains {before - after:.2f} of {before:.2f} bits")

# %%
# By itself, low oxygen says nothing about the heart. Once the pulse is known, it does: one cause explains
# the other away.

print(net.explain_separation("Oxygen", "HeartFailure"))
print(net.explain_separation("Oxygen", "HeartFailure", given=["Pulse"]))

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), width_ratios=[1, 1.1])
words = ["no reading", *(f"{name} {state}" for name, state in readings.items())]
for k, name in enumerate(FAULTS):
    left.plot(chances[:, k], "osD^"[k] + "-", label=name)
left.set(xticks=range(len(words)), ylim=(0, 1), xlabel="reading that is added")
left.set_ylabel("P(fault | readings so far)")
left.set_xticklabels(words, rotation=25, ha="right")
left.set_title("The pulse points to the circulation, the rest to the tube")
left.legend()
with tempfile.TemporaryDirectory() as folder:
    net.draw(Path(folder) / "net.png", observed=list(readings))
    right.imshow(plt.imread(Path(folder) / "net.png"))
right.axis("off")
right.set_title("The network (grey: readings)")
plt.show()
